/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs that PID 1 starts, one at a time, and what they have to say.
 */
#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "../../workloads/common/wire.h"

#define CHANNEL 3 /* the descriptor that programs send their messages to */

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

/* Copies what a program with a root has written: lines, which are not for PID 1 to read. */
static int collect_lines(int channel, enum pcu_step step)
{
    off_t size = lseek(channel, 0, SEEK_END);

    if (size < 0 || (uint64_t)size > page->capacity) {
        errno = EFBIG;
        return fail(step, "lines of the program");
    }
    if (pread(channel, area, (size_t)size, 0) != (ssize_t)size)
        return fail(PCU_STEP_CHECK, "read the lines of the program");
    page->answer = (uint64_t)size;
    return 0;
}

/* Starts a program; its pid, or -1 and errno.  vfork: a copy of PID 1's address space, with all
 * that it shares with the controller, would cost more than most programs run for. */
static pid_t start(char *const argv[], int channel)
{
    static char *const nothing[] = {NULL};
    static volatile int error; /* the child's: it borrows our memory until it has become another */
    pid_t child;

    error = 0;
    child = vfork();
    if (child == 0) {
        if (channel == CHANNEL) /* dup2 onto itself would keep the close-on-exec flag */
            fcntl(channel, F_SETFD, 0);
        if ((channel == CHANNEL || dup2(channel, CHANNEL) >= 0) &&
            (plan.root == NULL || (chroot(plan.root) == 0 && chdir(plan.folder) == 0)))
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
static void end_stragglers(void)
{
    kill(-1, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0)
        ;
}

static int open_channel(void)
{
    struct termios settings;
    int fd;

    if ((page->flags & PCU_FLAG_LIVE) == 0)
        return memfd_create("channel", MFD_CLOEXEC);
    fd = open(LINES, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || tcgetattr(fd, &settings) != 0)
        return -1;
    cfmakeraw(&settings);
    return tcsetattr(fd, TCSANOW, &settings) == 0 ? fd : -1;
}

int execute(char *const argv[], enum pcu_step step)
{
    int channel, status, result;
    pid_t child, ended;

    channel = open_channel();
    if (channel < 0)
        return fail(PCU_STEP_CHECK, "the channel of %s", argv[0]);
    child = start(argv, channel);
    if (child < 0) {
        close(channel);
        return fail(PCU_STEP_CHECK, "start %s", argv[0]);
    }
    do
        ended = waitpid(-1, &status, 0);
    while (ended != child && (ended > 0 || errno == EINTR));
    if (ended != child)
        die("waitpid");
    if (plan.root != NULL)
        end_stragglers();
    page->status = (uint32_t)(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    if ((page->flags & PCU_FLAG_LIVE) != 0)
        result = 0;
    else
        result = plan.root == NULL ? collect(channel, step) : collect_lines(channel, step);
    close(channel);
    if (result == 0 && page->status != 0) {
        errno = 0;
        result = fail(step, "%s ended with status %u", argv[0], page->status);
    }
    return result;
}

int execute_once(void)
{
    char text[8192], *argv[ARGUMENTS_MAX + 1];

    if (page->length >= sizeof text) {
        errno = E2BIG;
        return fail(PCU_STEP_CHECK, "the command line");
    }
    memset(text, 0, sizeof text);
    memcpy(text, area, page->length);
    take_list(text, argv);
    return execute(argv, PCU_STEP_READ);
}
