/* SPDX-License-Identifier: Apache-2.0
 *
 * check-guard [--cover SOCKET]... -- PROGRAM ARG...: hides sockets of the host, then becomes PROGRAM.
 *
 * It runs in the sandbox of a check (bubblewrap), whose view of the host's files keeps no process
 * from the sockets among them: connect(2) asks for the right to write to the socket, and a read-only
 * mount takes that from files and folders alone.  So /dev/null is mounted over each SOCKET, in a
 * mount namespace of the guard's own: in that of an ordinary user's sandbox nobody may mount.
 *
 * Sockets of the host come and go.  What is gone, or is no socket any more, needs no cover; a cover
 * goes with the name that it lies over.
 *
 * CAP_SYS_ADMIN and CAP_SETPCAP are for the guard: PROGRAM gets what else the guard has.
 *
 * Exit status: that of PROGRAM, 125 if it was not started.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FAILED 125

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "check-guard: %s: %s\n", what, strerror(errno));
    exit(FAILED);
}

static void cover(const char *path)
{
    int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat status;
    char name[32];

    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == EACCES))
        return; /* what the guard may not look up its program may not either */
    if (fd < 0 || fstat(fd, &status) != 0)
        die(path);
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    if (S_ISSOCK(status.st_mode) && mount("/dev/null", name, NULL, MS_BIND, NULL) != 0 &&
        errno != ENOENT) /* removed since it was opened */
        die(path);
    close(fd);
}

/* Leaves what the guard has but for its own two, and no way to more: of root, inheritable ones come
 * back at exec. */
static void drop_own_capabilities(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct set[2];
    int capability, has;

    if (syscall(SYS_capget, &header, set) != 0)
        die("cannot read capabilities");
    set[0].permitted &= ~(1u << CAP_SYS_ADMIN | 1u << CAP_SETPCAP);
    for (capability = 0; (has = prctl(PR_CAPBSET_READ, capability, 0, 0, 0)) >= 0; capability++)
        if ((set[capability / 32].permitted >> capability % 32 & 1) == 0 && has != 0 &&
            prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0)
            die("cannot drop a capability");
    for (capability = 0; capability < 2; capability++) {
        set[capability].effective &= set[capability].permitted;
        set[capability].inheritable = 0;
    }
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0 ||
        syscall(SYS_capset, &header, set) != 0)
        die("cannot drop capabilities");
}

int main(int argc, char *argv[])
{
    int index;

    if (unshare(CLONE_NEWNS) != 0)
        die("cannot make a mount namespace");
    for (index = 1; index + 1 < argc && strcmp(argv[index], "--cover") == 0; index += 2)
        cover(argv[index + 1]);
    if (index + 1 >= argc || strcmp(argv[index], "--") != 0) {
        fprintf(stderr, "usage: check-guard [--cover SOCKET]... -- PROGRAM ARG...\n");
        return FAILED;
    }
    drop_own_capabilities();
    execvp(argv[index + 1], argv + index + 1);
    die(argv[index + 1]);
}
