/* SPDX-License-Identifier: Apache-2.0
 *
 * powercut-in-folder LINES SOCKET COMMAND...: runs a command in a captured folder.
 *
 * sync(2) and syncfs(2) never reach a file system of FUSE.  So a filter of the kernel (seccomp's user
 * notification) tells the recorder of each, by any of the processor's numbers for it, and the
 * recorder answers before the call is made; it gets the descriptor over SOCKET.  The command has the file LINES as its POWERCUT_FD.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "folder_calls.h"

#define LINES_FD 3


static int fail(const char *what)
{
    fprintf(stderr, "powercut-in-folder: %s: %s\n", what, strerror(errno));
    return 125;
}

static int install_filter(void)
{
    struct sock_filter code[4 * SYNC_CALLS + 2];
    size_t length = 0;
    for (size_t i = 0; i < SYNC_CALLS; i++) {
        const struct sock_filter one[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, sync_calls[i].arch, 0, 2),
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, sync_calls[i].number,
                     (uint8_t)(4 * (SYNC_CALLS - i - 1) + 1), 0),
        };
        memcpy(code + length, one, sizeof one);
        length += sizeof one / sizeof *one;
    }
    code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    struct sock_fprog program = {.len = (unsigned short)length, .filter = code};
    long listener = -1;
    for (int i = 0; i < 2 && listener < 0; i++) {
        if (i && (errno != EACCES || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)))
            break; /* who has not the right to filters gives up that to gain rights */
        listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                           &program);
    }
    return (int)listener;
}

static int hand_over(int socket_fd, int fd)
{
    char byte = 0;
    char control[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec data = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    return sendmsg(socket_fd, &message, MSG_NOSIGNAL) == 1 ? 0 : -1;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        errno = EINVAL;
        return fail("usage: powercut-in-folder LINES SOCKET COMMAND...");
    }
    int socket_fd = atoi(argv[2]);
    int listener = install_filter();
    if (listener < 0)
        return fail("a filter for sync and syncfs");
    if (hand_over(socket_fd, listener))
        return fail("handing over the filter");
    close(listener);
    close(socket_fd);
    int lines = open(argv[1], O_RDWR);
    if (lines < 0)
        return fail(argv[1]);
    if (lines != LINES_FD) {
        if (dup2(lines, LINES_FD) < 0)
            return fail("a descriptor for lines");
        close(lines);
    }
    setenv("POWERCUT_FD", "3", 1);
    execvp(argv[3], argv + 3);
    fail(argv[3]);
    return errno == ENOENT ? 127 : 126;
}
