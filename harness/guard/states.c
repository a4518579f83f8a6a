/* SPDX-License-Identifier: Apache-2.0
 *
 * check-guard --states FOLDER --room BYTES [--empty PLACE]... [--over PATH]... [OPTION]... -- PROGRAM ARG...
 *
 * The guard of many states: it makes the view of the host once, and for each state a child in
 * namespaces of its own (mounts, processes, System V and POSIX memory, network), which has ended, with
 * all that was left in it, before the answer is given.  So nothing that a check keeps in memory, and no
 * process, is there for the next state.  What the child has anew:
 *
 * - each PLACE, an empty file system in memory of so many BYTES;
 * - /proc, of its processes;
 * - what lies at each PATH, over those: what is shown of a PLACE, and settings that are read-only;
 * - the state, at FOLDER.  All states lie below STATES, which the child takes away first;
 * - the network, the pids, users and system calls of any other check (check.c).
 *
 * Standard input is a socket (SOCK_SEQPACKET).  A request is the text "PID NAME": the first pid, 0 for
 * any, and the folder of the state below STATES.  With it come two descriptors (SCM_RIGHTS): for lines,
 * PROGRAM's descriptor 3, and for words, its 1 and 2.  There is one answer to each, a text:
 *
 *   a number       the exit status of PROGRAM
 *   "changed"      nothing was started: since the view was made the host has mounted or unmounted
 *                  something, of which the view would not be read-only.  The guard ends
 *   anything else  why PROGRAM could not be run
 *
 * There is one state at a time: two in one view would see each other's locks of its files.  Whoever
 * closes the other end of the socket ends the guard, and so all that it has started.
 */
#include "states.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ASKER STDIN_FILENO
#define LINES 3
#define RECURSIVE 0x8000
#define FROM_DESCRIPTOR 4 /* MOVE_MOUNT_F_EMPTY_PATH */
#define FOLLOWED 0x10     /* MOVE_MOUNT_T_SYMLINKS */

int states_begin(struct states *states)
{
    states->mounts = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
    return states->mounts < 0 ? -1 : 0;
}

static int is_changed(const struct states *states)
{
    struct pollfd mounts = {.fd = states->mounts, .events = POLLPRI};

    return poll(&mounts, 1, 0) != 0;
}

/* The two descriptors that came with a request. */
static int take(struct msghdr *message, struct state *next)
{
    struct cmsghdr *given = CMSG_FIRSTHDR(message);
    int taken[2];

    if (given == NULL || given->cmsg_type != SCM_RIGHTS || given->cmsg_len != CMSG_LEN(sizeof taken))
        return -1;
    memcpy(taken, CMSG_DATA(given), sizeof taken);
    next->lines = taken[0];
    next->words = taken[1];
    return 0;
}

int states_next(const struct states *states, struct state *next)
{
    union {
        char room[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr aligned;
    } control;
    char text[sizeof next->name + 16];
    struct iovec part = {text, sizeof text - 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                             .msg_controllen = sizeof control};
    ssize_t got = recvmsg(ASKER, &message, MSG_CMSG_CLOEXEC);

    if (got <= 0 || take(&message, next) != 0)
        return -1;
    text[got] = '\0';
    if (sscanf(text, "%d %255[^/]", &next->first_pid, next->name) != 2 || next->name[0] == '.')
        return -1;
    if (is_changed(states)) {
        states_answer("changed");
        return -1;
    }
    return 0;
}

int states_ended(int pidfd)
{
    struct pollfd either[] = {{.fd = pidfd, .events = POLLIN}, {.fd = ASKER, .events = POLLRDHUP}};

    while (poll(either, 2, -1) < 0 && errno == EINTR)
        ;
    return either[1].revents != 0 ? -1 : 0;
}

void states_answer(const char *text)
{
    send(ASKER, text, strlen(text), MSG_NOSIGNAL); /* who has gone wants none */
}

int states_descriptors(const struct state *of)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (null < 0 || dup2(of->words, STDOUT_FILENO) < 0 || dup2(of->words, STDERR_FILENO) < 0 ||
        dup2(null, STDIN_FILENO) < 0 || dup2(of->lines, LINES) < 0)
        return -1;
    return fcntl(LINES, F_SETFD, 0); /* as it was if the lines came as that */
}

/* Makes the way to `path`, and a folder or a file there, as far as there is none. */
static void make_way(char *path, int folder)
{
    char *part;

    for (part = strchr(path + 1, '/'); part != NULL; part = strchr(part + 1, '/')) {
        *part = '\0';
        mkdir(path, 0755);
        *part = '/';
    }
    if (folder)
        mkdir(path, 0755);
    else
        close(open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
}

static int lay(int tree, const char *path)
{
    char way[PATH_MAX];
    struct stat lies, there;

    if (fstat(tree, &lies) != 0)
        return -1;
    if (stat(path, &there) != 0) {
        snprintf(way, sizeof way, "%s", path);
        make_way(way, S_ISDIR(lies.st_mode));
    }
    return (int)syscall(SYS_move_mount, tree, "", AT_FDCWD, path, FROM_DESCRIPTOR | FOLLOWED);
}

static int take_tree(int at, const char *path)
{
    return (int)syscall(SYS_open_tree, at, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | RECURSIVE);
}

/* With users apart there are two mounts of them, one over the other. */
static int take_away(void)
{
    struct stat states, devices;

    while (umount2(STATES, MNT_DETACH) == 0)
        ;
    if (stat(STATES, &states) != 0 || stat("/dev", &devices) != 0)
        return -1;
    return states.st_dev == devices.st_dev ? 0 : -1;
}

/* What lies over something else is taken before that is made; of either the host may have none. */
int states_view(const struct states *states, const char *name, int proc)
{
    int trees[STATES_PATHS_MAX], state, all = open(STATES, O_PATH | O_DIRECTORY | O_CLOEXEC);
    char here[PATH_MAX], memory[64];
    mode_t mask = umask(0);
    size_t index;

    if (getcwd(here, sizeof here) == NULL || (state = take_tree(all, name)) < 0)
        return -1;
    for (index = 0; index < states->overs; index++)
        if ((trees[index] = take_tree(AT_FDCWD, states->over[index])) < 0 && errno != ENOENT)
            return -1;
    snprintf(memory, sizeof memory, "size=%s,mode=1777", states->room);
    if (take_away() != 0)
        return -1;
    for (index = 0; index < states->empties; index++)
        if (mount("none", states->empty[index], "tmpfs", MS_NOSUID | MS_NODEV, memory) != 0 &&
            errno != ENOENT)
            return -1;
    if (lay(proc, "/proc") != 0)
        return -1;
    for (index = 0; index < states->overs; index++)
        if (trees[index] >= 0 && lay(trees[index], states->over[index]) != 0)
            return -1;
    if (lay(state, states->folder) != 0)
        return -1;
    umask(mask);
    return chdir(here);
}
