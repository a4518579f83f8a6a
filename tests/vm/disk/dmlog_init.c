/* SPDX-License-Identifier: Apache-2.0
 *
 * PID 1 for test_dm_log_writes.py: runs the lines of /script, one step each,
 * and switches off.  Says "script done" at the end if no step failed.
 *
 *   module FILE              load a kernel module
 *   wait PATH                until the node is there
 *   exec PATH ARG...         run a program (words are split at spaces)
 *   open PATH                the device for the steps that follow
 *   write OFFSET LENGTH SEED one O_DIRECT write of the test's pattern
 *   fua OFFSET LENGTH SEED   the same with RWF_DSYNC
 *   flush                    fsync
 *   discard OFFSET LENGTH
 *   close
 *   mark TEXT                by workloads/dmlog's library, on the device "pc"
 *   mount DEV TYPE           on /mnt
 *   append LENGTH SEED       to /mnt/file, then fdatasync
 *   umount
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dmlog.h"

static int device = -1;
static struct dmlog log_device = {.control = -1};

static uint64_t *pattern(size_t length, uint64_t seed)
{
    uint64_t *words = aligned_alloc(4096, (length + 4095) & ~(size_t)4095);

    for (size_t i = 0; i < length / 8; i++)
        words[i] = (seed << 32) | i;
    return words;
}

static int put(int fd, long long offset, size_t length, uint64_t seed, int flags)
{
    uint64_t *words = pattern(length, seed);
    struct iovec part = {.iov_base = words, .iov_len = length};
    ssize_t done = pwritev2(fd, &part, 1, offset, flags);

    free(words);
    return done == (ssize_t)length ? 0 : -1;
}

static int run(char *line)
{
    char *argv[16];
    int count = 0, status = -1;
    pid_t child;

    for (char *word = strtok(line, " "); word && count < 15; word = strtok(NULL, " "))
        argv[count++] = word;
    argv[count] = NULL;
    child = fork();
    if (child == 0) {
        execv(argv[0], argv);
        _exit(127);
    }
    return waitpid(child, &status, 0) == child && status == 0 ? 0 : -1;
}

static int module(const char *path)
{
    int fd = open(path, O_RDONLY);
    long result = fd < 0 ? -1 : syscall(SYS_finit_module, fd, "", 0);

    close(fd);
    return (int)result;
}

static int wait_node(const char *path)
{
    for (int tries = 0; tries < 10000; tries++) {
        if (access(path, F_OK) == 0)
            return 0;
        usleep(1000);
    }
    return -1;
}

static int append(size_t length, uint64_t seed)
{
    int fd = open("/mnt/file", O_WRONLY | O_CREAT | O_APPEND, 0644);
    int result = fd < 0 ? -1 : put(fd, 0, length, seed, 0);

    if (result == 0)
        result = fdatasync(fd);
    close(fd);
    return result;
}

static int step(char *line)
{
    char *rest = strchr(line, ' ');
    long long a = 0;
    uint64_t b = 0, seed = 0;

    if (rest)
        *rest++ = '\0';
    else
        rest = line + strlen(line);
    sscanf(rest, "%lld %lu %lu", &a, &b, &seed);
    if (!strcmp(line, "module"))
        return module(rest);
    if (!strcmp(line, "wait"))
        return wait_node(rest);
    if (!strcmp(line, "exec"))
        return run(rest);
    if (!strcmp(line, "open"))
        return (device = open(rest, O_RDWR | O_DIRECT)) < 0 ? -1 : 0;
    if (!strcmp(line, "write"))
        return put(device, a, b, seed, 0);
    if (!strcmp(line, "fua"))
        return put(device, a, b, seed, RWF_DSYNC);
    if (!strcmp(line, "flush"))
        return fsync(device);
    if (!strcmp(line, "discard"))
        return ioctl(device, BLKDISCARD, (uint64_t[]){(uint64_t)a, b});
    if (!strcmp(line, "close"))
        return close(device);
    if (!strcmp(line, "mark")) {
        if (log_device.control < 0 && dmlog_open(&log_device, "pc") < 0)
            return -1;
        return dmlog_mark(&log_device, rest);
    }
    if (!strcmp(line, "mount")) {
        char *type = strchr(rest, ' ');

        *type++ = '\0';
        return mount(rest, "/mnt", type, 0, NULL);
    }
    if (!strcmp(line, "append"))
        return append((size_t)a, b);
    if (!strcmp(line, "umount"))
        return umount("/mnt");
    errno = ENOSYS;
    return -1;
}

int main(void)
{
    char line[256], shown[256];
    FILE *script = fopen("/script", "r");
    int failed = script == NULL;

    if (mount("dev", "/dev", "devtmpfs", 0, NULL) != 0 && errno != EBUSY)
        failed = 1;
    while (!failed && fgets(line, sizeof(line), script)) {
        line[strcspn(line, "\n")] = '\0';
        strcpy(shown, line);
        if (*line && step(line) != 0) {
            printf("step failed: %s: %s\n", shown, strerror(errno));
            failed = 1;
        }
    }
    if (!failed)
        printf("script done\n");
    fflush(stdout);
    sync();
    reboot(RB_POWER_OFF);
    return 1;
}
