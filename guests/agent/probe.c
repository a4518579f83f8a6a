/* SPDX-License-Identifier: Apache-2.0
 *
 * Does a disk answer?  A file system that says EIO may have been let down by its disk, or may
 * refuse what is there; the page cache knows no difference, a read past it does.
 */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define PROBE_BYTES (256u << 10)

/* Reads all of `node` past the page cache.  False with the first failure. */
bool disk_probe(const char *node)
{
    int fd = open(node, O_RDONLY | O_DIRECT | O_CLOEXEC);
    off_t at = 0;
    ssize_t got;
    void *data;

    if (fd < 0)
        return failed(errno, "open %s", node);
    if (posix_memalign(&data, 4096, PROBE_BYTES) != 0) {
        close(fd);
        return failed(ENOMEM, "malloc");
    }
    do {
        got = pread(fd, data, PROBE_BYTES, at);
        at += got > 0 ? got : 0;
    } while (got > 0 || (got < 0 && errno == EINTR));
    if (got < 0)
        failed(errno, "read %s at %lld", node, (long long)at);
    free(data);
    close(fd);
    return got == 0;
}
