/* SPDX-License-Identifier: Apache-2.0
 *
 * sync(2) and syncfs(2) of the commands that run in a captured folder: each is told by the
 * kernel before it is made (folder_run.c), and is in the log before it goes on.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "folder.h"

static char *captured; /* the folder's path */

static int receive_listener(int socket_fd)
{
    char byte;
    int fd = -1;
    char control[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec data = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    ssize_t got;
    while ((got = recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
        continue;
    struct cmsghdr *header = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (header && header->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return fd;
}

/* Whether a process syncs what the folder lies on.  Of a descriptor in the folder, which is FUSE's,
 * nothing may be asked here that FUSE would have to answer. */
static bool is_ours(const struct seccomp_notif *notice)
{
    if (notice->data.nr == SYS_sync)
        return true;
    char link[64], target[PATH_MAX + 1];
    snprintf(link, sizeof link, "/proc/%u/fd/%d", notice->pid, (int)notice->data.args[0]);
    ssize_t length = readlink(link, target, sizeof target - 1);
    size_t own = strlen(captured);
    if (length >= (ssize_t)own && !memcmp(target, captured, own) &&
        (length == (ssize_t)own || target[own] == '/'))
        return true;
    struct stat found;
    return length > 0 && !stat(link, &found) && found.st_dev == folder_root()->device;
}

static void *watch(void *argument)
{
    int listener = receive_listener((int)(intptr_t)argument);
    struct seccomp_notif *notice = calloc(1, 4096);
    struct seccomp_notif_resp *answer = calloc(1, 4096); /* room for a newer kernel's */
    while (listener >= 0 && notice && answer) {
        memset(notice, 0, sizeof *notice);
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, notice)) {
            if (errno == EINTR || errno == ENOENT)
                continue;
            break;
        }
        struct request request = {.op = PCLOG_FLUSH};
        if (is_ours(notice) && !request_submit(&request, NULL, 0))
            request_complete(&request, 0);
        *answer = (struct seccomp_notif_resp){.id = notice->id,
                                              .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
        ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, answer); /* ENOENT: the process is gone */
    }
    free(notice);
    free(answer);
    if (listener >= 0)
        close(listener);
    return NULL;
}

int folder_watch_syncs(const char *path, int socket_fd)
{
    pthread_t thread;
    captured = realpath(path, NULL);
    if (!captured)
        return errno;
    return pthread_create(&thread, NULL, watch, (void *)(intptr_t)socket_fd);
}
