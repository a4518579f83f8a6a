/* SPDX-License-Identifier: Apache-2.0
 *
 * A program whose lines carry the guest's clock.
 *
 * It writes them to a pipe.  This process reads the pipe, stamps what it has read and sends it on; it
 * answers PINGs on the same port, so that the controller can tell one clock from the other.  A stamp
 * is never earlier than the write.  It is not much later either: this process goes before every
 * ordinary one, so that the program does not even return from its write before it has run, where
 * there is one processor.  A pipe, as programs may open it anew by /proc/self/fd.
 *
 * This runs in the child that would otherwise become the program.
 */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../workloads/common/wire_out.h"
#include "../common/press.h"

#define LINES 3
#define FAILED 126

static struct {
    int from, port;
    struct pc_message ping; /* as much of it as has come */
    size_t have;
} relay;

static bool send_lines(int port, uint64_t stamp, const char *data, size_t length)
{
    static struct pc_outbox outbox;
    struct pc_message message = {.type = PC_LINES, .value = stamp};

    pc_outbox_init(&outbox, port);
    return pc_outbox_add(&outbox, message, data, (uint32_t)length) == 0 &&
           pc_outbox_flush(&outbox) == 0;
}

/* The answer says how far this kernel was pressed, too. */
static bool send_pong(int port, const struct pc_message *ping)
{
    static struct pc_outbox outbox;
    struct pc_message pong = {.type = PC_PONG, .lsn = ping->lsn, .value = ping->value};
    struct pressed done = press_done();

    pc_outbox_init(&outbox, port);
    return pc_outbox_add(&outbox, pong, &done, sizeof done) == 0 && pc_outbox_flush(&outbox) == 0;
}

/* Sends on what is there; false at the end, or if it could not be sent. */
static bool take_lines(void)
{
    static char data[PC_WIRE_PAYLOAD_MAX];
    ssize_t got = read(relay.from, data, sizeof data);

    if (got < 0)
        return errno == EINTR || errno == EAGAIN;
    return got > 0 && send_lines(relay.port, pc_now_ns(), data, (size_t)got);
}

/* Answers a PING that is whole.  False if nobody is there any more, or what came is none. */
static bool take_ping(void)
{
    if (relay.have >= sizeof relay.ping)
        return false; /* it never is; a compiler that checks the length of the read wants to know */
    ssize_t got = read(relay.port, (char *)&relay.ping + relay.have, sizeof relay.ping - relay.have);

    if (got < 0)
        return errno == EINTR || errno == EAGAIN;
    relay.have += (size_t)got;
    if (got == 0 || relay.have < sizeof relay.ping)
        return got > 0;
    relay.have = 0;
    if (!pc_wire_valid(&relay.ping, NULL) || relay.ping.type != PC_PING)
        return false;
    return send_pong(relay.port, &relay.ping);
}

/* Until the program has ended, and if that was in order until nobody is left who could say more: a
 * daemon's parent ends at once.  Its lines go before a ping that came meanwhile. */
static void pass_on(int program, pid_t child, int *status)
{
    struct pollfd polled[] = {
        {relay.from, POLLIN, 0}, {relay.port, POLLIN, 0}, {program, POLLIN, 0}};

    for (;;) {
        if (poll(polled, 3, -1) < 0)
            continue;
        if (polled[0].revents) {
            if (!take_lines())
                polled[0].fd = -1; /* it has closed its descriptor, and goes on */
        } else if (polled[1].revents) {
            if (!(polled[1].revents & POLLIN) || !take_ping())
                polled[1].fd = -1;
        } else if (polled[2].revents) {
            waitpid(child, status, 0);
            polled[2].fd = -1;
        }
        if (polled[2].fd < 0 && (*status != 0 || polled[0].fd < 0))
            return;
    }
}

static void go_first(void)
{
    struct sched_param first = {.sched_priority = 1};

    /* Where that is not allowed stamps are later: an ack then counts from later on. */
    sched_setscheduler(0, SCHED_FIFO, &first);
}

/* Becomes what the program has become. */
static int end_as(int status)
{
    if (WIFSIGNALED(status)) {
        signal(WTERMSIG(status), SIG_DFL);
        raise(WTERMSIG(status));
    }
    return WEXITSTATUS(status);
}

int stamps_run(char *const argv[], char *const environment[], int port, int report)
{
    int ends[2], status = 0;

    if (pipe2(ends, O_CLOEXEC))
        return FAILED;
    pid_t child = fork();
    if (child == 0) {
        if (dup2(ends[1], LINES) == LINES && fcntl(LINES, F_SETFD, 0) == 0)
            execve(argv[0], argv, environment);
        int error = errno;
        _exit(write(report, &error, sizeof error) == sizeof error ? 127 : FAILED);
    }
    close(ends[1]);
    close(LINES); /* the port's own number is `port` */
    close(report);
    int program = child < 0 ? -1 : (int)syscall(SYS_pidfd_open, child, 0);
    if (program < 0)
        return FAILED;
    relay.from = ends[0], relay.port = port;
    fcntl(relay.from, F_SETFL, O_NONBLOCK);
    go_first();
    pass_on(program, child, &status);
    if (getppid() == 1)
        kill(-1, SIGKILL); /* all but PID 1 and this process */
    while (poll(&(struct pollfd){relay.from, POLLIN, 0}, 1, 0) > 0 && take_lines())
        ;
    return end_as(status);
}

bool stamps_end(int port)
{
    static const char end[] = {'\0', '\n'};

    return send_lines(port, 0, end, sizeof end);
}
