/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that is ended once it has acknowledged enough: life after a recovery.
 *
 * Its lines come here first, since they are counted; what it has said when it is ended is passed on to
 * the last byte.  This runs in the child that would otherwise become the program.
 */
#include "agent.h"

#include "../common/ended.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINES 3
#define FAILED 126
#define TOO_LATE 124 /* as timeout(1) has it */

struct relay {
    int from, to;
    unsigned long acks;
    bool inside; /* the last byte was not the end of a line */
};

static bool pass_on(int to, const char *data, size_t length)
{
    while (length) {
        ssize_t put = write(to, data, length);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        data += put, length -= (size_t)put;
    }
    return true;
}

/* Passes on what is there; false at the end, or if it could not be passed on. */
static bool relay_once(struct relay *relay)
{
    char data[65536];
    ssize_t got = read(relay->from, data, sizeof data);

    if (got < 0 && errno == EINTR)
        return true;
    for (ssize_t at = 0; at < got; at++) {
        relay->acks += !relay->inside && data[at] == '+';
        relay->inside = data[at] != '\n';
    }
    return got > 0 && pass_on(relay->to, data, (size_t)got);
}

/* Until there are acks enough, the program has ended or its time is over; false for the last.  One
 * that ends in order, as a daemon's parent does, may have left who says more. */
static bool listen(struct relay *relay, int program, pid_t child, const struct enough *enough)
{
    uint64_t deadline = pc_now_ns() + enough->ms * 1000000ull, now;
    struct pollfd polled[] = {{relay->from, POLLIN, 0}, {program, POLLIN, 0}};

    while (relay->acks < enough->acks) {
        now = pc_now_ns();
        if (now >= deadline)
            return false;
        polled[0].revents = polled[1].revents = 0;
        poll(polled, 2, (int)((deadline - now) / 1000000u) + 1);
        if (polled[0].revents) {
            if (!relay_once(relay))
                polled[0].fd = -1; /* it has closed its descriptor, and goes on */
        } else if (polled[1].revents) {
            if (!ended_in_order(child) || polled[0].fd < 0)
                return true;
            polled[1].fd = -1;
        }
        if (polled[0].fd < 0 && polled[1].fd < 0)
            return true;
    }
    return true;
}

int acks_run(char *const argv[], char *const environment[], int port, const struct enough *enough)
{
    struct relay relay = {.to = port};
    int ends[2], status = 0;

    if (pipe2(ends, O_CLOEXEC))
        return FAILED;
    pid_t child = fork();
    if (child == 0) {
        if (dup2(ends[1], LINES) == LINES && fcntl(LINES, F_SETFD, 0) == 0)
            execve(argv[0], argv, environment);
        _exit(127);
    }
    close(ends[1]);
    int program = child < 0 ? -1 : (int)syscall(SYS_pidfd_open, child, 0);
    if (program < 0)
        return FAILED;
    relay.from = ends[0];
    bool in_time = listen(&relay, program, child, enough);
    bool ended = waitpid(child, &status, WNOHANG) == child;
    if (getppid() == 1)
        kill(-1, SIGKILL); /* all but PID 1 and this process */
    if (!ended)
        kill(child, SIGKILL), waitpid(child, NULL, 0);
    while (relay_once(&relay))
        ;
    if (relay.acks >= enough->acks)
        return 0;
    if (!in_time || !ended)
        return TOO_LATE;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
