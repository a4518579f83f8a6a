/* SPDX-License-Identifier: Apache-2.0
 *
 * Syncs whose call sites are known, and programs that would rather not be followed.
 *     planted FOLDER             the first
 *     planted FOLDER HOW         one of the others; then it syncs once, in after()
 */
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static int fd;

static void check(int ok, const char *what)
{
    if (!ok) {
        perror(what);
        exit(99);
    }
}

static __attribute__((noinline)) void save(int file)
{
    check(fsync(file) == 0, "fsync");
    __asm__ volatile("");
}

static void *in_thread(void *nothing)
{
    save(fd);
    return nothing;
}

static __attribute__((noinline)) void known(const char *folder)
{
    char *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    struct iovec part = {"x", 1};
    int other, top = open(folder, O_RDONLY | O_DIRECTORY), index;
    pthread_t thread;

    save(fd);                          /* 1: save, called here */
    save(fd);                          /* 2: and here */
    for (index = 0; index < 3; index++)
        check(fdatasync(fd) == 0, "fdatasync"); /* 3, three times */
    check(fsync(top) == 0, "fsync");   /* 4: of the folder */
    check(memory != MAP_FAILED && msync(memory, 4096, MS_SYNC) == 0, "msync"); /* 5 */
    check(msync(memory, 4096, MS_ASYNC) == 0, "msync");                        /* none */
    other = open("part-0042", O_CREAT | O_WRONLY | O_DSYNC, 0600);             /* 6 */
    printf("%d", (fcntl(other, F_GETFL) & O_DSYNC) != 0);
    check(pwritev2(fd, &part, 1, 0, RWF_DSYNC) == 1, "pwritev2"); /* 7 */
    check(pwritev2(fd, &part, 1, 0, 0) == 1, "pwritev2");         /* none */
    check(fsync(other) == 0, "fsync");                               /* 8 */
    check(pthread_create(&thread, NULL, in_thread, NULL) == 0, "thread");
    pthread_join(thread, NULL); /* 9 */
    if (fork() == 0) {
        save(fd); /* 10: in a child, and through the C library's way for threads */
        _exit(0);
    }
    wait(NULL);
}

static __attribute__((noinline)) int after(void)
{
    return fsync(fd) == 0 ? 0 : 98;
}

static int in_child(void *pointer)
{
    (void)pointer;
    _exit(after());
}

/* Waits for a child that may have been cloned without a signal. */
static int outcome(pid_t child)
{
    int status = 0;

    if (child < 0 || waitpid(child, &status, __WALL) != child)
        return 97;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 96;
}

static int hostile(const char *how)
{
    static char stack[65536];
    struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog filter = {1, allow};

    if (strcmp(how, "untraced") == 0)
        return outcome(clone(in_child, stack + sizeof stack, CLONE_UNTRACED | SIGCHLD, NULL));
    if (strcmp(how, "kill") == 0)
        return kill(getppid(), SIGKILL) == 0 ? pause() : 95;
    if (strcmp(how, "filter") == 0)
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
    if (strcmp(how, "ptrace") == 0)
        ptrace(PTRACE_TRACEME, 0, 0, 0);
    if (strcmp(how, "ring") == 0 && syscall(SYS_io_uring_setup, 1, NULL) != -1)
        return 94;
    if (strcmp(how, "daemon") == 0) { /* its grandchild has no parent and a session of its own */
        int ends[2];
        char done;

        check(pipe(ends) == 0, "pipe");
        if (fork() == 0) {
            setsid();
            if (fork() == 0)
                check(after() == 0 && write(ends[1], "x", 1) == 1, "daemon");
            _exit(0);
        }
        wait(NULL);
        return read(ends[0], &done, 1) == 1 ? 0 : 93;
    }
    return after();
}

int main(int count, char **words)
{
    check(count > 1 && chdir(words[1]) == 0, "chdir");
    fd = open("log", O_CREAT | O_RDWR, 0600);
    check(fd >= 0 && ftruncate(fd, 4096) == 0, "log");
    if (count > 2)
        return hostile(words[2]);
    known(words[1]);
    return 7;
}
