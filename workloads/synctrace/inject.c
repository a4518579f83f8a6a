/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of the tracer's own, made by a stopped task between two of its own.
 *
 * The task has stopped before a call.  That call is given up (number -1) and comes to its end; then
 * the task runs its `syscall` instruction again, once for each call of ours, with our registers.
 * Its memory is not touched: what a call of ours points to lies in a page that is mapped for it.
 * Its signals wait meanwhile; a stop that cannot wait is sent again afterwards.
 */
#include "synctrace.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALL_RETURNED (SIGTRAP | 0x80)
#define SYSCALL_BYTES 2 /* of the instruction */

/* Waits until the task stops.  Its end is left for others to see. */
static bool wait_stop(pid_t task, int *status)
{
    siginfo_t seen;

    while (waitid(P_PID, (id_t)task, &seen, WEXITED | WSTOPPED | __WALL | WNOWAIT) != 0)
        if (errno != EINTR)
            return false;
    if (seen.si_code == CLD_EXITED || seen.si_code == CLD_KILLED || seen.si_code == CLD_DUMPED)
        return false;
    return waitpid(task, status, __WALL) == task && WIFSTOPPED(*status);
}

/* Lets the task run until it has stopped `boundaries` times at the edge of a call. */
static bool run(struct injection *at, struct user_regs_struct *regs, int boundaries)
{
    int status;

    if (ptrace(PTRACE_SETREGS, at->task, 0, regs) != 0)
        return false;
    while (boundaries > 0) {
        if (ptrace(PTRACE_SYSCALL, at->task, 0, 0) != 0 || !wait_stop(at->task, &status))
            return false;
        if (status >> 16 == PTRACE_EVENT_SECCOMP) /* the filter lets it pass */
            continue;
        if (WSTOPSIG(status) == CALL_RETURNED)
            boundaries--;
        else if (WSTOPSIG(status) != SIGTRAP)
            at->signal = WSTOPSIG(status);
    }
    return true;
}

bool injection_begin(struct injection *at, pid_t task)
{
    uint64_t all = ~(uint64_t)0;
    struct user_regs_struct regs;
    long long page;

    memset(at, 0, sizeof *at);
    at->task = task;
    if (ptrace(PTRACE_GETREGS, task, 0, &at->before) != 0 ||
        ptrace(PTRACE_GETSIGMASK, task, sizeof at->mask, &at->mask) != 0 ||
        ptrace(PTRACE_SETSIGMASK, task, sizeof all, &all) != 0)
        return false;
    regs = at->before;
    regs.orig_rax = (unsigned long long)-1;
    if (!run(at, &regs, 1))
        return false;
    page = injection_call(at, SYS_mmap, 0, PAGE_BYTES, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    at->page = page < 0 ? 0 : (uint64_t)page;
    return true;
}

long long injection_call(struct injection *at, long number, uint64_t first, uint64_t second,
                         uint64_t third, uint64_t fourth, uint64_t fifth, uint64_t sixth)
{
    struct user_regs_struct regs = at->before;

    regs.rip -= SYSCALL_BYTES;
    regs.orig_rax = (unsigned long long)-1;
    regs.rax = (unsigned long long)number;
    regs.rdi = first;
    regs.rsi = second;
    regs.rdx = third;
    regs.r10 = fourth;
    regs.r8 = fifth;
    regs.r9 = sixth;
    if (at->gone || !run(at, &regs, 2) || ptrace(PTRACE_GETREGS, at->task, 0, &regs) != 0) {
        at->gone = true;
        return -ESRCH;
    }
    return (long long)regs.rax;
}

bool injection_put(struct injection *at, size_t offset, const void *data, size_t size)
{
    return at->page != 0 && offset + size <= PAGE_BYTES &&
           memory_write(at->task, at->page + offset, data, size);
}

static void leave(struct injection *at, struct user_regs_struct *regs)
{
    if (at->page != 0)
        injection_call(at, SYS_munmap, at->page, PAGE_BYTES, 0, 0, 0, 0);
    if (ptrace(PTRACE_SETREGS, at->task, 0, regs) != 0 ||
        ptrace(PTRACE_SETSIGMASK, at->task, sizeof at->mask, &at->mask) != 0)
        return; /* killed */
    if (at->signal != 0)
        syscall(SYS_tkill, at->task, at->signal);
}

void injection_repeat(struct injection *at)
{
    struct user_regs_struct regs = at->before;

    regs.rip -= SYSCALL_BYTES;
    regs.rax = regs.orig_rax;
    regs.orig_rax = (unsigned long long)-1;
    leave(at, &regs);
}

void injection_return(struct injection *at, long long result)
{
    struct user_regs_struct regs = at->before;

    regs.orig_rax = (unsigned long long)-1;
    regs.rax = (unsigned long long)result;
    leave(at, &regs);
}
