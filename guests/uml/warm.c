/* SPDX-License-Identifier: Apache-2.0
 *
 * A reader that is started once and continued for each state, by a copy of its process.
 *
 * Of a check of a small store most of the time goes into starting: an interpreter, its modules.  So
 * the reader is started before a state is mounted, under ptrace(2), and held at the first system
 * call that may be more than starting (`is_starting`): it opens and maps files that are read-only
 * here and no part of any state, and no more.  For each state it is made to fork there, and the
 * copy, let go of, makes that call and checks.
 *
 * Nothing comes from one state into the next by this.  The process that is held never runs on: it
 * executes the fork, which is ours, and is held at the same call again.  It has no memory that is
 * shared for writing, no thread, and no open file but its channel, which is emptied.
 *
 * Whatever is not as it must be: the reader is started anew, as without this.  Threads, a shell that
 * keeps its script open and the like are such cases.
 */
#include "init.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define OPTIONS (PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEFORK | PTRACE_O_EXITKILL)
#define AT_CALL (SIGTRAP | 0x80)
#define EVENT(event) (SIGTRAP | (event) << 8)
#define CALLS_MAX 100000 /* of a start; one with more is not held */
#define PATH_BYTES 512
#define INSTRUCTION 2 /* bytes of `syscall` */
#define TRIES 2

static struct {
    pid_t task; /* 0: there is none */
    int channel;
    struct user_regs_struct at; /* before the call at which it is held */
    unsigned long long tid; /* where its C library keeps the number of its thread; 0: nowhere */
    int failures;
} held;

void warm_forget(void)
{
    if (held.task == 0)
        return;
    kill(held.task, SIGKILL);
    waitpid(held.task, NULL, __WALL);
    warm_gone();
}

void warm_gone(void)
{
    if (held.task == 0)
        return;
    held.task = 0;
    close(held.channel);
}

void warm_reset(void)
{
    warm_forget();
    held.failures = 0;
}

bool warm_is_alone(void)
{
    struct dirent *entry;
    char path[300], file[2];
    bool alone = true;
    DIR *tasks;
    int task;

    while (waitpid(-1, NULL, WNOHANG | __WALL) > 0)
        ;
    tasks = opendir("/proc");
    if (tasks == NULL)
        return false;
    while ((entry = readdir(tasks)) != NULL) {
        task = atoi(entry->d_name);
        snprintf(path, sizeof path, "/proc/%s/exe", entry->d_name);
        /* A thread of the kernel's own is no program. */
        if (task > 1 && task != held.task && readlink(path, file, sizeof file) > 0)
            alone = false;
    }
    closedir(tasks);
    return alone;
}

static bool read_path(pid_t task, unsigned long long from, char *path)
{
    size_t at;
    long word;

    for (at = 0; at < PATH_BYTES; at += sizeof word) {
        errno = 0;
        word = ptrace(PTRACE_PEEKDATA, task, from + at, 0);
        if (errno != 0)
            return false;
        memcpy(path + at, &word, sizeof word);
        if (memchr(&word, '\0', sizeof word) != NULL)
            return true;
    }
    return false;
}

/* Whether a path leads to files that no state changes.  Relative ones are for those that know where
 * they begin. */
static bool is_elsewhere(pid_t task, unsigned long long path)
{
    static const char *const changing[] = {"/proc/", "/sys/", "/dev/", "/run/"};
    char text[PATH_BYTES];
    size_t index;

    if (!read_path(task, path, text) || text[0] != '/' || strstr(text, "/mnt") != NULL)
        return false;
    for (index = 0; index < sizeof changing / sizeof *changing; index++)
        if (strncmp(text, changing[index], strlen(changing[index])) == 0)
            return false;
    return true;
}

/* Statically linked programs ask where they lie. */
static bool is_itself(pid_t task, unsigned long long path)
{
    char text[PATH_BYTES];

    return read_path(task, path, text) && strcmp(text, "/proc/self/exe") == 0;
}

/* Whether a call belongs to the start of a program, and reads at most what no state changes. */
static bool is_starting(pid_t task, const struct user_regs_struct *regs)
{
    switch (regs->orig_rax) {
    case SYS_read: case SYS_pread64: case SYS_lseek: case SYS_close: case SYS_fstat:
    case SYS_getdents64: case SYS_mprotect: case SYS_munmap: case SYS_mremap: case SYS_brk:
    case SYS_madvise: case SYS_rt_sigaction: case SYS_rt_sigprocmask: case SYS_sigaltstack:
    case SYS_getpid: case SYS_gettid: case SYS_getppid: case SYS_getuid: case SYS_geteuid:
    case SYS_getgid: case SYS_getegid: case SYS_getcwd: case SYS_uname: case SYS_sysinfo:
    case SYS_arch_prctl: case SYS_prlimit64: case SYS_getrlimit: case SYS_futex:
    case SYS_set_tid_address: case SYS_set_robust_list: case SYS_rseq: case SYS_getrandom:
    case SYS_clock_gettime: case SYS_gettimeofday: case SYS_time: case SYS_fcntl: case SYS_ioctl:
    case SYS_dup:
        return true;
    case SYS_mmap:
        return (regs->r10 & MAP_TYPE) == MAP_PRIVATE || (regs->rdx & PROT_WRITE) == 0;
    case SYS_open:
        return (regs->rsi & (O_ACCMODE | O_CREAT)) == O_RDONLY && is_elsewhere(task, regs->rdi);
    case SYS_openat:
        return (regs->rdx & (O_ACCMODE | O_CREAT)) == O_RDONLY && is_elsewhere(task, regs->rsi);
    case SYS_execve: case SYS_stat: case SYS_lstat: case SYS_access:
        return is_elsewhere(task, regs->rdi);
    case SYS_readlink:
        return is_itself(task, regs->rdi) || is_elsewhere(task, regs->rdi);
    case SYS_newfstatat: /* an empty path: of the descriptor */
        return (regs->r10 & AT_EMPTY_PATH) != 0 || is_elsewhere(task, regs->rsi);
    case SYS_readlinkat: case SYS_faccessat: case SYS_faccessat2:
        return is_elsewhere(task, regs->rsi);
    default:
        return false;
    }
}

/* Lets it run until it stops again: whether it has, so. */
static bool run_until(enum __ptrace_request how, int stop)
{
    int status;

    if (ptrace(how, held.task, 0, 0) != 0 || !wait_stopped(held.task, &status))
        return false;
    return status >> 8 == stop;
}

/* Only the channel and what PID 1 gives to all. */
static bool has_no_other_files(void)
{
    struct dirent *entry;
    char path[64];
    bool none = true;
    DIR *files;

    snprintf(path, sizeof path, "/proc/%d/fd", held.task);
    files = opendir(path);
    if (files == NULL)
        return false;
    while ((entry = readdir(files)) != NULL)
        none = none && atoi(entry->d_name) <= CHANNEL;
    closedir(files);
    return none;
}

/* Runs the start, and holds it before the first call that is not of it. */
static bool hold(void)
{
    bool inside = false;
    int status, calls;

    if (!wait_stopped(held.task, &status) || status >> 8 != SIGTRAP ||
        ptrace(PTRACE_SETOPTIONS, held.task, 0, OPTIONS) != 0)
        return false;
    for (calls = 0; calls < CALLS_MAX; calls++) {
        if (ptrace(PTRACE_SYSCALL, held.task, 0, 0) != 0 || !wait_stopped(held.task, &status))
            return false;
        if (status >> 8 == EVENT(PTRACE_EVENT_EXEC)) {
            held.tid = 0;
            continue;
        }
        if (status >> 8 != AT_CALL)
            return false;
        inside = !inside;
        if (!inside)
            continue;
        if (ptrace(PTRACE_GETREGS, held.task, 0, &held.at) != 0)
            return false;
        if (!is_starting(held.task, &held.at))
            return has_no_other_files();
        if (held.at.orig_rax == SYS_set_tid_address)
            held.tid = held.at.rdi;
    }
    return false;
}

void warm_prepare(void)
{
    bool is_held;

    if (held.task != 0 || held.failures == TRIES)
        return;
    held.channel = lines_open();
    held.tid = 0;
    held.task = held.channel < 0 ? -1 : start(plan.reader, held.channel, true);
    if (held.task < 0) {
        held.task = 0;
        held.failures = TRIES;
        if (held.channel >= 0)
            close(held.channel);
        return;
    }
    clock_begin();
    is_held = hold();
    clock_end();
    if (is_held)
        return;
    held.failures++;
    warm_forget();
}

/* As the process was before the call; the call comes next. */
static struct user_regs_struct before_call(void)
{
    struct user_regs_struct regs = held.at;

    regs.rip -= INSTRUCTION;
    regs.rax = regs.orig_rax;
    regs.orig_rax = (unsigned long long)-1;
    return regs;
}

/* Has it fork instead of the call, and holds it at the call again; the copy, which is stopped.
 *
 * Where User-Mode Linux lets a copy run to its next trap before it stops it, that is this same
 * instruction, a read from the descriptor that the flags would be: nothing. */
static pid_t copied(void)
{
    struct user_regs_struct regs = held.at, now;
    unsigned long copy = 0;

    regs.orig_rax = SYS_clone;
    regs.rip -= INSTRUCTION;
    regs.rdi = CLONE_PARENT | SIGCHLD; /* it is PID 1's, too */
    if (held.tid != 0)
        regs.rdi |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
    regs.rsi = regs.rdx = regs.r8 = 0;
    regs.r10 = held.tid;
    if (ptrace(PTRACE_SETREGS, held.task, 0, &regs) != 0 ||
        !run_until(PTRACE_SYSCALL, EVENT(PTRACE_EVENT_FORK)) ||
        ptrace(PTRACE_GETEVENTMSG, held.task, 0, &copy) != 0 ||
        !run_until(PTRACE_SYSCALL, AT_CALL))
        return -1;
    regs = before_call();
    if (ptrace(PTRACE_SETREGS, held.task, 0, &regs) != 0 || !run_until(PTRACE_SYSCALL, AT_CALL) ||
        ptrace(PTRACE_GETREGS, held.task, 0, &now) != 0 || now.rip != held.at.rip ||
        now.orig_rax != held.at.orig_rax)
        return -1;
    return (pid_t)copy;
}

/* A copy that has been let go of; -1 if there is none. */
static pid_t running_copy(void)
{
    struct user_regs_struct regs = before_call();
    pid_t copy = copied();
    int status;

    if (copy > 0 && wait_stopped(copy, &status) && status >> 8 == SIGSTOP &&
        ptrace(PTRACE_SETREGS, copy, 0, &regs) == 0 && ptrace(PTRACE_DETACH, copy, 0, 0) == 0)
        return copy;
    return -1;
}

pid_t warm_start(int *channel)
{
    pid_t copy;

    if (held.task == 0)
        return -1;
    lines_forget();
    *channel = fcntl(held.channel, F_DUPFD_CLOEXEC, 0);
    if (*channel < 0)
        return -1;
    clock_begin();
    copy = running_copy();
    clock_end();
    if (copy > 0)
        return copy;
    held.failures++;
    close(*channel);
    end_stragglers(); /* with the copy, if there is one, and what is held */
    return -1;
}
