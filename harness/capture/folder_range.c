/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "folder_range.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { RUNNING_MAX = 100000 };

/* PF_KTHREAD of include/linux/sched.h, and what x32 adds to the numbers of its calls. */
static const unsigned KERNEL_THREAD = 0x00200000, X32 = 0x40000000;

enum way { WAY_WHOLE, WAY_MAPPED, WAY_WRITTEN, WAY_FOR_OTHERS };

/* By the numbers of the processor and of the 32-bit programs that its kernel runs: of those that
 * lead to a sync none is another call's that does, too. */
static const struct {
    long number;
    enum way way;
} calls[] = {
    {SYS_fsync, WAY_WHOLE},
    {SYS_fdatasync, WAY_WHOLE},
    {118, WAY_WHOLE}, /* fsync, 32 bits of x86 and ARM */
    {148, WAY_WHOLE}, /* fdatasync, the same */
    {SYS_msync, WAY_MAPPED},
    {144, WAY_MAPPED}, /* msync, the same */
    {SYS_io_submit, WAY_FOR_OTHERS},
    {SYS_io_uring_enter, WAY_FOR_OTHERS},
};

struct call {
    enum way way;
    uint64_t address, length;
};

/* Bytes that a thread has written, until it syncs them. */
struct written {
    pid_t thread;
    uint64_t number, begin, end;
    bool alone;
    struct written *next;
};

static struct {
    pthread_mutex_t lock;
    struct written *first;
} writes = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct written **find(pid_t thread)
{
    struct written **at = &writes.first;
    while (*at && (*at)->thread != thread)
        at = &(*at)->next;
    return at;
}

void range_written(pid_t thread, uint64_t number, uint64_t begin, uint64_t end, bool alone)
{
    pthread_mutex_lock(&writes.lock);
    struct written **at = find(thread);
    if (!*at)
        *at = calloc(1, sizeof **at);
    if (*at) {
        /* A long one comes in several requests. */
        bool goes_on = (*at)->number == number && (*at)->end == begin;
        **at = (struct written){.thread = thread,
                                .number = number,
                                .begin = goes_on ? (*at)->begin : begin,
                                .end = end,
                                .alone = alone,
                                .next = (*at)->next};
    }
    pthread_mutex_unlock(&writes.lock);
}

/* The thread's last write, which no later sync is of. */
static bool take_written(pid_t thread, struct written *found)
{
    pthread_mutex_lock(&writes.lock);
    struct written **at = find(thread), *own = *at;
    if (own) {
        *found = *own;
        *at = own->next;
        free(own);
    }
    pthread_mutex_unlock(&writes.lock);
    return own;
}

/* The system call that a thread is in, which may not have gone to sleep yet. */
static int call_of(pid_t thread, struct call *call)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/syscall", (int)thread);
    for (int i = 0; i < RUNNING_MAX; i++) {
        FILE *file = fopen(path, "re");
        if (!file)
            return errno;
        bool got = fgets(line, sizeof line, file);
        int error = got ? 0 : ferror(file) ? errno : EIO;
        fclose(file);
        if (error)
            return error;
        long number;
        uint64_t first = 0, second = 0;
        if (sscanf(line, "%ld 0x%" SCNx64 " 0x%" SCNx64, &number, &first, &second) >= 1) {
            *call = (struct call){WAY_WRITTEN, first, second};
            for (size_t at = 0; at < sizeof calls / sizeof *calls; at++)
                if (calls[at].number == (number & ~(long)X32))
                    call->way = calls[at].way;
            return 0;
        }
        sched_yield(); /* "running" */
    }
    return ETIMEDOUT;
}

/* A thread of the kernel is in no call (a worker that carries out an fsync of AIO). */
static bool is_kernel(pid_t thread)
{
    char path[64], line[512];
    unsigned flags = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)thread);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    char *name_end = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    fclose(file);
    return name_end && sscanf(name_end + 1, " %*c %*d %*d %*d %*d %*d %u", &flags) == 1 &&
           flags & KERNEL_THREAD;
}

/* What the mappings from `address` on show of an inode, from the first byte to the last. */
static int mapped(pid_t thread, ino_t inode, const struct call *call, uint64_t *begin, uint64_t *end)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/maps", (int)thread);
    FILE *file = fopen(path, "re");
    if (!file)
        return errno;
    char *line = NULL;
    size_t room = 0;
    *begin = UINT64_MAX;
    *end = 0;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t past = call->address + (call->length + page - 1) / page * page;
    while (getline(&line, &room, file) > 0) {
        uint64_t from, to, offset, number;
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*s %" SCNu64, &from, &to,
                   &offset, &number) != 4 ||
            number != inode || to <= call->address || from >= past)
            continue;
        uint64_t first = from > call->address ? from : call->address;
        uint64_t last = to < past ? to : past;
        if (offset + (first - from) < *begin)
            *begin = offset + (first - from);
        if (offset + (last - from) > *end)
            *end = offset + (last - from);
    }
    free(line);
    fclose(file);
    return *end ? 0 : ESRCH;
}

int range_of_sync(pid_t thread, const struct object *object, uint64_t *begin, uint64_t *end)
{
    struct call call = {.way = WAY_FOR_OTHERS};
    struct written last = {0};
    int error = thread ? call_of(thread, &call) : 0; /* 0: of a namespace that this one knows not */
    bool written = take_written(thread, &last) && last.number == object->number;
    *begin = *end = 0;
    if (call.way == WAY_MAPPED)
        return mapped(thread, object->inode, &call, begin, end);
    if (error || (call.way == WAY_WRITTEN && !written))
        return is_kernel(thread) ? 0 : error ? error : ESRCH;
    if (call.way == WAY_WHOLE || (call.way == WAY_FOR_OTHERS && (!written || last.alone)))
        return 0;
    *begin = last.begin;
    *end = last.end;
    return 0;
}
