/* SPDX-License-Identifier: Apache-2.0 */
#include "synctrace.h"

#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define OPTIONS                                                                         \
    (PTRACE_O_EXITKILL | PTRACE_O_TRACESECCOMP | PTRACE_O_TRACESYSGOOD |                \
     PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC)
#define CALL_RETURNED (SIGTRAP | 0x80)
#define FAILED 125 /* of ours: neither the program's nor a shell's */

/* A call that has begun. */
struct pending {
    pid_t task;
    enum call_kind kind; /* CALL_SYNC stands for all that is not named here */
    int site;
    uint64_t events; /* of CALL_EVENTS: where they go */
    bool flags_changed; /* of CALL_SYNC */
    unsigned long long flags;
    size_t which; /* the register that holds them: an offset into the registers */
};

static struct {
    const char *dir, *path, *name, *log;
    bool drop;
    uint64_t stack;
} wanted;

static struct pending *pendings;
static size_t pending_count;

static void die(const char *what)
{
    fprintf(stderr, "synctrace: %s: %s\n", what, strerror(errno));
    exit(FAILED);
}

/* A task may have been killed at any time: then there is nothing to go on with. */
static void go_on(enum __ptrace_request how, pid_t task, int signal)
{
    if (ptrace(how, task, 0, (long)signal) != 0 && errno != ESRCH)
        die("go on");
}

static void remember(struct pending pending)
{
    struct pending *grown = reallocarray(pendings, pending_count + 1, sizeof *pendings);

    if (grown == NULL)
        die("memory");
    pendings = grown;
    pendings[pending_count++] = pending;
}

static bool take_pending(pid_t task, struct pending *pending)
{
    size_t index;

    for (index = 0; index < pending_count; index++)
        if (pendings[index].task == task) {
            *pending = pendings[index];
            pendings[index] = pendings[--pending_count];
            return true;
        }
    return false;
}

static bool is_wanted(const struct site *site)
{
    return wanted.drop && site->stack == wanted.stack &&
           (wanted.path == NULL || strcmp(site->path, wanted.path) == 0) &&
           (wanted.name == NULL || call_has_name(site->path, wanted.name));
}

/* The program goes on as if the call had succeeded. */
static void skip(pid_t task, struct user_regs_struct *regs, const struct site *site)
{
    regs->orig_rax = (unsigned long long)-1;
    regs->rax = 0;
    if (ptrace(PTRACE_SETREGS, task, 0, regs) == 0)
        note("drop %d %d", site->number, task);
    go_on(PTRACE_CONT, task, 0);
}

/* The call is made, and stops once more when it returns; `call` without its flags if `plain`. */
static void make(pid_t task, struct user_regs_struct *regs, const struct call *call,
                 const struct site *site, bool plain)
{
    struct pending pending = {.task = task, .kind = CALL_SYNC, .site = site->number};

    if (plain) {
        pending.flags_changed = true;
        pending.flags = *call->flags;
        pending.which = (size_t)((char *)call->flags - (char *)regs);
        *call->flags = call->cleared;
        if (ptrace(PTRACE_SETREGS, task, 0, regs) == 0)
            note("drop %d %d", site->number, task);
    } else {
        note("begin %d %d", site->number, task);
    }
    remember(pending);
    go_on(PTRACE_SYSCALL, task, 0);
}

/* Syncs are submitted, or their results fetched: what there is to know comes at the end. */
static void submit(pid_t task, const struct user_regs_struct *regs, const struct site *site)
{
    aio_begin(task, regs, site->number, is_wanted(site));
    remember((struct pending){.task = task, .kind = CALL_SUBMIT, .site = site->number});
    go_on(PTRACE_SYSCALL, task, 0);
}

static void fetch(pid_t task, const struct user_regs_struct *regs)
{
    remember((struct pending){.task = task, .kind = CALL_EVENTS, .events = regs->r10});
    go_on(PTRACE_SYSCALL, task, 0);
}

/* Has the task go on without what makes its call a sync. */
static void drop(pid_t task, struct user_regs_struct *regs, const struct call *call,
                 const struct site *site)
{
    if (call->kind == CALL_SYNC) {
        skip(task, regs, site);
    } else if (call->kind == CALL_WRITE && call_is_plain_write(regs)) {
        writes_drop(task, regs, site->number);
        go_on(PTRACE_CONT, task, 0);
    } else {
        make(task, regs, call, site, call->kind != CALL_WRITE);
    }
}

/* The kernel has stopped a task before a call of the filter. */
static void begin_call(pid_t task)
{
    struct user_regs_struct regs;
    struct place frames[FRAMES_MAX];
    const struct site *site;
    unsigned long message = 0;
    struct call call;

    if (ptrace(PTRACE_GETREGS, task, 0, &regs) != 0 ||
        ptrace(PTRACE_GETEVENTMSG, task, 0, &message) != 0)
        return; /* killed */
    call_read(task, &regs, message == FILTER_FOREIGN, wanted.dir, &call);
    if (call.kind == CALL_BEYOND) {
        note("beyond %s", call.name);
        if (regs.orig_rax == SYS_clone) { /* followed all the same */
            regs.rdi &= ~(unsigned long long)CLONE_UNTRACED;
            ptrace(PTRACE_SETREGS, task, 0, &regs);
        }
    }
    if (call.kind == CALL_OTHER || call.kind == CALL_BEYOND) {
        go_on(PTRACE_CONT, task, 0);
        return;
    }
    if (call.kind == CALL_EVENTS) {
        fetch(task, &regs);
        return;
    }
    site = note_site(&call, frames, stack_walk(task, &regs, frames));
    if (call.kind == CALL_SUBMIT)
        submit(task, &regs, site);
    else if (is_wanted(site))
        drop(task, &regs, &call, site);
    else if (call.kind == CALL_OPEN && writes_begin(task))
        go_on(PTRACE_CONT, task, 0);
    else
        make(task, &regs, &call, site, false);
}

static void end_call(pid_t task)
{
    struct user_regs_struct regs;
    struct pending pending;

    if (take_pending(task, &pending) && ptrace(PTRACE_GETREGS, task, 0, &regs) == 0) {
        if (pending.kind == CALL_SUBMIT) {
            aio_submitted(task, (long long)regs.rax);
        } else if (pending.kind == CALL_EVENTS) {
            aio_finished(task, pending.events, (long long)regs.rax);
        } else if (pending.flags_changed) { /* a call leaves its arguments as they were */
            memcpy((char *)&regs + pending.which, &pending.flags, sizeof pending.flags);
            ptrace(PTRACE_SETREGS, task, 0, &regs);
        } else {
            note("end %d %d %lld", pending.site, task, (long long)regs.rax);
        }
    }
    go_on(PTRACE_CONT, task, 0);
}

static void forget(pid_t task)
{
    struct pending pending;

    take_pending(task, &pending);
    module_forget(task);
    writes_forget(task);
}

/* A task has become another program: so has the one that it was before, of several threads. */
static void become(pid_t task)
{
    unsigned long before = 0;
    struct pending pending;

    if (ptrace(PTRACE_GETEVENTMSG, task, 0, &before) == 0 && (pid_t)before != task)
        forget((pid_t)before);
    take_pending(task, &pending);
    module_forget(task);
    go_on(PTRACE_CONT, task, 0);
}

static void start_child(pid_t task)
{
    unsigned long child = 0;

    if (ptrace(PTRACE_GETEVENTMSG, task, 0, &child) == 0)
        writes_inherit(task, (pid_t)child);
    go_on(PTRACE_CONT, task, 0);
}

static void stopped(pid_t task, int status)
{
    int signal = WSTOPSIG(status);

    switch (status >> 16) {
    case PTRACE_EVENT_SECCOMP:
        begin_call(task);
        break;
    case PTRACE_EVENT_EXEC:
        become(task);
        break;
    case PTRACE_EVENT_FORK:
    case PTRACE_EVENT_VFORK:
    case PTRACE_EVENT_CLONE:
        start_child(task);
        break;
    case PTRACE_EVENT_STOP: /* a new task; or stopped by job control, and it stays so */
        go_on(signal == SIGTRAP ? PTRACE_CONT : PTRACE_LISTEN, task, 0);
        break;
    case 0:
        if (signal == CALL_RETURNED)
            end_call(task);
        else
            go_on(PTRACE_CONT, task, signal);
        break;
    default:
        go_on(PTRACE_CONT, task, 0);
    }
}

/* Follows the program and its descendants until it ends; its exit status, as a shell has it. */
static int follow(pid_t program)
{
    pid_t task;
    int status;

    for (;;) {
        task = waitpid(-1, &status, __WALL);
        if (task < 0 && errno == EINTR)
            continue;
        if (task < 0)
            die("wait");
        if (WIFSTOPPED(status)) {
            stopped(task, status);
            continue;
        }
        forget(task);
        if (task == program)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
}

static pid_t start(char *argv[])
{
    int ends[2];
    pid_t child;
    char go = 0;

    if (pipe(ends) != 0 || (child = fork()) < 0)
        die("start a process");
    if (child == 0) {
        close(ends[1]);
        if (read(ends[0], &go, 1) != 1)
            _exit(FAILED);
        close(ends[0]);
        if (filter_begin() != 0)
            die("filter system calls");
        execvp(argv[0], argv);
        fprintf(stderr, "synctrace: %s: %s\n", argv[0], strerror(errno));
        _exit(errno == ENOENT ? 127 : 126);
    }
    close(ends[0]);
    if (ptrace(PTRACE_SEIZE, child, 0, OPTIONS) != 0)
        die("trace a process");
    if (write(ends[1], &go, 1) != 1)
        die("begin");
    close(ends[1]);
    return child;
}

/* Takes the words before `--`; where the program's begin. */
static char **take_arguments(char *argv[])
{
    char *rest;

    for (argv++; *argv != NULL && strcmp(*argv, "--") != 0; argv++) {
        if (strncmp(*argv, "dir=", 4) == 0)
            wanted.dir = *argv + 4;
        else if (strncmp(*argv, "path=", 5) == 0)
            wanted.path = *argv + 5;
        else if (strncmp(*argv, "name=", 5) == 0)
            wanted.name = *argv + 5;
        else if (strncmp(*argv, "log=", 4) == 0)
            wanted.log = *argv + 4;
        else if (strncmp(*argv, "drop=", 5) == 0)
            wanted.drop = (wanted.stack = strtoull(*argv + 5, &rest, 16), *rest == '\0');
        else
            break;
    }
    return *argv != NULL && strcmp(*argv, "--") == 0 && argv[1] != NULL ? argv + 1 : NULL;
}

int main(int argc, char *argv[])
{
    char **program = take_arguments(argv);

    (void)argc;
    if (program == NULL) {
        fputs("usage: synctrace [dir=DIR] [drop=STACK] [path=PATH] [name=NAME] [log=FILE]"
              " -- PROGRAM...\n", stderr);
        return 2;
    }
    if (note_begin(wanted.log) != 0)
        die("notes");
    return follow(start(program));
}
