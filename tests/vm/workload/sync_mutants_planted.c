/* SPDX-License-Identifier: Apache-2.0
 *
 * A file for each operation: written aside, synced, renamed, the folder synced.  Before that it
 * syncs a file that nobody reads.
 */
#include "powercut_program.h"

#include <fcntl.h>
#include <stdio.h>

static int folder, unread;

static int enter(const char *path)
{
    return chdir(path) != 0 || (folder = open(".", O_RDONLY | O_DIRECTORY)) < 0 ? -1 : 0;
}

static __attribute__((noinline)) int count(void) /* needless */
{
    return write(unread, "x", 1) != 1 || fdatasync(unread) != 0 ? -1 : 0;
}

static __attribute__((noinline)) int save(uint64_t n) /* both are needed */
{
    char name[32];
    int fd = open("aside", O_WRONLY | O_CREAT | O_EXCL, 0600), result = -1;

    snprintf(name, sizeof name, "op-%llu", (unsigned long long)n);
    if (fd >= 0 && write(fd, &n, sizeof n) == sizeof n && fsync(fd) == 0)
        result = rename("aside", name);
    close(fd);
    return result == 0 ? fsync(folder) : -1;
}

static int setup(const char *path)
{
    return enter(path);
}

static int run(const char *path)
{
    int result = enter(path);

    if (result == 0)
        unread = open("unread", O_WRONLY | O_CREAT | O_APPEND, 0600);
    powercut_ready();
    for (uint64_t n = 1; result == 0; n++) {
        powercut_trying(n);
        result = count() == 0 ? save(n) : -1;
        if (result == 0)
            powercut_durable(n);
    }
    return result;
}

static int check(const char *path)
{
    char name[32];

    if (enter(path) != 0)
        return 0;
    for (uint64_t n = 1; n < 1000; n++) {
        uint64_t held = 0;
        int fd;

        snprintf(name, sizeof name, "op-%llu", (unsigned long long)n);
        fd = open(name, O_RDONLY);
        if (fd >= 0 && read(fd, &held, sizeof held) == sizeof held && held == n)
            powercut_present(n, n);
        if (fd >= 0)
            close(fd);
    }
    return 0;
}

POWERCUT_PROGRAM(setup, run, check)
