/* SPDX-License-Identifier: Apache-2.0
 *
 * The nodes of a cluster: one kernel and one clock, and for each node a disk, a network, processes
 * and folders in memory of its own.
 *
 *     setup DIR NODE, node DIR NODE      on each node, which sees no other's disk
 *     run DIR, check DIR                 once all nodes have started: the client, which sees no disk
 *
 * Whoever starts a verb gets the pid of a supervisor.  It has a network namespace with a bridge, on
 * which each node has one end of a veth pair (network_namespaces(7), veth(4)), and ends with the
 * client, and all nodes with it.  What a node prints is kept, and shown if the node fails.
 *
 * A node may lose its power while the others and the client go on: its processes are killed, and no
 * namespace has its disk any more (nodes_end, disks_let_go).  What that holds from then on is for
 * those to decide who serve it.  Then the node begins again as it did first (nodes_begin).
 */
#include "init.h"

#include "../common/press.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define BRIDGE "nodes"
#define NETWORK "10.77.0." /* of addresses that nobody else has here: there is no way out */
#define CLIENT 254
#define FAILED 125 /* a status, as of those who start programs (env(1)) */
#define SHOWN 600  /* bytes of what a node has printed */
#define APART (CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS | CLONE_NEWIPC)

static struct node {
    const char *name;
    int printed; /* a file in memory */
} nodes[DISKS_MAX];

/* What PID 1 and the supervisor share. */
static volatile struct shared {
    pid_t supervisor;
    struct {
        pid_t init; /* the first process of its namespace; 0: it has ended */
        bool killed; /* because it is to lose its power */
        bool begins; /* is asked for, and not yet done */
    } node[DISKS_MAX];
} *shared;
#define WAIT_MS 5000 /* for what takes some milliseconds */
static unsigned count;
static char *const *words; /* the verb's own command line */
static unsigned length;
static const char *data; /* its last word, DIR */

_Noreturn static void give_up(const char *what)
{
    fprintf(stderr, "powercut: nodes: %s: %s\n", what, strerror(errno));
    _exit(FAILED);
}

/* Where the file systems lie as programs see them. */
static const char *point(void)
{
    return plan.mount_point + strlen(plan.root);
}

static void folder_of(unsigned index, char *path)
{
    const char *base = strrchr(data, '/') + 1;
    int size = index == 0 ? snprintf(path, PATH_MAX, "%s", data)
                          : snprintf(path, PATH_MAX, "%s/%s/%s", point(), nodes[index].name, base);

    if (size >= PATH_MAX) {
        errno = ENAMETOOLONG;
        give_up("a folder");
    }
}

/* Network: a bridge by its old requests, and a veth by the one message that it takes. */

static void interface_up(const char *name, unsigned number)
{
    struct ifreq request = {0};
    struct sockaddr_in address = {.sin_family = AF_INET};
    char text[32];
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (number != 0) {
        snprintf(text, sizeof text, NETWORK "%u", number);
        inet_pton(AF_INET, text, &address.sin_addr);
        memcpy(&request.ifr_addr, &address, sizeof address);
        if (ioctl(fd, SIOCSIFADDR, &request) != 0)
            give_up("SIOCSIFADDR");
        inet_pton(AF_INET, "255.255.255.0", &address.sin_addr);
        memcpy(&request.ifr_netmask, &address, sizeof address);
        if (ioctl(fd, SIOCSIFNETMASK, &request) != 0)
            give_up("SIOCSIFNETMASK");
    }
    close(fd);
    if (link_up(name) != 0)
        give_up(name);
}

struct message {
    struct nlmsghdr head;
    struct ifinfomsg link;
    char attributes[256];
};

static struct rtattr *attribute(struct message *message, unsigned short type, const void *value,
                                size_t size)
{
    struct rtattr *made = (struct rtattr *)((char *)message + NLMSG_ALIGN(message->head.nlmsg_len));

    made->rta_type = type;
    made->rta_len = (unsigned short)RTA_LENGTH(size);
    if (size != 0)
        memcpy(RTA_DATA(made), value, size);
    message->head.nlmsg_len = NLMSG_ALIGN(message->head.nlmsg_len) + RTA_ALIGN(made->rta_len);
    return made;
}

static void ends_here(struct message *message, struct rtattr *outer)
{
    outer->rta_len = (unsigned short)((char *)message + message->head.nlmsg_len - (char *)outer);
}

static int answered(int fd)
{
    struct {
        struct nlmsghdr head;
        struct nlmsgerr error;
        char rest[512];
    } answer;

    if (recv(fd, &answer, sizeof answer, 0) < (ssize_t)NLMSG_LENGTH(sizeof answer.error))
        return -1;
    errno = -answer.error.error;
    return errno == 0 ? 0 : -1;
}

/* `name` on this side, and eth0 in the network of the process `peer`, with the same address of its
 * card each time: others remember it (arp(7)). */
static void make_veth(const char *name, pid_t peer, unsigned index)
{
    const uint8_t card[6] = {2, 0, 10, 77, 0, (uint8_t)(index + 1)};
    struct message message = {.head = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)),
                                       .nlmsg_type = RTM_NEWLINK,
                                       .nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_EXCL |
                                                      NLM_F_ACK}};
    struct ifinfomsg none = {0};
    struct rtattr *information, *inner, *other;
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

    attribute(&message, IFLA_IFNAME, name, strlen(name) + 1);
    information = attribute(&message, IFLA_LINKINFO, NULL, 0);
    attribute(&message, IFLA_INFO_KIND, "veth", 4);
    inner = attribute(&message, IFLA_INFO_DATA, NULL, 0);
    other = attribute(&message, VETH_INFO_PEER, &none, sizeof none);
    attribute(&message, IFLA_IFNAME, "eth0", 5);
    attribute(&message, IFLA_ADDRESS, card, sizeof card);
    attribute(&message, IFLA_NET_NS_PID, &peer, sizeof peer);
    ends_here(&message, other);
    ends_here(&message, inner);
    ends_here(&message, information);
    if (fd < 0 || send(fd, &message, message.head.nlmsg_len, 0) < 0 || answered(fd) != 0)
        give_up("make a veth pair");
    close(fd);
}

static void join_bridge(const char *name)
{
    struct ifreq request = {0};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    snprintf(request.ifr_name, sizeof request.ifr_name, BRIDGE);
    request.ifr_ifindex = (int)if_nametoindex(name);
    if (ioctl(fd, SIOCBRADDIF, &request) != 0)
        give_up("SIOCBRADDIF");
    close(fd);
    interface_up(name, 0);
}

static void make_network(void)
{
    int fd;

    if (unshare(CLONE_NEWNET) != 0)
        give_up("a network");
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (ioctl(fd, SIOCBRADDBR, BRIDGE) != 0)
        give_up("make a bridge");
    close(fd);
    interface_up("lo", 0);
    interface_up(BRIDGE, CLIENT);
}

/* Becomes a program; `node` is NULL for the client. */
_Noreturn static void become(char *const argv[], const struct node *node)
{
    static char *environment[ARGUMENTS_MAX + 4];
    static char all[512], name[64], address[64];
    unsigned index, used = 0;
    size_t at = (size_t)snprintf(all, sizeof all, "POWERCUT_NODES=");

    for (; plan.environment[used] != NULL; used++)
        environment[used] = plan.environment[used];
    for (index = 0; index < count; index++)
        at += (size_t)snprintf(all + at, sizeof all - at, "%s%s=" NETWORK "%u", index ? " " : "",
                               nodes[index].name, index + 1);
    environment[used++] = all;
    if (node != NULL) {
        snprintf(name, sizeof name, "POWERCUT_NODE=%s", node->name);
        snprintf(address, sizeof address, "POWERCUT_ADDRESS=" NETWORK "%u",
                 (unsigned)(node - nodes) + 1);
        environment[used++] = name;
        environment[used++] = address;
    }
    if (apart())
        execve(argv[0], argv, environment);
    give_up(argv[0]);
}

/* The disks of all others are not mounted: the client sees none, and `mine` is DISKS_MAX.  The first
 * disk's file system has the folders in which the others are mounted. */
static void let_go_of_others(unsigned mine)
{
    char path[PATH_MAX];
    unsigned index;
    int kept = -1;

    if (mine > 0 && mine < count) {
        snprintf(path, sizeof path, "%s/%s", plan.mount_point, nodes[mine].name);
        kept = (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        if (kept < 0)
            give_up(path);
    }
    for (index = 1; mine == 0 && index < count; index++) {
        snprintf(path, sizeof path, "%s/%s", plan.mount_point, nodes[index].name);
        if (umount2(path, MNT_DETACH) != 0)
            give_up(path);
    }
    if (mine == 0)
        return;
    if (umount2(plan.mount_point, MNT_DETACH) != 0 ||
        mount("tmpfs", plan.mount_point, "tmpfs", 0, "mode=755") != 0)
        give_up(plan.mount_point);
    if (kept < 0)
        return;
    snprintf(path, sizeof path, "%s/%s", plan.mount_point, nodes[mine].name);
    if (mkdir(path, 0755) != 0 ||
        syscall(SYS_move_mount, kept, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) != 0)
        give_up(path);
    close(kept);
}

static void keep_printed(const struct node *node)
{
    int nothing = open("/dev/null", O_RDONLY);

    if (dup2(nothing, 0) < 0 || dup2(node->printed, 1) < 0 || dup2(node->printed, 2) < 0 ||
        dup2(node->printed, CHANNEL) < 0)
        give_up("the output of a node");
}

/* The first process of a node: it ends with the last process there, as the first one has ended. */
_Noreturn static void be_node(unsigned index, const char *verb)
{
    char *argv[ARGUMENTS_MAX + 2], folder[PATH_MAX];
    unsigned word;
    int status, how = 0;
    pid_t server, ended;

    interface_up("lo", 0);
    interface_up("eth0", index + 1);
    if (sethostname(nodes[index].name, strlen(nodes[index].name)) != 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        give_up(nodes[index].name);
    let_go_of_others(index);
    if (root_apart() != 0)
        give_up((const char *)page->what);
    folder_of(index, folder);
    for (word = 0; word + 2 < length; word++)
        argv[word] = words[word];
    argv[word++] = (char *)verb;
    argv[word++] = folder;
    argv[word++] = (char *)nodes[index].name;
    argv[word] = NULL;
    server = fork();
    if (server == 0) {
        keep_printed(&nodes[index]);
        become(argv, &nodes[index]);
    }
    while ((ended = wait(&status)) > 0 || errno == EINTR)
        if (ended == server)
            how = status;
    _exit(status_of(how));
}

static void start_node(unsigned index, const char *verb)
{
    static unsigned started; /* the end of one that was killed may be there for a while */
    char name[32];
    int go[2];
    pid_t child;

    if (pipe2(go, O_CLOEXEC) != 0)
        give_up("a pipe");
    child = (pid_t)syscall(SYS_clone, SIGCHLD | APART, NULL, NULL, NULL, NULL);
    if (child == 0) {
        close(go[1]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (read(go[0], name, 1) != 1)
            _exit(FAILED);
        be_node(index, verb);
    }
    snprintf(name, sizeof name, "node%u", started++);
    if (child < 0)
        give_up("a node");
    make_veth(name, child, index);
    join_bridge(name);
    shared->node[index].init = child;
    if (write(go[1], "g", 1) != 1)
        give_up("start a node");
    close(go[0]);
    close(go[1]);
}

static void show_printed(const struct node *node, int status)
{
    char text[SHOWN + 1];
    off_t size = lseek(node->printed, 0, SEEK_END);
    ssize_t got = pread(node->printed, text, SHOWN, size > SHOWN ? size - SHOWN : 0);

    text[got < 0 ? 0 : got] = '\0';
    fprintf(stderr, "node %s ended with status %d: %s\n", node->name, status, text);
}

static void set_up_each(void)
{
    char path[PATH_MAX], inside[PATH_MAX];
    unsigned index;
    int how;

    for (index = 0; index < count; index++) {
        folder_of(index, inside);
        if (snprintf(path, sizeof path, "%s%s", plan.root, inside) >= (int)sizeof path ||
            (mkdir(path, 0755) != 0 && errno != EEXIST))
            give_up(inside);
        start_node(index, words[length - 2]);
        if (waitpid(shared->node[index].init, &how, 0) != shared->node[index].init)
            give_up("wait for setup");
        if (status_of(how) != 0) {
            show_printed(&nodes[index], status_of(how));
            _exit(status_of(how));
        }
    }
    _exit(0);
}

_Noreturn static void be_client(int channel)
{
    char path[PATH_MAX];

    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        give_up("the client's folders");
    let_go_of_others(DISKS_MAX);
    snprintf(path, sizeof path, "%s%s", plan.root, data);
    if (mkdir(path, 0755) != 0)
        give_up(path);
    if (channel == CHANNEL ? fcntl(channel, F_SETFD, 0) != 0 : dup2(channel, CHANNEL) < 0)
        give_up("the channel");
    become(words, NULL);
}

/* Whether a node has ended as no server ends by itself: it could not be made, or had no memory. */
static bool is_ours(int status)
{
    return status == FAILED || status == 128 + SIGKILL;
}

/* Whether the fault is ours. */
static bool node_ended(unsigned index, int status, bool works, int channel)
{
    shared->node[index].init = 0;
    if (shared->node[index].killed)
        return false;
    show_printed(&nodes[index], status);
    if (is_ours(status))
        return true;
    if (works)
        dprintf(channel, "! node %s ended with status %d\n", nodes[index].name, status);
    return false;
}

static void begin_those_asked_for(void)
{
    unsigned index;

    for (index = 0; index < count; index++)
        if (shared->node[index].begins) {
            start_node(index, "node");
            shared->node[index].killed = shared->node[index].begins = false;
        }
}

/* Until the client has ended, whose word counts for nothing where the fault of a node is ours.  A
 * node that ends before while the client works is trouble. */
static int wait_for_client(pid_t client, int channel)
{
    bool works = strcmp(words[length - 2], "run") == 0;
    unsigned index;
    pid_t ended;
    int how;

    while ((ended = wait(&how)) != client) {
        if (ended < 0 && errno != EINTR)
            give_up("wait for the client");
        begin_those_asked_for();
        for (index = 0; index < count && ended > 0; index++)
            if (shared->node[index].init == ended &&
                node_ended(index, status_of(how), works, channel))
                return FAILED;
    }
    return status_of(how);
}

static void wake(int signal)
{
    (void)signal; /* a wait ends with EINTR */
}

_Noreturn static void supervise(int channel)
{
    struct sigaction woken = {.sa_handler = wake};
    unsigned index;
    pid_t client;
    int status;

    sigaction(SIGUSR1, &woken, NULL);
    press_forget();
    for (index = 0; index < count; index++)
        if ((nodes[index].printed = memfd_create("printed", MFD_CLOEXEC)) < 0)
            give_up("memory for what a node prints");
    make_network();
    if (strcmp(words[length - 2], "setup") == 0)
        set_up_each();
    for (index = 0; index < count; index++)
        start_node(index, "node");
    client = fork();
    if (client == 0)
        be_client(channel);
    status = client < 0 ? FAILED : wait_for_client(client, channel);
    for (index = 0; index < count; index++)
        if (shared->node[index].init > 0)
            kill(shared->node[index].init, SIGKILL);
    _exit(status);
}

bool nodes_run(char *const argv[])
{
    static const char *const verbs[] = {"setup", "run", "check"};
    unsigned index;

    for (count = 0; plan.nodes[count] != NULL && count < DISKS_MAX; count++)
        nodes[count] = (struct node){.name = plan.nodes[count], .printed = -1};
    for (length = 0; argv[length] != NULL; length++)
        ;
    if (count == 0 || length < 3 || plan.root == NULL || strchr(argv[length - 1], '/') == NULL)
        return false;
    words = argv;
    data = argv[length - 1];
    for (index = 0; index < sizeof verbs / sizeof *verbs; index++)
        if (strcmp(argv[length - 2], verbs[index]) == 0)
            return true;
    return false;
}

pid_t nodes_start(int channel)
{
    pid_t child;

    if (shared == NULL)
        shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset((void *)shared, 0, sizeof *shared);
    child = fork();
    if (child == 0)
        supervise(channel);
    shared->supervisor = child;
    return child;
}

static bool is_done(unsigned index, bool begins)
{
    return begins ? !shared->node[index].begins : shared->node[index].init == 0;
}

/* Those whose bits are set in page->offset; the supervisor is woken until they have ended or begun. */
static int each_asked_for(bool begins)
{
    unsigned index, waited;

    for (index = 0; index < count; index++) {
        if ((page->offset >> index & 1) == 0)
            continue;
        if (begins) {
            shared->node[index].begins = true;
        } else if (shared->node[index].init > 0) {
            shared->node[index].killed = true;
            kill(shared->node[index].init, SIGKILL);
        }
        for (waited = 0; !is_done(index, begins); waited++) {
            errno = ETIME;
            if (waited == WAIT_MS)
                return fail(PCU_STEP_CHECK, "node %s", nodes[index].name);
            kill(shared->supervisor, SIGUSR1);
            usleep(1000);
        }
    }
    return 0;
}

int nodes_end(void)
{
    return each_asked_for(false);
}

int nodes_begin(void)
{
    return each_asked_for(true);
}
