/* SPDX-License-Identifier: Apache-2.0
 *
 * A root file system for anybody's program: the image on a second disk, read-only, with file
 * systems in memory where programs write as a matter of course; and the program's folder, on a
 * third one if it is not in the root.  Or the host's own, shared (share.c).
 *
 * What is in it is a stranger's, and stays in the guest.  The only network is the loopback device,
 * beside a card that leads nowhere: a database may talk to its client, and to nothing else.
 */
#include "agent.h"

#include "../../harness/guard/same_machine.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define DISK_TIMEOUT_MS 10000
#define PROGRAM "/opt/powercut" /* as powercut.workload.program.workload says */

static bool over(const char *type, const char *folder, const char *options)
{
    char path[512];

    snprintf(path, sizeof path, AGENT_ROOT "%s", folder);
    return mount(type, path, type, 0, options) == 0 || failed(errno, "mount %s on %s", type, path);
}

static bool loopback_up(void)
{
    struct ifreq request = {.ifr_name = "lo"};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool up = fd >= 0 && ioctl(fd, SIOCGIFFLAGS, &request) == 0;

    if (up) {
        request.ifr_flags |= IFF_UP;
        up = ioctl(fd, SIOCSIFFLAGS, &request) == 0;
    }
    if (!up)
        failed(errno, "bring the loopback device up");
    if (fd >= 0)
        close(fd);
    return up;
}

static bool mount_disk(const char *serial, const char *type, const char *folder)
{
    char name[256], node[300];

    if (!find_by_serial(serial, name, sizeof name, DISK_TIMEOUT_MS) || !wait_device(name, DISK_TIMEOUT_MS))
        return false;
    snprintf(node, sizeof node, "/dev/%s", name);
    if (mount(node, folder, type, MS_RDONLY, "")) {
        failed(errno, "mount %s %s on %s", type, node, folder);
        return failed_as(PC_FAULT_MOUNT);
    }
    return true;
}

bool root_show(const char *from, char *to)
{
    char *name = strrchr(to, '/');
    int fd;

    *name = '\0';
    if (!make_directories(to))
        return false;
    *name = '/';
    fd = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    if (fd < 0)
        return failed(errno, "open %s", to);
    close(fd);
    return mount(from, to, NULL, MS_BIND, NULL) == 0 || failed(errno, "mount %s on %s", from, to);
}

/* Mounts over what is on AGENT_ROOT all that programs expect of a running system. */
bool root_furnish(void)
{
    static const char *const in_memory[] = {"/run", "/var/tmp", "/dev/shm"};

    if (!over("devtmpfs", "/dev", NULL) || !over("proc", "/proc", NULL) ||
        !over("sysfs", "/sys", NULL) || !make_directories(AGENT_ROOT "/dev/shm"))
        return false;
    for (size_t i = 0; i < sizeof in_memory / sizeof *in_memory; i++)
        if (!over("tmpfs", in_memory[i], "mode=1777"))
            return false;
    return loopback_up();
}

/* Makes what programs see of the machine that of the recording (harness/guard/same_machine.h).  What is
 * there of devices then is all: what a program wrote beside them would be in no state. */
bool root_machine(const char *mac, const char *id, const char *first_pid)
{
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const char *call = NULL;

    if (sethostname(MACHINE_NAME, strlen(MACHINE_NAME)) != 0 || machine_card(mac) != 0)
        call = "make a network card";
    else if (machine_files(AGENT_ROOT, id, "/run/machine", false) != 0)
        call = "show a machine-id";
    else if (machine_pids(proc, atoi(first_pid)) != 0)
        call = "choose pids";
    else if (mount(AGENT_ROOT "/dev", AGENT_ROOT "/dev", NULL, MS_BIND | MS_REC, NULL) != 0 ||
             mount(NULL, AGENT_ROOT "/dev", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID, NULL) != 0)
        call = "make /dev read-only";
    if (call)
        failed(errno, "%s", call);
    close(proc);
    return !call;
}

/* `program` is the serial number of the disk with a program's folder; NULL for none. */
bool root_mount(const char *serial, const char *type, const char *program)
{
    return make_directories(AGENT_ROOT) && mount_disk(serial, type, AGENT_ROOT) &&
           (!program || mount_disk(program, type, AGENT_ROOT PROGRAM)) && root_furnish() &&
           over("tmpfs", "/tmp", "mode=1777");
}
