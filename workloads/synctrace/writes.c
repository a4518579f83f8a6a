/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes to files that were opened with O_SYNC or O_DSYNC: each is a sync of its own.
 *
 * Most programs have no such file, and stopping each of their writes would cost much.  So a filter
 * for writes is added to a process when it opens one (filter.c).  Children inherit it; descriptors
 * that leave for another process are said to be beyond.
 */
#include "synctrace.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>

static pid_t *processes; /* whose writes are stopped */
static size_t process_count;

static bool is_followed(pid_t process)
{
    size_t index;

    for (index = 0; index < process_count; index++)
        if (processes[index] == process)
            return true;
    return false;
}

static void follow(pid_t process)
{
    pid_t *grown = reallocarray(processes, process_count + 1, sizeof *processes);

    if (grown == NULL)
        abort();
    processes = grown;
    processes[process_count++] = process;
}

bool writes_any(void)
{
    return process_count > 0;
}

void writes_inherit(pid_t parent, pid_t child)
{
    pid_t process;

    if (process_count == 0)
        return;
    process = process_of(child);
    if (is_followed(process_of(parent)) && !is_followed(process))
        follow(process);
}

void writes_forget(pid_t task)
{
    size_t index;

    for (index = 0; index < process_count; index++)
        if (processes[index] == task) {
            processes[index] = processes[--process_count];
            return;
        }
}

bool writes_begin(pid_t task)
{
    struct injection at;
    struct {
        uint16_t count;
        uint64_t rules;
    } head = {0};
    pid_t process = process_of(task);
    const void *rules;
    long long failed = -1;

    if (is_followed(process))
        return false;
    if (!injection_begin(&at, task))
        return true; /* killed */
    rules = filter_of_writes(&head.count);
    head.rules = at.page + sizeof head;
    if (injection_put(&at, 0, &head, sizeof head) &&
        injection_put(&at, sizeof head, rules, head.count * FILTER_RULE_BYTES))
        failed = injection_call(&at, SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                                SECCOMP_FILTER_FLAG_TSYNC, at.page, 0, 0, 0);
    if (failed == 0)
        note("writes %d", process);
    else
        note("beyond writes to files opened with O_SYNC or O_DSYNC that could not be traced");
    follow(process);
    injection_repeat(&at);
    return true;
}

/* Opens the file of `fd` once more, without what makes its writes durable; negative if that fails. */
static long long open_plain(struct injection *at, int fd, unsigned flags)
{
    char name[64];
    int length = snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    unsigned kept = flags & (O_ACCMODE | O_APPEND | O_DIRECT | O_NONBLOCK | O_LARGEFILE);

    if (!injection_put(at, 0, name, (size_t)length + 1))
        return -1;
    return injection_call(at, SYS_openat, (uint64_t)AT_FDCWD, at->page, kept | O_CLOEXEC, 0, 0, 0);
}

/* A write at the descriptor's own place, which then moves on. */
static long long write_in_place(struct injection *at, int fd, int plain, long number)
{
    const struct user_regs_struct *regs = &at->before;
    long long place = injection_call(at, SYS_lseek, (uint64_t)fd, 0, SEEK_CUR, 0, 0, 0), wrote;

    if (place < 0)
        return place;
    wrote = injection_call(at, number, (uint64_t)plain, regs->rsi, regs->rdx, (uint64_t)place, 0, 0);
    if (wrote > 0) {
        /* With O_APPEND the data went to the file's end, whatever the place was. */
        if ((descriptor_flags(at->task, fd) & O_APPEND) != 0)
            injection_call(at, SYS_lseek, (uint64_t)fd, 0, SEEK_END, 0, 0, 0);
        else
            injection_call(at, SYS_lseek, (uint64_t)fd, (uint64_t)(place + wrote), SEEK_SET, 0, 0, 0);
    }
    return wrote;
}

static long long write_plain(struct injection *at, int fd, int plain)
{
    const struct user_regs_struct *regs = &at->before;

    switch (regs->orig_rax) {
    case SYS_write:
        return write_in_place(at, fd, plain, SYS_pwrite64);
    case SYS_writev:
        return write_in_place(at, fd, plain, SYS_pwritev);
    case SYS_pwritev2:
        if ((long long)regs->r10 == -1)
            return write_in_place(at, fd, plain, SYS_pwritev);
        return injection_call(at, SYS_pwritev2, (uint64_t)plain, regs->rsi, regs->rdx, regs->r10,
                              regs->r8, regs->r9 & ~(uint64_t)(RWF_DSYNC | RWF_SYNC));
    default: /* pwrite64, pwritev, fallocate */
        return injection_call(at, (long)regs->orig_rax, (uint64_t)plain, regs->rsi, regs->rdx,
                              regs->r10, regs->r8, regs->r9);
    }
}

void writes_drop(pid_t task, const struct user_regs_struct *regs, int site)
{
    int fd = (int)regs->rdi;
    struct injection at;
    long long plain, result;

    if (!injection_begin(&at, task))
        return; /* killed */
    plain = open_plain(&at, fd, descriptor_flags(task, fd));
    if (plain < 0) { /* as it is: the site has no call that was dropped */
        result = injection_call(&at, (long)at.before.orig_rax, regs->rdi, regs->rsi, regs->rdx,
                                regs->r10, regs->r8, regs->r9);
    } else {
        result = write_plain(&at, fd, (int)plain);
        injection_call(&at, SYS_close, (uint64_t)plain, 0, 0, 0, 0, 0);
        note("drop %d %d", site, task);
    }
    injection_return(&at, result);
}
