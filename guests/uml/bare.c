/* SPDX-License-Identifier: Apache-2.0
 *
 * Bare loops: fresh disk, mount, unmount, and nothing else, in the same kernel
 * as the engine.  One for each way to the disk that was tried.
 */
#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COPY (1u << 20)
#define FILE_IMAGE "/tmp/image"

static uint8_t *pristine; /* the whole image, for the ways that copy it back */

static int keep_pristine(void)
{
    int fd = open("/dev/ram0", O_RDONLY | O_DIRECT | O_CLOEXEC);
    uint64_t at;

    free(pristine);
    if (fd < 0 || posix_memalign((void **)&pristine, 4096, page->disk_size) != 0)
        return fail(PCU_STEP_CHECK, "memory for the image");
    for (at = 0; at < page->disk_size; at += COPY)
        if (pread(fd, pristine + at, COPY, (off_t)at) <= 0)
            return fail(PCU_STEP_CHECK, "read the image");
    close(fd);
    return 0;
}

static int copy_back(const char *device, int flags)
{
    int fd = open(device, O_WRONLY | O_CLOEXEC | flags, 0600);
    uint64_t at, size;

    if (fd < 0)
        return fail(PCU_STEP_VIEW, "open %s", device);
    for (at = 0; at < page->disk_size; at += size) {
        size = page->disk_size - at < COPY ? page->disk_size - at : COPY;
        if (pwrite(fd, pristine + at, size, (off_t)at) != (ssize_t)size) {
            close(fd);
            return fail(PCU_STEP_VIEW, "write %s", device);
        }
    }
    close(fd);
    return 0;
}

static int loop_attach(void)
{
    int module = open("/modules/loop.ko", O_RDONLY | O_CLOEXEC);
    int device, file;

    if (syscall(SYS_finit_module, module, "max_loop=1", 0) != 0 && errno != EEXIST)
        return fail(PCU_STEP_CHECK, "load loop");
    close(module);
    device = open("/dev/loop0", O_RDWR | O_CLOEXEC);
    file = open(FILE_IMAGE, O_RDWR | O_CLOEXEC);
    if (device < 0 || file < 0)
        return fail(PCU_STEP_CHECK, "open the loop");
    if (ioctl(device, LOOP_SET_FD, file) != 0 && errno != EBUSY)
        return fail(PCU_STEP_CHECK, "attach the loop");
    close(file);
    close(device);
    return 0;
}

static int fresh(enum pcu_path path)
{
    switch (path) {
    case PCU_PATH_VIEW:
        return view_fresh(NULL);
    case PCU_PATH_RAM_COPY:
        return copy_back("/dev/ram3", O_DIRECT);
    case PCU_PATH_UBD:
        return copy_back("/dev/ubda", O_DIRECT);
    case PCU_PATH_VIEW_UBD:
        return view_fresh("98:0");
    case PCU_PATH_LOOP:
        return copy_back(FILE_IMAGE, O_CREAT);
    case PCU_PATH_VIEW_LOOP:
        return view_fresh("7:0");
    case PCU_PATH_PLAIN:
        return 0;
    }
    errno = ENOSYS;
    return fail(PCU_STEP_CHECK, "way %d", path);
}

static const char *device_of(enum pcu_path path)
{
    switch (path) {
    case PCU_PATH_RAM_COPY:
    case PCU_PATH_PLAIN:
        return "/dev/ram3";
    case PCU_PATH_UBD:
        return "/dev/ubda";
    case PCU_PATH_LOOP:
        return "/dev/loop0";
    default:
        return DISK;
    }
}

static int prepare(enum pcu_path path)
{
    if (path == PCU_PATH_VIEW)
        return 0;
    if (keep_pristine() != 0)
        return -1;
    switch (path) {
    case PCU_PATH_VIEW_UBD:
        return copy_back("/dev/ubda", O_DIRECT);
    case PCU_PATH_LOOP:
    case PCU_PATH_VIEW_LOOP:
        return copy_back(FILE_IMAGE, O_CREAT) != 0 ? -1 : loop_attach();
    case PCU_PATH_PLAIN:
        return copy_back("/dev/ram3", O_DIRECT);
    default:
        return 0;
    }
}

int bare(void)
{
    enum pcu_path path = (enum pcu_path)page->offset;
    const char *device = device_of(path);
    uint64_t begin, middle, end, round;

    if (prepare(path) != 0)
        return -1;
    for (round = 0; round < page->count; round++) {
        begin = now_ns();
        if (fresh(path) != 0)
            return -1;
        middle = now_ns();
        page->step_ns[PCU_STEP_VIEW] += middle - begin;
        if (mount(device, plan.mount_point, plan.filesystem, plan.flags, plan.options) != 0)
            return fail(PCU_STEP_MOUNT, "mount %s", device);
        end = now_ns();
        page->step_ns[PCU_STEP_MOUNT] += end - middle;
        if (umount2(plan.mount_point, 0) != 0)
            return fail(PCU_STEP_UMOUNT, "umount %s", device);
        page->step_ns[PCU_STEP_UMOUNT] += now_ns() - end;
    }
    free(pristine);
    pristine = NULL;
    return 0;
}
