/* SPDX-License-Identifier: Apache-2.0
 *
 * The identity of a machine, as programs ask for it.
 *
 * A network card: uuid_generate_time(3), and so Python's uuid.getnode(), takes the hardware address of
 * the first interface that has an IPv4 address, Go's and Java's the first one of all, most of them
 * passing over loopback.  Where there is none they draw a number in each process.  So there is a card
 * that leads nowhere: `dummy`, or a pair of `veth` with one address, or, of a kernel that has neither,
 * the loopback device itself gets the address.  Its IPv4 address is of TEST-NET-2 (RFC 5737), with a
 * network of its own alone: there is a way to itself, and none to anything else.
 *
 * Pids: a new namespace begins at 1, as the recorded one did, so that the owner of a lock might happen
 * to live.  The kernel's last pid can be set (ns_last_pid, CONFIG_CHECKPOINT_RESTORE).  Where it cannot,
 * pids are used up: a clone(2) that is to leave a descriptor where nothing can be written has taken its
 * pid before that fails, and nothing ever runs.
 */
#include "same_machine.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CARD "eth0"
#define PEER "eth0-end"
#define ADDRESS "198.51.100.1"
#define MAC_BYTES 6
#define MACHINE_ID "/etc/machine-id"

struct request {
    struct nlmsghdr header;
    struct ifinfomsg link;
    char attributes[512];
};

static struct rtattr *add(struct request *request, unsigned short type, const void *data, size_t size)
{
    struct rtattr *made = (void *)((char *)request + NLMSG_ALIGN(request->header.nlmsg_len));

    made->rta_type = type;
    made->rta_len = (unsigned short)RTA_LENGTH(size);
    if (size > 0)
        memcpy(RTA_DATA(made), data, size);
    request->header.nlmsg_len = NLMSG_ALIGN(request->header.nlmsg_len) + (uint32_t)RTA_ALIGN(made->rta_len);
    return made;
}

static void end(struct request *request, struct rtattr *nest)
{
    nest->rta_len = (unsigned short)((char *)request + request->header.nlmsg_len - (char *)nest);
}

static void name_link(struct request *request, const char *name, const uint8_t *mac)
{
    add(request, IFLA_IFNAME, name, strlen(name) + 1);
    add(request, IFLA_ADDRESS, mac, MAC_BYTES);
}

static int make_link(const char *kind, const uint8_t *mac)
{
    struct request request = {.header = {.nlmsg_len = NLMSG_LENGTH(sizeof request.link),
                                         .nlmsg_type = RTM_NEWLINK,
                                         .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL}};
    struct {
        struct nlmsghdr header;
        struct nlmsgerr error;
        char rest[512];
    } answer;
    struct rtattr *information, *data, *peer;
    struct ifinfomsg none = {0};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    ssize_t got = -1;

    name_link(&request, CARD, mac);
    information = add(&request, IFLA_LINKINFO, NULL, 0);
    add(&request, IFLA_INFO_KIND, kind, strlen(kind));
    if (strcmp(kind, "veth") == 0) {
        data = add(&request, IFLA_INFO_DATA, NULL, 0);
        peer = add(&request, VETH_INFO_PEER, &none, sizeof none);
        name_link(&request, PEER, mac);
        end(&request, peer);
        end(&request, data);
    }
    end(&request, information);
    if (fd >= 0 && send(fd, &request, request.header.nlmsg_len, 0) >= 0)
        got = recv(fd, &answer, sizeof answer, 0);
    if (fd >= 0)
        close(fd);
    if (got < (ssize_t)NLMSG_LENGTH(sizeof answer.error) || answer.header.nlmsg_type != NLMSG_ERROR)
        return -1;
    errno = -answer.error.error;
    return errno == 0 || errno == EEXIST ? 0 : -1;
}

static int set(int fd, unsigned long what, const char *name, struct ifreq request)
{
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    return ioctl(fd, what, &request);
}

static int set_address(int fd, unsigned long what, const char *text)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    struct ifreq request = {0};

    inet_pton(AF_INET, text, &address.sin_addr);
    memcpy(&request.ifr_addr, &address, sizeof address);
    return set(fd, what, CARD, request);
}

static int set_mac(int fd, const char *name, unsigned short family, const uint8_t *mac)
{
    struct ifreq request = {.ifr_hwaddr = {.sa_family = family}};

    memcpy(request.ifr_hwaddr.sa_data, mac, MAC_BYTES);
    return set(fd, SIOCSIFHWADDR, name, request);
}

static const struct ifreq up = {.ifr_flags = IFF_UP};

int machine_loopback(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), result;

    result = fd < 0 ? -1 : set(fd, SIOCSIFFLAGS, "lo", up); /* it gets its addresses by that */
    close(fd);
    return result;
}

int machine_card(const char *mac)
{
    uint8_t bytes[MAC_BYTES];
    int fd, result = -1;

    if (sscanf(mac, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", bytes, bytes + 1, bytes + 2, bytes + 3, bytes + 4,
               bytes + 5) != MAC_BYTES) {
        errno = EINVAL;
        return -1;
    }
    if ((fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) < 0)
        return -1;
    if (make_link("dummy", bytes) != 0 && make_link("veth", bytes) != 0)
        result = set_mac(fd, "lo", ARPHRD_LOOPBACK, bytes);
    else if (set_mac(fd, CARD, ARPHRD_ETHER, bytes) == 0 && /* that of an earlier call */
             set_address(fd, SIOCSIFADDR, ADDRESS) == 0 &&
             set_address(fd, SIOCSIFNETMASK, "255.255.255.255") == 0) {
        result = set(fd, SIOCSIFFLAGS, CARD, up);
        set(fd, SIOCSIFFLAGS, PEER, up); /* if there is one */
    }
    close(fd);
    return result;
}

/* Copies what is at `from` into `to`. */
static int copy(const char *from, int to)
{
    int fd = open(from, O_RDONLY | O_CLOEXEC);
    char part[4096];
    ssize_t got;

    if (fd < 0)
        return -1;
    while ((got = read(fd, part, sizeof part)) > 0 && write(to, part, (size_t)got) == got)
        ;
    close(fd);
    return got == 0 ? 0 : -1;
}

/* Makes the file that is shown as `path`, with `text`, behind what `before` holds. */
static int keep(const char *kept, const char *path, const char *before, const char *text)
{
    char at[512];
    bool made;
    int fd;

    snprintf(at, sizeof at, "%s%s", kept, strrchr(path, '/'));
    fd = open(at, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    made = fd >= 0 && (before == NULL || copy(before, fd) == 0) && dprintf(fd, "%s\n", text) > 0;
    if (fd >= 0)
        close(fd);
    return made ? 0 : -1;
}

/* Shows `text` as the file `path` below `root`, behind what that holds if it `adds`.  Where there is no
 * such file there is none for the run, either. */
static int show(const char *root, const char *path, const char *text, bool adds, const char *kept)
{
    char place[512], at[512];
    struct stat status;

    snprintf(place, sizeof place, "%s%s", root, path);
    snprintf(at, sizeof at, "%s%s", kept, strrchr(path, '/'));
    if (lstat(place, &status) != 0 || !S_ISREG(status.st_mode))
        return 0;
    if (keep(kept, path, adds ? place : NULL, text) != 0 || mount(at, place, NULL, MS_BIND, NULL) != 0)
        return -1;
    return mount(NULL, place, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL);
}

int machine_files(const char *root, const char *id, const char *kept, bool again)
{
    if (again)
        return keep(kept, MACHINE_ID, NULL, id);
    if ((mkdir(kept, 0755) != 0 && errno != EEXIST) || show(root, MACHINE_ID, id, false, kept) != 0 ||
        show(root, "/var/lib/dbus/machine-id", id, false, kept) != 0 ||
        show(root, "/etc/hostname", MACHINE_NAME, false, kept) != 0)
        return -1;
    return show(root, "/etc/hosts", "127.0.1.1 " MACHINE_NAME, true, kept);
}

static int nothing(void *unused)
{
    (void)unused;
    return 0;
}

/* Takes the next pid; that of a child that has ended, or -1 with `fails`. */
static pid_t take_pid(bool fails)
{
    static char stack[16384] __attribute__((aligned(16)));
    static const int shared = CLONE_VM | CLONE_VFORK | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | SIGCHLD;
    pid_t child;

    child = clone(nothing, stack + sizeof stack, shared | (fails ? CLONE_PIDFD : 0), NULL, (void *)8);
    if (child > 0)
        waitpid(child, NULL, 0);
    return child;
}

int machine_pids(int proc, int first)
{
    int fd = openat(proc, "sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC);
    bool set = false;
    pid_t pid;

    if (fd >= 0) {
        set = dprintf(fd, "%d", first - 1) > 0;
        close(fd);
    }
    if (set)
        return 0;
    for (pid = take_pid(false); pid > 0 && pid < first - 1; pid++)
        take_pid(true);
    return pid > 0 ? 0 : -1;
}
