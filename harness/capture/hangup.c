/* SPDX-License-Identifier: Apache-2.0
 *
 * Preloaded into nbdkit; keeps nbdkit 1.32 alive when a client is killed.
 *
 * When a reply cannot be sent, or a request is cut short, nbdkit 1.32.5 (Debian 12)
 * forgets the descriptor of the connection.  A thread that has decided to send a reply
 * then fails an assertion, and the whole server dies: with it the volatile cache of a
 * disk whose guest was killed, which is what this project does for a living.
 * Upstream fixed it in "server: Don't assert on send if client hangs up early"
 * (commit 9d82aa4f; Ubuntu 24.04 has it).
 *
 * So here a reply to a client that is gone counts as sent: nobody is there to tell the
 * difference, and the end of the connection is seen by reading.  There, a reset is an
 * end like any other.  What is left is a request of which only a part has come: the
 * reading thread then calls shutdown(2), right before the descriptor is forgotten and
 * with the lock held that others take to decide whether to reply.  Waiting a moment
 * lets those that have decided finish, while no other can decide.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

ssize_t send(int fd, const void *bytes, size_t count, int flags)
{
    long sent = syscall(SYS_sendto, fd, bytes, count, flags | MSG_NOSIGNAL, NULL, 0);
    return sent < 0 && (errno == EPIPE || errno == ECONNRESET) ? (ssize_t)count : sent;
}

ssize_t read(int fd, void *bytes, size_t count)
{
    long got = syscall(SYS_read, fd, bytes, count);
    return got < 0 && errno == ECONNRESET ? 0 : got;
}

int shutdown(int fd, int how)
{
    struct timespec left = {.tv_nsec = 100000000};
    while (how == SHUT_WR && nanosleep(&left, &left) && errno == EINTR)
        ;
    return (int)syscall(SYS_shutdown, fd, how);
}
