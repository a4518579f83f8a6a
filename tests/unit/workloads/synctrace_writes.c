/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes to files opened with O_SYNC and O_DSYNC, between others that are no syncs.
 *     writes FOLDER
 *     writes FOLDER sends        gives such a file to another process
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static int wal, log_file, plain;

static void check(int ok, const char *what)
{
    if (!ok) {
        perror(what);
        exit(99);
    }
}

static __attribute__((noinline)) int open_new(const char *name, int flags)
{
    int fd = open(name, O_CREAT | O_TRUNC | flags, 0600);

    check(fd >= 0, name);
    return fd;
}

static void *in_thread(void *nothing)
{
    check(pwrite(wal, "t", 1, 100) == 1, "pwrite in a thread");
    return nothing;
}

static void known(void)
{
    struct iovec parts[2] = {{"x", 1}, {"yz", 2}};
    volatile int times;
    pthread_t thread;
    off_t start = 0;
    int status = 0;

    check(write(plain, "a", 1) == 1, "write"); /* before there is any such file */
    wal = open_new("wal", O_RDWR | O_DSYNC);
    log_file = open_new("log-17", O_WRONLY | O_APPEND | O_SYNC);
    check(write(plain, "b", 1) == 1, "write");
    for (times = 0; times < 3; times++)
        check(write(wal, "hello", 5) == 5, "write");
    for (times = 0; times < 2; times++)
        check(pwrite(wal, "HE", 2, times) == 2, "pwrite");
    check(write(log_file, "line\n", 5) == 5, "write");
    check(lseek(wal, 0, SEEK_CUR) == 15, "place after writes");
    check(writev(wal, parts, 2) == 3, "writev");
    check(pwritev(wal, parts, 2, 40) == 3, "pwritev");
    check(pwritev2(wal, parts, 2, -1, 0) == 3, "pwritev2");
    check(pwritev2(wal, parts, 2, 50, RWF_DSYNC) == 3, "pwritev2");
    check(pthread_create(&thread, NULL, in_thread, NULL) == 0, "thread");
    pthread_join(thread, NULL);
    if (fork() == 0)
        _exit(write(log_file, "child\n", 6) != 6);
    check(wait(&status) > 0 && status == 0, "child");
    check(lseek(wal, 0, SEEK_CUR) == 21, "place after vectors");
    check(fallocate(dup(wal), 0, 0, 4096) == 0, "fallocate");
    check(sendfile(wal, plain, &start, 2) == 2, "sendfile");
    check(pwrite(plain, "c", 1, 2) == 1, "pwrite");
}

static int sends(void)
{
    struct msghdr message = {0};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.head = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    struct iovec byte = {"x", 1};
    int ends[2];

    wal = open_new("wal", O_RDWR | O_DSYNC);
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "sockets");
    message.msg_iov = &byte;
    message.msg_iovlen = 1;
    check(sendmsg(ends[0], &message, 0) == 1, "a message without a descriptor");
    memcpy(CMSG_DATA(&control.head), &wal, sizeof wal);
    message.msg_control = &control;
    message.msg_controllen = sizeof control;
    check(sendmsg(ends[0], &message, 0) == 1, "a message with one");
    return 0;
}

int main(int count, char **words)
{
    check(count > 1 && chdir(words[1]) == 0, "chdir");
    plain = open_new("plain", O_RDWR);
    if (count > 2)
        return sends();
    known();
    return 7;
}
