/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs that PID 1 starts, one at a time, and what they have to say.
 */
#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
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

int execute(char *const argv[], enum pcu_step step)
{
    static char *const environment[] = {NULL};
    posix_spawn_file_actions_t actions;
    int channel, status, error, result;
    pid_t child;

    channel = memfd_create("channel", MFD_CLOEXEC);
    if (channel < 0)
        return fail(PCU_STEP_CHECK, "memfd_create");
    posix_spawn_file_actions_init(&actions);
    if (channel == CHANNEL) /* dup2 onto itself would keep the close-on-exec flag */
        fcntl(channel, F_SETFD, 0);
    else
        posix_spawn_file_actions_adddup2(&actions, channel, CHANNEL);
    error = posix_spawn(&child, argv[0], &actions, NULL, argv, environment);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) {
        close(channel);
        errno = error;
        return fail(PCU_STEP_CHECK, "start %s", argv[0]);
    }
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            die("waitpid");
    page->status = (uint32_t)(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    result = collect(channel, step);
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
