/* SPDX-License-Identifier: Apache-2.0
 *
 * What the controller needs to count requests in the guest: the kernel's trace
 * events, small files read back, and a flush of a device that is asked for by
 * name.  What is counted, and how, is the controller's business.
 */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#define TRACEFS "/sys/kernel/tracing"

/* Mounts tracefs; again does no harm. */
bool trace_mount(void)
{
    if (access(TRACEFS "/events", F_OK) == 0)
        return true;
    if (mount("tracefs", TRACEFS, "tracefs", 0, NULL))
        return failed(errno, "mount tracefs on %s", TRACEFS);
    return true;
}

/* Sends a file as one TEXT. */
bool text_send(const char *path)
{
    static char text[65536];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    ssize_t got = 0;

    if (fd < 0)
        return failed(errno, "open %s", path);
    while (used < sizeof text && (got = read(fd, text + used, sizeof text - used)) > 0)
        used += (size_t)got;
    int error = got < 0 ? errno : used == sizeof text ? EFBIG : 0;
    close(fd);
    if (error)
        return failed(error, "read %s", path);
    port_send(PC_TEXT, 0, 0, text, used);
    return true;
}

/* fsync(2): of a block device, it sends a flush whether or not anything was written. */
bool file_sync(const char *path)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return failed(errno, "open %s", path);
    int error = fsync(fd) ? errno : 0;
    close(fd);
    return error ? failed(error, "fsync %s", path) : true;
}
