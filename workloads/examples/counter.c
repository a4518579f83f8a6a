/* SPDX-License-Identifier: Apache-2.0
 * Counts in eight bytes of a file.    cc -o counter workloads/examples/counter.c */
#include "powercut_program.h"

#include <fcntl.h>
#include <sys/stat.h>

static int fd;
static int enter(const char *folder)
{
    return chdir(folder) != 0 || (fd = open("n", O_RDWR | O_CREAT, 0600)) < 0 ? -1 : 0;
}
static int store(uint64_t n)
{
    return pwrite(fd, &n, sizeof n, 0) == sizeof n && fsync(fd) == 0 ? 0 : -1;
}
static int setup(const char *folder)
{
    return enter(folder) != 0 ? -1 : store(0);
}
static int run(const char *folder)
{
    int result = enter(folder);
    powercut_ready();
    for (uint64_t n = 1; result == 0 && (powercut_trying(n), result = store(n)) == 0; n++)
        powercut_durable(n);
    return result;
}
static int check(const char *folder)
{
    uint64_t n = 0;
    if (enter(folder) == 0 && pread(fd, &n, sizeof n, 0) == sizeof n && n > 0)
        powercut_present(1, n);
    return 0;
}
POWERCUT_PROGRAM(setup, run, check)
