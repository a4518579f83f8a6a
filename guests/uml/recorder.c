/* SPDX-License-Identifier: Apache-2.0
 *
 * Records what a recovery does to its disk:
 *
 *     file system -> loop (RECORDED) -> dm-log-writes (/dev/dm-1) -> the view
 *                                          its log: /dev/ram3
 *
 * The loop device is there for the sake of one thing: it has a write cache and no FUA, so
 * the kernel makes a write and a flush of each write with FUA.  The log of dm-log-writes
 * does not tell in what order a write with FUA and a plain one of the same epoch came,
 * and ext4 and its journal write one block in both ways.  Writes and flushes alone stand
 * there in the order in which they completed.  A virtio disk has no FUA either.
 *
 * The target is there for one recovery; when it is removed it logs what was never flushed
 * and closes the log.  A log that runs out of room ends without a word of error (the
 * target switches itself off), so that is asked for.
 */
#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "../common/dm.h"

#define RECORDER "recorder"
#define RECORDER_NODE "/dev/dm-1"
#define LOG "/dev/ram3"

void record_setup(void)
{
    module_load("dm-log-writes", "");
    module_load("loop", "max_loop=8");
    if (dm_create(RECORDER) != 0)
        die("create the recorder");
}

/* A log of an earlier recovery must not be taken for this one's. */
static int forget_log(void)
{
    static const char nothing[4096] __attribute__((aligned(4096)));
    int fd = open(LOG, O_WRONLY | O_DIRECT | O_CLOEXEC);
    int result = fd < 0 || write(fd, nothing, sizeof nothing) != sizeof nothing ? -1 : 0;

    if (fd >= 0)
        close(fd);
    return result == 0 ? 0 : fail(PCU_STEP_VIEW, "clear %s", LOG);
}

static int loop_begin(void)
{
    struct loop_config config = {
        .block_size = 512,
        .info.lo_flags = LO_FLAGS_DIRECT_IO,
    };
    int file = open(RECORDER_NODE, O_RDWR | O_DIRECT | O_CLOEXEC);
    int loop = open(RECORDED, O_RDWR | O_CLOEXEC);
    struct loop_info64 info = {0};
    int result = -1;

    config.fd = (uint32_t)file;
    if (file >= 0 && loop >= 0)
        result = ioctl(loop, LOOP_CONFIGURE, &config);
    /* Without direct I/O the loop would have a cache of its own under the file system. */
    if (result == 0 && (result = ioctl(loop, LOOP_GET_STATUS64, &info)) == 0 &&
        (info.lo_flags & LO_FLAGS_DIRECT_IO) == 0) {
        errno = ENOTSUP;
        result = -1;
    }
    if (result != 0)
        fail(PCU_STEP_VIEW, "lay " RECORDED " over " RECORDER_NODE);
    if (loop >= 0)
        close(loop);
    if (file >= 0)
        close(file);
    return result;
}

int record_begin(void)
{
    if (forget_log() != 0)
        return -1;
    if (dm_swap(RECORDER, page->disk_size / 512, "log-writes", DISK " " LOG) != 0)
        return fail(PCU_STEP_VIEW, "log-writes over the view");
    return loop_begin();
}

int record_mark(const char *name)
{
    char message[64];

    snprintf(message, sizeof message, "mark %s", name);
    if (dm_message(RECORDER, message, NULL, 0) != 0) {
        page->step = PCU_STEP_NONE;
        return fail(PCU_STEP_CHECK, "mark the recording of the recovery");
    }
    return 0;
}

int record_end(void)
{
    int loop = open(RECORDED, O_RDWR | O_CLOEXEC);
    int cleared = loop < 0 ? -1 : ioctl(loop, LOOP_CLR_FD, 0);
    char line[256] = "";
    int status;

    if (loop >= 0)
        close(loop);
    status = dm_status(RECORDER, line, sizeof line);
    if (cleared != 0 || status != 0 ||
        dm_swap(RECORDER, page->disk_size / 512, "error", "") != 0) {
        page->step = PCU_STEP_NONE; /* worse than whatever failed before */
        return fail(PCU_STEP_CHECK, "end the recording of the recovery");
    }
    if (strstr(line, "disabled") != NULL) {
        page->step = PCU_STEP_NONE;
        errno = ENOSPC;
        return fail(PCU_STEP_CHECK, "the recording of the recovery is %s", line);
    }
    return 0;
}

int record_dump(void)
{
    return device_dump(LOG);
}
