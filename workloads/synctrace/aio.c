/* SPDX-License-Identifier: Apache-2.0
 *
 * Syncs through io_submit(2), as libaio makes them: an operation, or a write with a flag or to a file
 * that was opened with O_SYNC or O_DSYNC.
 *
 * They last from the submission until io_getevents(2) has returned their result; who reads results
 * from the ring in memory, without that call, leaves them open.  The operation is dropped by
 * submitting an empty write (or read) in its place, whose result is 0, too; that of a folder cannot be.
 */
#include "synctrace.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define BLOCKS_MAX 4096
#define THREADS_OF_OURS 0x40000000u /* no thread has such a number */

struct submitted {
    pid_t task, process;
    uint64_t block; /* where the program's control block is */
    uint64_t index; /* among those of its submission */
    int site;
    unsigned number;
    bool changed;
    struct iocb before;
};

static struct submitted *open_blocks;
static size_t open_count;
static unsigned numbers = THREADS_OF_OURS;

static const char *sync_of(pid_t task, const struct iocb *block)
{
    if (block->aio_lio_opcode == IOCB_CMD_FSYNC)
        return "io_submit(FSYNC)";
    if (block->aio_lio_opcode == IOCB_CMD_FDSYNC)
        return "io_submit(FDSYNC)";
    if ((block->aio_rw_flags & (RWF_DSYNC | RWF_SYNC)) != 0)
        return "io_submit(RWF_DSYNC)";
    if ((block->aio_lio_opcode == IOCB_CMD_PWRITE || block->aio_lio_opcode == IOCB_CMD_PWRITEV) &&
        writes_any() && (descriptor_flags(task, (int)block->aio_fildes) & O_DSYNC) != 0)
        return "io_submit(O_DSYNC)";
    return NULL;
}

/* The control block at `index` of a list; false if it cannot be read, and the call will fail. */
static bool read_block(pid_t task, uint64_t list, uint64_t index, uint64_t *at, struct iocb *block)
{
    return index < BLOCKS_MAX && memory_read(task, list + index * sizeof *at, at, sizeof *at) &&
           memory_read(task, *at, block, sizeof *block);
}

const char *aio_first_sync(pid_t task, uint64_t count, uint64_t list, int *fd)
{
    struct iocb block;
    uint64_t index, at;
    const char *name;

    for (index = 0; index < count && read_block(task, list, index, &at, &block); index++) {
        name = sync_of(task, &block);
        if (name != NULL) {
            *fd = (int)block.aio_fildes;
            return name;
        }
    }
    return NULL;
}

static void add(struct submitted one)
{
    struct submitted *grown = reallocarray(open_blocks, open_count + 1, sizeof one);

    if (grown == NULL)
        abort();
    open_blocks = grown;
    open_blocks[open_count++] = one;
}

/* Only of a file can nothing be read or written. */
static bool is_file(pid_t task, int fd)
{
    char name[64];
    struct stat status;

    snprintf(name, sizeof name, "/proc/%d/fd/%d", task, fd);
    return stat(name, &status) == 0 && S_ISREG(status.st_mode);
}

/* The block without what makes it a sync; false if that is not known. */
static bool plain_block(pid_t task, struct iocb *block)
{
    if (block->aio_lio_opcode == IOCB_CMD_FSYNC || block->aio_lio_opcode == IOCB_CMD_FDSYNC) {
        bool reads = (descriptor_flags(task, (int)block->aio_fildes) & O_ACCMODE) == O_RDONLY;

        block->aio_lio_opcode = reads ? IOCB_CMD_PREAD : IOCB_CMD_PWRITE;
        return is_file(task, (int)block->aio_fildes);
    }
    if ((block->aio_rw_flags & (RWF_DSYNC | RWF_SYNC)) == 0)
        return false;
    block->aio_rw_flags &= ~(RWF_DSYNC | RWF_SYNC);
    return true;
}

void aio_begin(pid_t task, const struct user_regs_struct *regs, int site, bool drop)
{
    struct submitted one = {.task = task, .process = process_of(task), .site = site};
    struct iocb plain;

    for (one.index = 0; one.index < regs->rsi &&
                        read_block(task, regs->rdx, one.index, &one.block, &one.before);
         one.index++) {
        if (sync_of(task, &one.before) == NULL)
            continue;
        plain = one.before;
        one.changed = drop && plain_block(task, &plain) &&
                      memory_write(task, one.block, &plain, sizeof plain);
        one.number = numbers++;
        if (one.changed)
            note("drop %d %u", site, one.number);
        else
            note("begin %d %u", site, one.number);
        add(one);
    }
}

void aio_submitted(pid_t task, long long result)
{
    uint64_t taken = result > 0 ? (uint64_t)result : 0;
    size_t index = 0;

    while (index < open_count) {
        struct submitted *one = &open_blocks[index];
        bool refused = one->index >= taken;

        if (one->task != task) {
            index++;
            continue;
        }
        one->task = 0; /* it is the kernel's now */
        if (one->changed)
            memory_write(task, one->block, &one->before, sizeof one->before);
        else if (refused)
            note("end %d %u %d", one->site, one->number, -EAGAIN);
        if (one->changed || refused)
            *one = open_blocks[--open_count];
        else
            index++;
    }
}

bool aio_any(void)
{
    return open_count > 0;
}

void aio_finished(pid_t task, uint64_t events, long long count)
{
    pid_t process = process_of(task);
    struct io_event event;
    size_t index;

    for (; count > 0; count--, events += sizeof event) {
        if (!memory_read(task, events, &event, sizeof event))
            return;
        for (index = 0; index < open_count; index++)
            if (open_blocks[index].process == process && !open_blocks[index].changed &&
                open_blocks[index].block == event.obj) {
                note("end %d %u %lld", open_blocks[index].site, open_blocks[index].number,
                     (long long)event.res);
                open_blocks[index] = open_blocks[--open_count];
                break;
            }
    }
}
