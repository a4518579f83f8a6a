/* SPDX-License-Identifier: Apache-2.0
 *
 * Users of a sandbox that are no users of the host.
 *
 * Root's sandbox has a namespace of users of its own: its root is, to the host, a user whom nothing
 * belongs to, and its user N another one.  What it is to have, the tree under test above all, belongs
 * to root and others on the host, and stays theirs: an idmapped mount (Linux 5.12, mount_setattr(2))
 * shows it with the namespace's users as owners, and what is made there is root's on the disk.
 *
 * An overlay has such a mount as its lower layer since Linux 5.19 (veil.c).
 */
#include "users.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAP "0 2147418112 2147483648\n" /* from 0x7fff0000 on: beyond what is given to users */
#define RECURSIVE 0x8000
#define FROM_DESCRIPTOR 4 /* MOVE_MOUNT_F_EMPTY_PATH */

int open_proc(void)
{
    int proc = (int)syscall(SYS_fsopen, "proc", 1 /* FSOPEN_CLOEXEC */), root = -1;

    if (proc >= 0 && syscall(SYS_fsconfig, proc, 6 /* FSCONFIG_CMD_CREATE */, NULL, NULL, 0) == 0)
        root = (int)syscall(SYS_fsmount, proc, 1 /* FSMOUNT_CLOEXEC */,
                            MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    close(proc);
    return root;
}

static int write_map(int proc, pid_t of, const char *which)
{
    char path[64];
    int fd, written;

    snprintf(path, sizeof path, "%d/%s", (int)of, which);
    if ((fd = openat(proc, path, O_WRONLY | O_CLOEXEC)) < 0)
        return -1;
    written = (int)write(fd, MAP, strlen(MAP));
    close(fd);
    return written < 0 ? -1 : 0;
}

static int is_new_enough(void)
{
    struct utsname kernel;
    int major, minor;

    if (uname(&kernel) == 0 && sscanf(kernel.release, "%d.%d", &major, &minor) == 2 &&
        (major > 5 || (major == 5 && minor >= 19)))
        return 1;
    errno = ENOSYS;
    return 0;
}

int users_make(void)
{
    int said[2], users = -1, proc, error;
    char path[64], made = 0;
    pid_t child, parent;

    if (!is_new_enough() || pipe2(said, O_CLOEXEC) != 0)
        return -1;
    parent = getpid();
    if ((child = fork()) == 0) { /* whose namespace it is, until there is a descriptor */
        made = unshare(CLONE_NEWUSER) == 0 ? 1 : 0;
        if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 && getppid() == parent &&
            write(said[1], &made, 1) == 1)
            pause();
        _exit(0);
    }
    close(said[1]);
    proc = open_proc();
    errno = EPERM;
    if (child > 0 && read(said[0], &made, 1) == 1 && made != 0 &&
        write_map(proc, child, "gid_map") == 0 && write_map(proc, child, "uid_map") == 0) {
        snprintf(path, sizeof path, "%d/ns/user", (int)child);
        users = openat(proc, path, O_RDONLY | O_CLOEXEC);
    }
    error = errno;
    close(proc);
    close(said[0]);
    if (child > 0) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    errno = error;
    return users;
}

static int set_attributes(int tree, unsigned flags, unsigned long attributes, int users)
{
    struct mount_attr wanted = {.attr_set = attributes, .userns_fd = (unsigned)users};

    return (int)syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | flags, &wanted, sizeof wanted);
}

/* What is mounted below may be of a file system that cannot be shown so, as FUSE's is, and come while
 * this runs: then it all keeps the host's owners. */
int users_tree(int users, const char *path, int read_only, int *alone)
{
    int tree = (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | O_CLOEXEC | RECURSIVE);
    int error;

    *alone = 0;
    if (tree < 0)
        return -1;
    if (!read_only || set_attributes(tree, RECURSIVE, MOUNT_ATTR_RDONLY, 0) == 0) {
        if (set_attributes(tree, RECURSIVE, MOUNT_ATTR_IDMAP, users) == 0)
            return tree;
        *alone = 1;
        if (errno == EINVAL && set_attributes(tree, 0, MOUNT_ATTR_IDMAP, users) == 0)
            return tree;
    }
    error = errno;
    close(tree);
    errno = error;
    return -1;
}

int users_own(int users, const char *path, int only_tried)
{
    int alone, result = 0, error, tree = users_tree(users, path, 0, &alone);

    if (tree < 0)
        return -1;
    if (!only_tried)
        result = (int)syscall(SYS_move_mount, tree, "", AT_FDCWD, path, FROM_DESCRIPTOR);
    error = errno;
    close(tree);
    errno = error;
    return result == 0 ? alone : -1;
}
