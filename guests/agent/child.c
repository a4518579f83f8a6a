/* SPDX-License-Identifier: Apache-2.0
 *
 * One child at a time.  It has the port as fd 3; its stdout and stderr come
 * here through a pipe, and the last of what it said is sent once it has ended.
 *
 * Anybody's program has another port there, for its lines, or a pipe to who stamps them (stamps.c).
 * After its end the line "\\0" follows on that port: what it said is all there before.
 */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common/apart.h"
#include "../common/dated.h"
#include "../common/unsynced.h"

#define CHILD_PORT 3
#define LINES_NAME "lines"
#define TAIL_SIZE 16384

struct tail {
    char text[TAIL_SIZE];
    size_t used;
};

/* Keeps the last of a child's output: a talkative child must not fill the guest's RAM. */
static bool tail_read(struct tail *tail, int fd)
{
    if (tail->used == TAIL_SIZE) {
        memmove(tail->text, tail->text + TAIL_SIZE / 2, TAIL_SIZE / 2);
        tail->used = TAIL_SIZE / 2;
    }
    ssize_t got = read(fd, tail->text + tail->used, TAIL_SIZE - tail->used);
    if (got > 0)
        tail->used += (size_t)got;
    return got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN));
}

static void tail_send(const struct tail *tail)
{
    for (size_t at = 0; at < tail->used;) {
        const char *line = tail->text + at;
        const char *end = memchr(line, '\n', tail->used - at);
        size_t length = end ? (size_t)(end - line) : tail->used - at;
        if (length)
            port_text(PC_TEXT, "%.*s", (int)length, line);
        at += length + 1;
    }
}

/* In the child.  `report` is closed by a successful exec; else it carries the errno. */
static _Noreturn void child_become(char *const argv[], const struct place *place, int channel,
                                   int output, int report)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* What is not among 0 to 3 must not be there: `report` may be 3 itself. */
    report = fcntl(report, F_DUPFD_CLOEXEC, 10);
    output = fcntl(output, F_DUPFD_CLOEXEC, 10);
    int port = fcntl(channel, F_DUPFD_CLOEXEC, 10);
    int null = open("/dev/null", O_RDONLY);
    if (report < 0 || output < 0 || port < 0 || null < 0 || dup2(null, 0) < 0 ||
        dup2(output, 1) < 0 || dup2(output, 2) < 0 || dup2(port, CHILD_PORT) < 0)
        _exit(126);
    if (null > CHILD_PORT)
        close(null);
    if (!place || (chroot(AGENT_ROOT) == 0 && chdir(place->folder) == 0 && memory_apart() &&
                   (!place->unsynced || unsynced_begin() == 0) &&
                   (!place->dated || dated_begin() == 0))) {
        if (place && place->enough) {
            close(report);
            _exit(acks_run(argv, place->environment, port, place->enough));
        }
        if (place && place->stamped)
            _exit(stamps_run(argv, place->environment, port, report));
        execve(argv[0], argv, place ? place->environment : environ);
    }
    int error = errno;
    if (write(report, &error, sizeof error) < 0)
        _exit(126);
    _exit(127);
}

/* Waits until the child is gone, reading what it says.  PID 1 also buries orphans. */
static int child_wait(pid_t child, int output, int signals, struct tail *tail)
{
    struct pollfd events[] = {{.fd = signals, .events = POLLIN}, {.fd = output, .events = POLLIN}};
    struct signalfd_siginfo ignored;
    int status = 0, ended;
    bool alive = true;

    while (alive) {
        if (poll(events, 2, -1) < 0 && errno != EINTR)
            die("poll: %s", strerror(errno));
        if (events[1].revents && !tail_read(tail, output))
            events[1].fd = -1; /* end of file */
        if (!(events[0].revents & POLLIN))
            continue;
        /* Signals merge: one SIGCHLD may stand for several deaths. */
        while (read(signals, &ignored, sizeof ignored) > 0)
            ;
        for (pid_t gone; (gone = waitpid(-1, &ended, WNOHANG)) > 0;)
            if (gone == child) {
                status = ended;
                alive = false;
            }
    }
    /* What it said last may still be in the pipe. */
    struct pollfd rest = {.fd = output, .events = POLLIN};
    while (poll(&rest, 1, 0) > 0 && tail_read(tail, output))
        ;
    return status;
}

/* Ends what a program has left behind, and says that its lines are at their end.  The agent of a
 * test on the host is not PID 1: there it would end everybody. */
static void place_leave(int channel, bool stamped)
{
    static const char end[] = {'\0', '\n'};

    if (getpid() == 1) {
        kill(-1, SIGKILL);
        while (waitpid(-1, NULL, 0) > 0)
            ;
    }
    if (stamped ? !stamps_end(channel) : write(channel, end, sizeof end) != sizeof end)
        die("write to the port for lines: %s", strerror(errno));
    close(channel);
}

/* Runs argv[0] to its end.  False if it could not start or was killed by a
 * signal; `status` is then 127 or 128 + signal, as shells have it. */
bool child_run(char *const argv[], const struct place *place, int *status)
{
    static struct tail tail;
    int output[2], report[2], error = 0, channel = port_fd;
    sigset_t children;

    *status = 126;
    tail.used = 0;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    sigprocmask(SIG_BLOCK, &children, NULL);
    int signals = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0) {
        failed(errno, "signalfd");
        return failed_as(PC_FAULT_START);
    }
    if (pipe2(output, O_CLOEXEC)) {
        failed(errno, "pipe");
        close(signals);
        return failed_as(PC_FAULT_START);
    }
    if (pipe2(report, O_CLOEXEC)) {
        failed(errno, "pipe");
        close(signals), close(output[0]), close(output[1]);
        return failed_as(PC_FAULT_START);
    }
    if (place && (channel = port_named(LINES_NAME)) < 0) {
        close(signals), close(output[0]), close(output[1]), close(report[0]), close(report[1]);
        return failed_as(PC_FAULT_START);
    }
    port_flush();
    pid_t child = fork();
    if (child == 0)
        child_become(argv, place, channel, output[1], report[1]);
    int fork_error = errno;
    close(output[1]);
    close(report[1]);
    bool started = child > 0 && read(report[0], &error, sizeof error) <= 0;
    int ended = child > 0 ? child_wait(child, output[0], signals, &tail) : 0;
    close(output[0]), close(report[0]), close(signals);
    if (place)
        place_leave(channel, place->stamped);
    if (child < 0) {
        failed(fork_error, "fork");
        return failed_as(PC_FAULT_START);
    }
    tail_send(&tail);
    *status = WIFSIGNALED(ended) ? 128 + WTERMSIG(ended) : WEXITSTATUS(ended);
    if (!started) {
        failed(error, "execv %s", argv[0]);
        return failed_as(PC_FAULT_START);
    }
    if (WIFSIGNALED(ended)) {
        failed(EINTR, "%s was killed by signal %d (%s)", argv[0], WTERMSIG(ended),
               strsignal(WTERMSIG(ended)));
        return failed_as(PC_FAULT_SIGNAL);
    }
    return true;
}
