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
#include <string.h>
#include <unistd.h>

#define CACHE_TYPE "/sys/block/vda/cache_type"
#define APPEARS_MS 10000

int live_setup(void)
{
    static const char write_back[] = "write back";
    static int done;
    int fd, waited;

    if (done)
        return 0;
    module_load("virtio_blk", "");
    for (waited = 0; access(LIVE, F_OK) != 0; waited++) {
        if (waited == APPEARS_MS)
            return fail(PCU_STEP_CHECK, "wait for " LIVE);
        usleep(1000);
    }
    fd = open(CACHE_TYPE, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, write_back, strlen(write_back)) != (ssize_t)strlen(write_back)) {
        if (fd >= 0)
            close(fd);
        return fail(PCU_STEP_CHECK, "write " CACHE_TYPE);
    }
    close(fd);
    done = 1;
    return 0;
}
