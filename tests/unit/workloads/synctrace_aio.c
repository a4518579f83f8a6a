/* SPDX-License-Identifier: Apache-2.0
 *
 * Syncs through io_submit, by the system calls that libaio makes, between operations that are none.
 *     aio FOLDER
 */
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static aio_context_t context;

static void check(int ok, const char *what)
{
    if (!ok) {
        perror(what);
        exit(99);
    }
}

/* Submits `count` blocks, waits for them all, and sees that they are as they were. */
static void complete(struct iocb *blocks, int count, long result)
{
    struct iocb *list[2] = {&blocks[0], &blocks[1]}, before[2];
    struct io_event events[2];
    int index;

    memcpy(before, blocks, (size_t)count * sizeof *blocks);
    check(syscall(SYS_io_submit, context, count, list) == count, "io_submit");
    check(memcmp(before, blocks, (size_t)count * sizeof *blocks) == 0, "blocks");
    check(syscall(SYS_io_getevents, context, count, count, events, NULL) == count, "io_getevents");
    for (index = 0; index < count; index++)
        check((long)events[index].res == result, "result");
}

static struct iocb block(int fd, int operation, int flags)
{
    static const char text[] = "hello";
    struct iocb made = {.aio_fildes = (uint32_t)fd, .aio_lio_opcode = (uint16_t)operation};

    made.aio_rw_flags = flags;
    if (operation == IOCB_CMD_PWRITE) {
        made.aio_buf = (uint64_t)(uintptr_t)text;
        made.aio_nbytes = 5;
    }
    return made;
}

int main(int count, char **words)
{
    int log, reading, folder, wal;
    struct iocb blocks[2];
    volatile int times;

    check(count > 1 && chdir(words[1]) == 0, "chdir");
    check(syscall(SYS_io_setup, 8, &context) == 0, "io_setup");
    log = open("log", O_CREAT | O_RDWR | O_TRUNC, 0600);
    reading = open("log", O_RDONLY);
    folder = open(".", O_RDONLY | O_DIRECTORY);
    blocks[0] = block(log, IOCB_CMD_PWRITE, 0);
    complete(blocks, 1, 5); /* none */
    blocks[0] = block(log, IOCB_CMD_FDSYNC, 0);
    for (times = 0; times < 3; times++)
        complete(blocks, 1, 0); /* 1, three times */
    blocks[0] = block(reading, IOCB_CMD_FSYNC, 0);
    complete(blocks, 1, 0); /* 2 */
    blocks[0] = block(log, IOCB_CMD_PWRITE, RWF_DSYNC);
    blocks[1] = block(log, IOCB_CMD_PWRITE, RWF_DSYNC);
    complete(blocks, 2, 5); /* 3, two at once */
    blocks[0] = block(folder, IOCB_CMD_FSYNC, 0);
    complete(blocks, 1, 0); /* 4 */
    wal = open("wal", O_CREAT | O_WRONLY | O_DSYNC, 0600); /* 5 */
    blocks[0] = block(wal, IOCB_CMD_PWRITE, 0);
    complete(blocks, 1, 5); /* 6 */
    return 7;
}
