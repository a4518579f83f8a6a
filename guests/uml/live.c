/* SPDX-License-Identifier: Apache-2.0
 *
 * The disk outside, on which a program is recorded: virtio-blk over vhost-user.
 *
 * UML's own block device will not do: it drops every flush.  The export of
 * qemu-storage-daemon announces a write-through cache and then the kernel sends no
 * flush, although its disk has a volatile one; so the kernel is told what the disk is.
 */
#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define APPEARS_MS 10000

/* /dev/vdLETTER. */
static int one_setup(char letter)
{
    static const char write_back[] = "write back";
    char node[16], cache_type[48];
    int fd, waited;

    snprintf(node, sizeof node, "/dev/vd%c", letter);
    snprintf(cache_type, sizeof cache_type, "/sys/block/vd%c/cache_type", letter);
    for (waited = 0; access(node, F_OK) != 0; waited++) {
        if (waited == APPEARS_MS)
            return fail(PCU_STEP_CHECK, "wait for %s", node);
        usleep(1000);
    }
    fd = open(cache_type, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, write_back, strlen(write_back)) != (ssize_t)strlen(write_back)) {
        if (fd >= 0)
            close(fd);
        return fail(PCU_STEP_CHECK, "write %s", cache_type);
    }
    close(fd);
    return 0;
}

int live_setup(void)
{
    static bool done;
    unsigned index;

    if (done)
        return 0;
    module_load("virtio_blk", "");
    for (index = 0; index < disks_count(); index++)
        if (one_setup((char)('a' + index)) != 0)
            return -1;
    done = true;
    return 0;
}
