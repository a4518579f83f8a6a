/* SPDX-License-Identifier: Apache-2.0
 *
 * What every part of PID 1 uses: the memory shared with the controller, in which a failure
 * is kept, the clock, and the end of everything.
 */
#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/reboot.h>
#include <time.h>
#include <unistd.h>

volatile struct pcu_page *page;
uint8_t *area;
static int disk = -1; /* of the share, where it cannot be mapped */

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

/* Bytes `at` to `at + length` - 1 of the share, its first page included, to or from its disk. */
static void copy(bool out, uint64_t at, uint64_t length)
{
    uint8_t *memory = (uint8_t *)page;
    uint64_t begin = at / PCU_PAGE * PCU_PAGE, end = at + length;

    end = (end + PCU_PAGE - 1) / PCU_PAGE * PCU_PAGE;
    if (end > PCU_PAGE + page->capacity) {
        errno = EOVERFLOW;
        die("a request that is larger than the share");
    }
    while (begin < end) {
        ssize_t done = out ? pwrite(disk, memory + begin, end - begin, (off_t)begin)
                           : pread(disk, memory + begin, end - begin, (off_t)begin);

        if (done <= 0)
            die(out ? "write to the share" : "read from the share");
        begin += (uint64_t)done;
    }
}

static uint64_t capacity_of(const void *first)
{
    if (((const struct pcu_page *)first)->magic != PCU_MAGIC) {
        errno = EPROTO;
        die("the shared page");
    }
    return ((const struct pcu_page *)first)->capacity;
}

/* Newer kernels come without /dev/mmapper; there the share is the disk ubdb. */
static void open_disk(void)
{
    uint8_t *memory;
    uint64_t capacity;

    disk = open("/dev/ubdb", O_RDWR | O_DIRECT | O_CLOEXEC);
    if (disk < 0)
        die("open /dev/mmapper and /dev/ubdb");
    memory = mmap(NULL, PCU_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || pread(disk, memory, PCU_PAGE, 0) != PCU_PAGE)
        die("read the shared page");
    capacity = capacity_of(memory);
    munmap(memory, PCU_PAGE);
    memory = mmap(NULL, PCU_PAGE + capacity, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        die("memory for the share");
    page = (volatile struct pcu_page *)memory;
    area = memory + PCU_PAGE;
    copy(false, 0, PCU_PAGE);
}

/* /dev/mmapper has no size to ask for: the first page is mapped to read it. */
void share_map(void)
{
    int fd = open("/dev/mmapper", O_RDWR | O_CLOEXEC);
    uint64_t capacity;
    uint8_t *memory;

    if (fd < 0) {
        open_disk();
        return;
    }
    memory = mmap(NULL, PCU_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        die("mmap /dev/mmapper");
    capacity = capacity_of(memory);
    munmap(memory, PCU_PAGE);
    memory = mmap(NULL, PCU_PAGE + capacity, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        die("mmap all of /dev/mmapper");
    close(fd);
    page = (volatile struct pcu_page *)memory;
    area = memory + PCU_PAGE;
}

/* The bytes of patches follow each other, from the lowest to the end of the highest. */
static void take_patches(void)
{
    const struct pcu_patch *patches = (const struct pcu_patch *)area;
    uint64_t begin = UINT64_MAX, end = 0;

    copy(false, PCU_PAGE, page->count * sizeof *patches);
    for (uint64_t i = 0; i < page->count; i++) {
        if (patches[i].data == PCU_ZEROES)
            continue;
        if (patches[i].data < begin)
            begin = patches[i].data;
        if (patches[i].data + patches[i].length > end)
            end = patches[i].data + patches[i].length;
    }
    if (begin < end)
        copy(false, PCU_PAGE + begin, end - begin);
}

void share_take(void)
{
    if (disk < 0)
        return;
    copy(false, 0, PCU_PAGE);
    switch (page->verb) {
    case PCU_CONFIGURE:
    case PCU_EXEC:
        copy(false, PCU_PAGE, page->length);
        return;
    case PCU_PATCH:
    case PCU_RECOVER:
    case PCU_MOUNT:
        take_patches();
        return;
    default:
        return;
    }
}

void share_give(void)
{
    if (disk < 0)
        return;
    copy(true, PCU_PAGE, page->answer + page->after_answer + page->reads);
    copy(true, 0, PCU_PAGE);
}
