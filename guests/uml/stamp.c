/* SPDX-License-Identifier: Apache-2.0
 *
 * uml-stamp.so: gives each line of a program in User-Mode Linux the host's clock.
 *
 * The kernel of UML hands what a program writes to its second serial line to write(2),
 * before the program's own call returns.  This library stands before libc's write: data for
 * the descriptor in POWERCUT_STAMP_FD goes out as one packet with the instant in front,
 * CLOCK_MONOTONIC in nanoseconds, u64 little-endian.  So an ack has the instant at which it
 * was made, on the clock of the capture disk, however late the controller receives it.
 *
 * The descriptor does not block, and UML keeps up to 4 KiB of what could not be sent for later,
 * while the program runs on: its claims would have the instant of a later moment, or be gone with
 * the guest.  So where the controller is behind, the whole guest waits here until it is not.
 *
 * The guard preloads it into UML alone.
 */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

typedef ssize_t write_fn(int fd, const void *data, size_t size);

ssize_t write(int fd, const void *data, size_t size)
{
    static write_fn *next;
    static int stamped = -2;
    struct timespec now;
    uint64_t instant;
    ssize_t sent;

    if (next == NULL)
        next = (write_fn *)dlsym(RTLD_NEXT, "write");
    if (stamped == -2) {
        const char *text = getenv("POWERCUT_STAMP_FD");

        stamped = text == NULL ? -1 : atoi(text);
    }
    if (fd != stamped || size == 0)
        return next(fd, data, size);
    clock_gettime(CLOCK_MONOTONIC, &now);
    instant = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    struct iovec parts[2] = {{&instant, sizeof instant}, {(void *)(uintptr_t)data, size}};
    while ((sent = writev(fd, parts, 2)) < 0 && (errno == EAGAIN || errno == EINTR)) {
        struct pollfd room = {fd, POLLOUT, 0};

        poll(&room, 1, -1);
    }
    return sent < 0 ? sent : sent - (ssize_t)sizeof instant;
}
