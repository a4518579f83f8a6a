/* SPDX-License-Identifier: Apache-2.0
 *
 * uml-guard [--preload LIBRARY] [--libraries PATH] [--remove FOLDER] [--connects]
 * PROGRAM ARG...: runs a User-Mode Linux and outlives nobody.
 *
 * UML is several host processes: the kernel, one per address space of its
 * guest, and helpers that wait for I/O.  If the kernel is killed the helpers
 * stay, and with them the guest's memory.  So UML gets a process group of its
 * own, and the guard kills the whole group when the kernel ends, and when its
 * own standard input ends: the other end of that pipe is held by the controller
 * alone, and the host closes it in whatever way the controller dies.
 *
 * The program has no capability and a part of the host's system calls (limits.c).  FOLDER, where
 * its memory lies, is removed with all that is in it once it has ended.  With --connects it may
 * connect to sockets, such as those of disks outside.
 *
 * LIBRARY is preloaded into PROGRAM only (xstate.c says what for); PATH is where that
 * looks for its shared libraries, for one that has a libc of its own.
 *
 * Exit status: that of the program, 128 + N after signal N, 125 if it could
 * not be started.
 */
#include "../../harness/guard/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAILED 125

static const char *preload, *libraries, *folder;
static bool connects;

/* What follows them: the program. */
static char **take_options(char *argv[])
{
    struct {
        const char *name, **value;
    } options[] = {{"--preload", &preload}, {"--libraries", &libraries}, {"--remove", &folder}};
    size_t index;

    for (argv++, index = 0; index < sizeof options / sizeof *options; index++) {
        if (argv[0] != NULL && argv[1] != NULL && strcmp(argv[0], options[index].name) == 0) {
            *options[index].value = argv[1];
            argv += 2;
        }
    }
    if (argv[0] != NULL && strcmp(argv[0], "--connects") == 0) {
        connects = true;
        argv++;
    }
    return argv;
}

static _Noreturn void run(char *argv[], pid_t guard)
{
    struct rlimit none = {0, 0};
    int null = open("/dev/null", O_RDONLY);

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* should the guard itself be killed */
    if (getppid() != guard)
        _exit(FAILED);
    setrlimit(RLIMIT_CORE, &none); /* a guest's panic aborts the kernel's process */
    if (null < 0 || dup2(null, STDIN_FILENO) < 0)
        _exit(FAILED);
    if (preload != NULL && setenv("LD_PRELOAD", preload, 1) < 0)
        _exit(FAILED);
    if (libraries != NULL && setenv("LD_LIBRARY_PATH", libraries, 1) < 0)
        _exit(FAILED);
    if (limit_kernel(connects) != 0) {
        perror("uml-guard: cannot be limited");
        _exit(FAILED);
    }
    execv(argv[0], argv);
    perror(argv[0]);
    _exit(FAILED);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *at)
{
    (void)status, (void)type, (void)at;
    remove(path); /* what cannot go must not keep the rest */
    return 0;
}

int main(int argc, char *argv[])
{
    struct pollfd wait[2] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.events = POLLIN}};
    pid_t guard = getpid(), child;
    int status = 0;

    (void)argc;
    argv = take_options(argv);
    if (argv[0] == NULL) {
        fprintf(stderr, "usage: uml-guard [--preload LIBRARY] [--libraries PATH] [--remove FOLDER] "
                        "[--connects] PROGRAM ARG...\n");
        return FAILED;
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    signal(SIGINT, SIG_IGN); /* the controller decides when this ends */
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    child = fork();
    if (child < 0)
        return FAILED;
    if (child == 0) {
        signal(SIGINT, SIG_DFL);
        signal(SIGTERM, SIG_DFL);
        signal(SIGHUP, SIG_DFL);
        run(argv, guard);
    }
    setpgid(child, child); /* both do it: whoever comes first */
    wait[1].fd = (int)syscall(SYS_pidfd_open, child, 0);
    if (wait[1].fd < 0)
        perror("pidfd_open");
    else if ((wait[1].fd = dup2(wait[1].fd, STDERR_FILENO + 1)) >= 0)
        close_range(STDERR_FILENO + 2, ~0u, 0); /* UML's line must end when UML ends */
    while (wait[1].fd >= 0 && poll(wait, 2, -1) < 0 && errno == EINTR)
        ;
    kill(-child, SIGKILL);
    waitpid(child, &status, 0);
    while (waitpid(-1, NULL, 0) > 0) /* the helpers, ours since their parent died */
        ;
    if (folder != NULL)
        nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
