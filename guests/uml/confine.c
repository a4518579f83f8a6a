/* SPDX-License-Identifier: Apache-2.0
 *
 * What programs may not do in this kernel, root among them.
 *
 * The kernel's hostfs shows whatever the host lets its process open.  A program that could mount
 * it, or have the kernel or PID 1 do so, would be out: so all capabilities that lead there are taken
 * from the bounding set of what is started, from which nothing comes back, neither at the start of
 * a setuid program nor in a user namespace (hostfs may be mounted from the first one alone).  What
 * the kernel starts for itself (core_pattern, modprobe, uevents) has no capability at all.
 *
 * What is left is what servers need that begin as root: to become another user, to own, read and
 * signal what is others'.
 *
 * Three walls have another behind them, and stay for what that does not keep.  A program cannot make
 * a namespace of users anyhow, as it has changed its root (create_user_ns in Linux's
 * kernel/user_namespace.c), but what the kernel starts for itself has not.  Of character devices
 * /dev/mem wants CAP_SYS_RAWIO and /dev/kmsg CAP_SYSLOG (Debian's setting), and neither has a node:
 * the nodes keep them should a capability be left, and the other way round.
 */
#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define PROCESSES_MAX "2000"
#define PIDS_MAX "4194304" /* the most that there can be (proc(5)) */

/* linux/capability.h, Linux 6.18 */
static const int kept[] = {
    CAP_CHOWN,           CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER,
    CAP_FSETID,          CAP_KILL,         CAP_SETGID,          CAP_SETUID,
    CAP_SETPCAP,         CAP_SETFCAP,      CAP_IPC_LOCK,        CAP_IPC_OWNER,
    CAP_LEASE,           CAP_SYS_NICE,     CAP_SYS_RESOURCE,    CAP_NET_BIND_SERVICE,
    CAP_LINUX_IMMUTABLE, CAP_AUDIT_WRITE,
};

static bool is_kept(int capability)
{
    size_t index;

    for (index = 0; index < sizeof kept / sizeof *kept; index++)
        if (kept[index] == capability)
            return true;
    return false;
}

/* Of the calling process and all that it starts; to be followed by an exec. */
int confine(void)
{
    int capability, has;

    for (capability = 0; (has = prctl(PR_CAPBSET_READ, capability, 0, 0, 0)) >= 0; capability++)
        if (has != 0 && !is_kept(capability) && prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0)
            return -1;
    return 0;
}

/* Of an older kernel, which has no such file, nothing can be taken. */
static void write_setting(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd < 0 && errno == ENOENT)
        return;
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        die(path);
    close(fd);
}

void confine_helpers(void)
{
    write_setting("/proc/sys/kernel/usermodehelper/bset", "0 0\n");
    write_setting("/proc/sys/kernel/usermodehelper/inheritable", "0 0\n");
    write_setting("/proc/sys/user/max_user_namespaces", "0\n");
    write_setting("/proc/sys/kernel/pid_max", PIDS_MAX "\n"); /* they never begin anew */
    write_setting("/proc/sys/kernel/threads-max", PROCESSES_MAX "\n"); /* each is one of the host's */
}

static const struct {
    const char *name;
    unsigned major, minor;
} devices[] = {
    {"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9},
    {"tty", 5, 0}, {"ttyS2", 4, 66}, /* a person's terminal (boot.py) */
};

static const struct {
    const char *name, *to;
} links[] = {
    {"fd", "/proc/self/fd"},
    {"stdin", "/proc/self/fd/0"},
    {"stdout", "/proc/self/fd/1"},
    {"stderr", "/proc/self/fd/2"},
    {"ptmx", "pts/ptmx"},
};

/* No disk, no memory of the kernel's, nothing that is shared with the controller. */
int confine_devices(const char *folder)
{
    char path[256];
    size_t index;

    if (mount("dev", folder, "tmpfs", MS_NOSUID, "mode=755") != 0)
        return fail(PCU_STEP_CHECK, "mount tmpfs on %s", folder);
    for (index = 0; index < sizeof devices / sizeof *devices; index++) {
        snprintf(path, sizeof path, "%s/%s", folder, devices[index].name);
        if (mknod(path, S_IFCHR | 0666, makedev(devices[index].major, devices[index].minor)) != 0 ||
            chmod(path, 0666) != 0)
            return fail(PCU_STEP_CHECK, "mknod %s", path);
    }
    for (index = 0; index < sizeof links / sizeof *links; index++) {
        snprintf(path, sizeof path, "%s/%s", folder, links[index].name);
        if (symlink(links[index].to, path) != 0)
            return fail(PCU_STEP_CHECK, "symlink %s", path);
    }
    snprintf(path, sizeof path, "%s/pts", folder);
    if (mkdir(path, 0755) != 0)
        return fail(PCU_STEP_CHECK, "mkdir %s", path);
    if (mount("pts", path, "devpts", MS_NOSUID | MS_NOEXEC, "ptmxmode=0666,mode=0620") != 0)
        return fail(PCU_STEP_CHECK, "mount devpts on %s", path);
    return 0;
}
