/* SPDX-License-Identifier: Apache-2.0
 *
 * A host below the disk: its file system on what is captured, and a disk image in that.
 *
 *     guest's file system -> loop -> image -> host's page cache -> host's file system -> the disk
 *
 * The loop driver is the hypervisor: a flush of the guest's is an fsync of the image.  With `none` it
 * goes past the page cache, as cache=none does.  With `unsafe` no flush gets to the image: the
 * device is said to write through.
 */
#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/mount_options.h"

#define BELOW "/below"
#define IMAGE BELOW "/image"
#define DEVICE "/dev/loop0"
#define WRITE_CACHE "/sys/block/loop0/queue/write_cache"
#define BLOCK (1u << 20)
#define LET_GO_MS 1000

static struct {
    char filesystem[16];
    char preallocation[16];
    char cache[16];
    char options[256];
} image;

/* What of `image` the table says, and the device. */
static int parse(const char *table, char device[64])
{
    memset(&image, 0, sizeof image);
    if (sscanf(table, "%63s %15s %15s %15s %255s", device, image.filesystem, image.preallocation,
               image.cache, image.options) >= 4)
        return 0;
    errno = EINVAL;
    return fail(PCU_STEP_CHECK, "the image %s", table);
}

static int mount_below(const char *device)
{
    char options[sizeof image.options];
    unsigned long flags = mount_options_split(image.options, options, sizeof options);

    if (mkdir(BELOW, 0700) != 0 && errno != EEXIST)
        return fail(PCU_STEP_CHECK, "mkdir " BELOW);
    if (mount(device, BELOW, image.filesystem, flags, options) != 0)
        return fail(PCU_STEP_ACTIVATE, "mount %s below", image.filesystem);
    return 0;
}

static int write_zeroes(int fd, uint64_t size)
{
    void *block = calloc(1, BLOCK);
    ssize_t done = block == NULL ? -1 : 1;

    for (; size > 0 && done > 0; size -= (uint64_t)done)
        done = write(fd, block, size < BLOCK ? size : BLOCK);
    free(block);
    return done > 0 ? 0 : -1;
}

static int make(uint64_t size)
{
    int fd = open(IMAGE, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600), result;

    if (strcmp(image.preallocation, "falloc") == 0)
        result = fd < 0 ? -1 : fallocate(fd, 0, 0, (off_t)size);
    else if (strcmp(image.preallocation, "full") == 0)
        result = fd < 0 ? -1 : write_zeroes(fd, size);
    else
        result = fd < 0 ? -1 : ftruncate(fd, (off_t)size);
    if (result != 0 || syncfs(fd) != 0)
        result = fail(PCU_STEP_CHECK, "make " IMAGE);
    if (fd >= 0)
        close(fd);
    return result;
}

/* What the guest believes of its disk: `drops` has it send no flush. */
static int tell_write_cache(bool drops)
{
    const char *wanted = drops ? "write through" : "write back";
    char now[32] = "";
    int fd = open(WRITE_CACHE, O_RDWR | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : write(fd, wanted, strlen(wanted));

    if (got > 0)
        got = pread(fd, now, sizeof now - 1, 0);
    if (fd >= 0)
        close(fd);
    if (got <= 0 || strncmp(now, wanted, strlen(wanted)) != 0) {
        errno = got <= 0 ? errno : EINVAL;
        return fail(PCU_STEP_CHECK, "write %s to " WRITE_CACHE, wanted);
    }
    return 0;
}

static int configure(int loop, uint64_t size)
{
    bool direct = strcmp(image.cache, "none") == 0;
    struct loop_config config = {
        .block_size = 512,
        .info.lo_flags = direct ? LO_FLAGS_DIRECT_IO : 0,
    };
    int file = open(IMAGE, O_RDWR | O_CLOEXEC | (direct ? O_DIRECT : 0)), result;
    struct loop_info64 info = {0};
    struct stat status;

    if (file < 0)
        return fail(PCU_STEP_ACTIVATE, "open the image");
    config.fd = (uint32_t)file;
    result = fstat(file, &status);
    if (result == 0 && (uint64_t)status.st_size != size) {
        close(file);
        errno = EFBIG;
        return fail(PCU_STEP_ACTIVATE, "open the image, of %llu bytes",
                    (unsigned long long)status.st_size);
    }
    if (result == 0)
        result = ioctl(loop, LOOP_CONFIGURE, &config);
    if (result == 0)
        result = ioctl(loop, LOOP_GET_STATUS64, &info);
    if (result == 0 && ((info.lo_flags & LO_FLAGS_DIRECT_IO) != 0) != direct) {
        errno = ENOTSUP;
        result = -1;
    }
    if (result != 0)
        fail(PCU_STEP_CHECK, "lay " DEVICE " over the image");
    close(file);
    return result;
}

int image_attach(const char *table, uint64_t size, bool making, char *node, size_t room)
{
    char device[64];
    int loop, error;

    if (parse(table, device) != 0 || mount_below(device) != 0)
        return -1;
    snprintf(node, room, DEVICE);
    if (making && make(size) != 0)
        goto failed;
    loop = open(DEVICE, O_RDWR | O_CLOEXEC);
    if (loop < 0) {
        fail(PCU_STEP_CHECK, "open " DEVICE);
        goto failed;
    }
    error = configure(loop, size);
    if (error == 0 && (error = tell_write_cache(strcmp(image.cache, "unsafe") == 0)) != 0)
        ioctl(loop, LOOP_CLR_FD, 0);
    close(loop);
    if (error == 0)
        return 0;
failed:
    error = errno;
    if (umount2(BELOW, 0) != 0)
        die("umount " BELOW);
    errno = error;
    return -1;
}

int image_detach(void)
{
    int loop = open(DEVICE, O_RDWR | O_CLOEXEC), waited;
    int result = loop < 0 ? -1 : ioctl(loop, LOOP_CLR_FD, 0);

    if (loop >= 0)
        close(loop);
    /* The loop's own thread may be the last to let go of the image. */
    for (waited = 0; result == 0 && umount2(BELOW, 0) != 0; waited++) {
        if (errno != EBUSY || waited == LET_GO_MS)
            result = -1;
        usleep(1000);
    }
    return result;
}

bool image_is_on(const char *filesystem)
{
    return strcmp(image.filesystem, filesystem) == 0;
}
