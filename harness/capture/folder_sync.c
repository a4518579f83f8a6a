/* SPDX-License-Identifier: Apache-2.0
 *
 * sync(2) and syncfs(2) of the commands that run in a captured folder: the kernel tells of each
 * before it is made (folder_run.c), and the recorder makes it in its place.
 *
 * The kernel would not wait for the pages of FUSE's mappings.  So the recorder has them written
 * back; of each file that had any a sync of its own follows in the log, which covers them and is part
 * of the great one.
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
#include "folder_calls.h"
#include "folder_press.h"

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
    for (size_t i = 0; i < SYNC_CALLS; i++)
        if (sync_calls[i].all && sync_calls[i].arch == notice->data.arch &&
            sync_calls[i].number == (uint32_t)notice->data.nr)
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

static void sync_all(void)
{
    struct request all = {.op = PCLOG_FLUSH};
    size_t count;
    /* Before the sync is: it covers no page that is on its way, if the presser sent it. */
    struct paged *paged = press_look(&count);
    if (request_submit(&all, NULL, 0)) {
        free(paged);
        return;
    }
    if (press_write_out(paged, &count))
        folder_doubt("failing syncs: pages of a mapping may not be written yet");
    struct request *each = calloc(count + 1, sizeof *each);
    for (size_t i = 0; each && i < count; i++) {
        each[i] = (struct request){
            .op = PCLOG_FLUSH, .object = (uint32_t)paged[i].number, .flags = FOLDER_DATA_ONLY};
        if (request_submit(&each[i], NULL, 0))
            count = i; /* the power is gone */
    }
    if (!each)
        folder_doubt("failing syncs: no memory");
    request_sleep();
    for (size_t i = 0; each && i < count; i++)
        request_complete(&each[i], 0);
    request_complete(&all, 0);
    free(each);
    free(paged);
}

struct notice {
    int listener;
    struct seccomp_notif told;
};

static void *answer(void *argument)
{
    struct notice *notice = argument;
    struct seccomp_notif_resp *reply = calloc(1, 4096); /* room for a newer kernel's */
    bool ours = is_ours(&notice->told);
    if (ours)
        sync_all();
    if (reply) { /* what was done here need not be done again, with all disks of the host */
        *reply = (struct seccomp_notif_resp){
            .id = notice->told.id, .flags = ours ? 0 : SECCOMP_USER_NOTIF_FLAG_CONTINUE};
        ioctl(notice->listener, SECCOMP_IOCTL_NOTIF_SEND, reply); /* ENOENT: the process is gone */
    }
    free(reply);
    free(notice);
    return NULL;
}

/* Each in a thread of its own: the syncs of two processes may be under way together. */
static void *watch(void *argument)
{
    int listener = receive_listener((int)(intptr_t)argument);
    struct seccomp_notif *told = calloc(1, 4096);
    while (listener >= 0 && told) {
        memset(told, 0, sizeof *told);
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, told)) {
            if (errno == EINTR || errno == ENOENT)
                continue;
            break;
        }
        pthread_t thread;
        struct notice *notice = malloc(sizeof *notice);
        if (!notice)
            break; /* who has asked waits for ever */
        *notice = (struct notice){listener, *told};
        if (pthread_create(&thread, NULL, answer, notice))
            answer(notice);
        else
            pthread_detach(thread);
    }
    free(told);
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
