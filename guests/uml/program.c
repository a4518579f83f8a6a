/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs that PID 1 starts, one at a time, and what they have to say.
 */
#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "../../workloads/common/wire.h"
#include "../common/apart.h"
#include "../common/dated.h"
#include "../common/ended.h"
#include "../common/unsynced.h"

#define FULL_BYTES (1u << 20) /* room below which a program may fail for the lack of it */

/* Copies what the program has to say out of its messages: extents to the
 * answer, claims to the page, the first error to `what`. */
static int collect(int channel, enum pcu_step step)
{
    struct pc_message message;
    off_t at = 0;
    ssize_t got;

    while ((got = pread(channel, &message, sizeof message, at)) == (ssize_t)sizeof message) {
        at += got;
        if (message.magic != PC_WIRE_MAGIC || message.length > PC_WIRE_PAYLOAD_MAX) {
            errno = EBADMSG;
            return fail(step, "message of the program");
        }
        if (message.type == PC_EXTENT) {
            if (page->answer + message.length > page->capacity) {
                errno = ENOSPC;
                return fail(PCU_STEP_CHECK, "room for extents");
            }
            if (pread(channel, area + page->answer, message.length, at) != message.length)
                return fail(step, "extents of the program");
            page->answer += message.length;
        } else if (message.type == PC_ACK) {
            page->acked = message.lsn > page->acked ? message.lsn : page->acked;
        } else if (message.type == PC_ATTEMPT) {
            page->attempted = message.lsn > page->attempted ? message.lsn : page->attempted;
        } else if (message.type == PC_ERROR && page->step == PCU_STEP_NONE) {
            char text[200] = "";
            size_t size = message.length < sizeof text ? message.length : sizeof text - 1;

            if (pread(channel, text, size, at) < 0)
                text[0] = '\0';
            errno = (int)message.value;
            fail(step, "%s", text);
        }
        at += message.length;
    }
    return page->step == PCU_STEP_NONE ? 0 : -1;
}

/* What a program is made of before it is one: its root, and what it may not do there. */
bool apart(void)
{
    return (plan.root == NULL || (chroot(plan.root) == 0 && chdir(plan.folder) == 0)) &&
           (plan.root == NULL || (memory_apart() && confine() == 0)) &&
           ((page->flags & PCU_FLAG_UNSYNCED) == 0 || unsynced_begin() == 0) &&
           ((page->flags & PCU_FLAG_READS) == 0 || dated_begin() == 0);
}

int status_of(int how)
{
    return WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
}

/* Starts a program; its pid, or -1 and errno.  vfork: a copy of PID 1's address space, with all
 * that it shares with the controller, would cost more than most programs run for. */
pid_t start(char *const argv[], int channel, bool traced)
{
    static char *const nothing[] = {NULL};
    static volatile int error; /* the child's: it borrows our memory until it has become another */
    pid_t child;

    error = 0;
    if (nodes_run(argv))
        return nodes_start(channel);
    child = vfork();
    if (child == 0) {
        if (channel == CHANNEL) /* dup2 onto itself would keep the close-on-exec flag */
            fcntl(channel, F_SETFD, 0);
        if ((channel == CHANNEL || dup2(channel, CHANNEL) >= 0) &&
            apart() &&
            (!traced || ptrace(PTRACE_TRACEME, 0, 0, 0) == 0))
            execve(argv[0], argv, plan.root == NULL ? nothing : plan.environment);
        error = errno;
        _exit(127);
    }
    if (child > 0 && error != 0) {
        waitpid(child, NULL, 0);
        errno = error;
        return -1;
    }
    return child;
}

/* Ends what a program has left behind: it would keep the file system busy. */
void end_stragglers(void)
{
    kill(-1, SIGKILL);
    while (waitpid(-1, NULL, __WALL) > 0)
        ;
    warm_gone();
}

/* What programs with a root say: lines, which are not for PID 1 to read.  A pipe, and not a file: a
 * program may open its descriptor by the name that /proc has for it, and begins anew in a file. */
static int said[2] = {-1, -1};

int lines_open(void)
{
    if (said[0] < 0 &&
        (pipe2(said, O_CLOEXEC) != 0 || fcntl(said[0], F_SETFL, O_NONBLOCK) != 0))
        return -1;
    return fcntl(said[1], F_DUPFD_CLOEXEC, 0);
}

void lines_forget(void)
{
    char rest[4096];

    while (said[0] >= 0 && read(said[0], rest, sizeof rest) > 0)
        ;
}

static int open_channel(void)
{
    struct termios settings;
    int fd;

    if ((page->flags & PCU_FLAG_LIVE) == 0) {
        lines_forget();
        return plan.root != NULL ? lines_open() : memfd_create("channel", MFD_CLOEXEC);
    }
    fd = open(LINES, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || tcgetattr(fd, &settings) != 0)
        return -1;
    cfmakeraw(&settings);
    return tcsetattr(fd, TCSANOW, &settings) == 0 ? fd : -1;
}

static void look_at_the_clock(int signal)
{
    (void)signal; /* that it came ends a wait */
}

/* The timer comes again, so that one which comes between two calls is not the last. */
void clock_begin(void)
{
    struct sigaction action = {.sa_handler = look_at_the_clock};
    struct itimerval often = {{0, 50000}, {0, 50000}};

    if (request_end_ns != 0 &&
        (sigaction(SIGALRM, &action, NULL) != 0 || setitimer(ITIMER_REAL, &often, NULL) != 0))
        die("a timer");
}

void clock_end(void)
{
    struct itimerval never = {{0, 0}, {0, 0}};

    setitimer(ITIMER_REAL, &never, NULL);
}

static bool is_over(void)
{
    return request_end_ns != 0 && now_ns() >= request_end_ns;
}

/* Takes what is in the pipe; the bytes, 0 at its end, -1 and errno. */
static ssize_t take_lines(int from)
{
    ssize_t got;

    if (page->answer == page->capacity) {
        errno = EFBIG;
        return -1;
    }
    do
        got = read(from, area + page->answer, page->capacity - page->answer);
    while (got < 0 && errno == EINTR);
    if (got > 0)
        page->answer += (uint64_t)got;
    return got;
}

/* Buries whoever has ended; whether `child` has. */
static bool buried(pid_t child, int *status)
{
    pid_t ended;
    int how;

    while ((ended = waitpid(-1, &how, WNOHANG)) > 0)
        if (ended == child) {
            *status = how;
            return true;
        }
    return false;
}

/* Waits for a program, and takes its lines if it has a root; ETIME if its time was over, EFBIG if it
 * said more than there is room for: then it was ended. */
static int wait_for(pid_t child, int *status)
{
    int error = 0;
    int program = (int)syscall(SYS_pidfd_open, child, 0);
    struct pollfd polled[] = {{program, POLLIN, 0}, {plan.root != NULL ? said[0] : -1, POLLIN, 0}};

    if (program < 0)
        die("pidfd_open");
    do {
        poll(polled, 2, 50);
        while (polled[1].fd >= 0 && take_lines(said[0]) > 0)
            ;
        if (error == 0 && (is_over() || page->answer == page->capacity)) {
            error = page->answer == page->capacity ? EFBIG : ETIME;
            polled[1].fd = -1;
            kill(child, SIGKILL);
        }
    } while (!buried(child, status));
    close(program);
    return error;
}

bool wait_stopped(pid_t task, int *status)
{
    pid_t ended;

    do
        ended = waitpid(task, status, __WALL);
    while (ended < 0 && errno == EINTR && !is_over());
    return ended == task && WIFSTOPPED(*status);
}

/* Waits for a program, and takes its lines or messages; how it ended. */
static int finish(char *const argv[], pid_t child, int channel, bool warm, enum pcu_step step)
{
    int result = 0, status, error = 0;
    bool live = (page->flags & PCU_FLAG_LIVE) != 0;

    if (live)
        wait_listening(child, &status, (page->flags & PCU_FLAG_FOLDER) == 0);
    else
        error = wait_for(child, &status);
    if (plan.root != NULL && !(warm && warm_is_alone()))
        end_stragglers();
    page->status = (uint32_t)status_of(status);
    if (!live && plan.root == NULL)
        result = collect(channel, step);
    while (!live && plan.root != NULL && error == 0 && take_lines(said[0]) > 0)
        ; /* what was said before all had ended */
    close(channel);
    if (result == 0 && page->answer == page->capacity) {
        errno = EFBIG;
        result = fail(step, "lines of the program");
    } else if (result == 0 && error == ETIME) {
        errno = 0;
        result = fail(step, "%s did not end within %.3g s", argv[0], page->limit_ms / 1e3);
    } else if (result == 0 && page->status != 0) {
        errno = 0;
        result = fail(step, "%s ended with status %u", argv[0], page->status);
    }
    return result;
}

int execute(char *const argv[], enum pcu_step step)
{
    int channel = open_channel();
    pid_t child;

    if (channel < 0)
        return fail(PCU_STEP_CHECK, "the channel of %s", argv[0]);
    child = start(argv, channel, false);
    if (child < 0) {
        close(channel);
        return fail(PCU_STEP_CHECK, "start %s", argv[0]);
    }
    return finish(argv, child, channel, false, step);
}

int execute_warm(enum pcu_step step)
{
    int channel;
    pid_t child = warm_start(&channel);

    return child < 0 ? execute(plan.reader, step) : finish(plan.reader, child, channel, true, step);
}

/* How many lines from `begin` on say that an operation is durable. */
static uint64_t count_acks(uint64_t begin)
{
    uint64_t at, count = 0;

    for (at = begin; at < page->answer; at++)
        count += area[at] == '+' && (at == begin || area[at - 1] == '\n');
    return count;
}

/* Listens until there are acks enough, the program has ended or its time is over.  One that ends in
 * order, as a daemon's parent does, may have left who says more. */
static uint64_t listen_for_acks(int lines, int program, pid_t child, uint64_t begin)
{
    uint64_t deadline = now_ns() + plan.acks_ms * 1000000u, now, acks = 0;
    struct pollfd polled[] = {{lines, POLLIN, 0}, {program, POLLIN, 0}};
    ssize_t got;

    while (acks < plan.acks && (polled[0].fd >= 0 || polled[1].fd >= 0) &&
           (now = now_ns()) < deadline) {
        polled[0].revents = polled[1].revents = 0;
        poll(polled, 2, (int)((deadline - now) / 1000000u) + 1);
        if (polled[0].revents != 0) {
            got = take_lines(lines);
            if (got < 0)
                break;
            if (got == 0)
                polled[0].fd = -1; /* it has closed its descriptor, and goes on */
            acks = count_acks(begin);
        } else if (polled[1].revents != 0) {
            if (!ended_in_order(child))
                break;
            polled[1].fd = -1;
        }
    }
    return acks;
}

/* Whether what keeps a program from going on may be that there is no room. */
static bool is_full(void)
{
    struct statvfs room;

    return statvfs(plan.mount_point, &room) == 0 &&
           (uint64_t)room.f_bavail * room.f_frsize < FULL_BYTES;
}

int execute_acks(char *const argv[], enum pcu_step step)
{
    uint64_t begin = page->answer, acks;
    int ends[2], program, status = 0;
    bool ended, full;
    pid_t child;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return fail(PCU_STEP_CHECK, "a pipe for %s", argv[0]);
    child = start(argv, ends[1], false);
    close(ends[1]);
    program = child < 0 ? -1 : (int)syscall(SYS_pidfd_open, child, 0);
    if (program < 0) {
        close(ends[0]);
        end_stragglers();
        return fail(PCU_STEP_CHECK, "start %s", argv[0]);
    }
    acks = listen_for_acks(ends[0], program, child, begin);
    full = is_full();
    ended = waitpid(child, &status, WNOHANG) == child;
    end_stragglers();
    while (take_lines(ends[0]) > 0) /* what it said before it was killed was said */
        ;
    close(ends[0]);
    close(program);
    page->after_lines = page->answer - begin;
    if (page->answer == page->capacity) {
        errno = EFBIG;
        return fail(PCU_STEP_CHECK, "lines of %s", argv[0]);
    }
    if (acks >= plan.acks)
        return 0;
    page->status = (uint32_t)status_of(status);
    errno = full ? ENOSPC : 0;
    if (!ended)
        return fail(step, "%s acknowledged %llu of %llu operations in time", argv[0],
                    (unsigned long long)acks, (unsigned long long)plan.acks);
    return page->status == 0 ? 0 : fail(step, "%s ended with status %u", argv[0], page->status);
}

/* What the last word is called, on the disk: the program itself may see it at another place. */
static int make_folder(char *const argv[])
{
    const char *name = NULL;
    char path[PATH_MAX];

    for (; *argv != NULL; argv++)
        name = strrchr(*argv, '/');
    if (name == NULL ||
        snprintf(path, sizeof path, "%s%s", plan.mount_point, name) >= (int)sizeof path) {
        errno = EINVAL;
        return fail(PCU_STEP_CHECK, "the folder of the program");
    }
    if (mkdir(path, 0755) != 0 && errno != EEXIST)
        return fail(PCU_STEP_CHECK, "mkdir %s", path);
    return 0;
}

int execute_once(void)
{
    char text[8192], *argv[ARGUMENTS_MAX + 1];

    request_end_ns = 0;
    if (page->length >= sizeof text) {
        errno = E2BIG;
        return fail(PCU_STEP_CHECK, "the command line");
    }
    memset(text, 0, sizeof text);
    memcpy(text, area, page->length);
    take_list(text, argv);
    if ((page->flags & PCU_FLAG_FOLDER) != 0 && make_folder(argv) != 0)
        return -1;
    return execute(argv, PCU_STEP_READ);
}
