/* SPDX-License-Identifier: Apache-2.0
 *
 * What every part of PID 1 uses: the memory shared with the controller, in which a failure
 * is kept, the clock, and the end of everything.
 */
#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/reboot.h>
#include <time.h>
#include <unistd.h>

volatile struct pcu_page *page;
uint8_t *area;

uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

_Noreturn void die(const char *call)
{
    int line = open("/dev/console", O_WRONLY);

    dprintf(line, "powercut: init cannot go on: %s: %s\n", call, strerror(errno));
    reboot(RB_POWER_OFF);
    _exit(1);
}

int fail(enum pcu_step step, const char *format, ...)
{
    int error = errno;
    va_list arguments;

    if (page->step != PCU_STEP_NONE) /* the first failure counts */
        return -1;
    page->step = step;
    page->error = (uint32_t)error;
    va_start(arguments, format);
    vsnprintf((char *)page->what, sizeof page->what, format, arguments);
    va_end(arguments);
    return -1;
}

/* /dev/mmapper has no size to ask for: the first page is mapped to read it. */
void share_map(void)
{
    int fd = open("/dev/mmapper", O_RDWR | O_CLOEXEC);
    uint64_t capacity;
    uint8_t *memory;

    if (fd < 0)
        die("open /dev/mmapper");
    memory = mmap(NULL, PCU_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        die("mmap /dev/mmapper");
    if (((struct pcu_page *)memory)->magic != PCU_MAGIC) {
        errno = EPROTO;
        die("the shared page");
    }
    capacity = ((struct pcu_page *)memory)->capacity;
    munmap(memory, PCU_PAGE);
    memory = mmap(NULL, PCU_PAGE + capacity, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        die("mmap all of /dev/mmapper");
    close(fd);
    page = (volatile struct pcu_page *)memory;
    area = memory + PCU_PAGE;
}
