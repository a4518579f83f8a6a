/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "medium.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t blocks(uint64_t sectors)
{
    return (sectors + TOUCHED_SECTORS - 1) / TOUCHED_SECTORS;
}

int view_create(struct view *view, uint64_t sectors)
{
    *view = (struct view){.sectors = sectors};
    view->entries = mmap(NULL, sectors * sizeof *view->entries, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (view->entries == MAP_FAILED) {
        view->entries = NULL;
        return errno;
    }
    view->touched = calloc(blocks(sectors), 1);
    return view->touched ? 0 : ENOMEM;
}

void view_destroy(struct view *view)
{
    if (view->entries)
        munmap(view->entries, view->sectors * sizeof *view->entries);
    free(view->touched);
    *view = (struct view){0};
}

/* Readers look at entries without a lock: they need whole values and nothing else,
 * since the system call that wrote a payload came before.  A release store is an
 * ordinary store on x86 and keeps that order elsewhere. */
static void set_entry(struct view *view, uint64_t sector, uint64_t entry)
{
    __atomic_store_n(&view->entries[sector], entry, __ATOMIC_RELEASE);
}

static uint64_t entry_at(const struct view *view, uint64_t sector)
{
    return __atomic_load_n(&view->entries[sector], __ATOMIC_ACQUIRE);
}

static void touch(struct view *view, uint64_t sector, uint64_t sectors)
{
    uint64_t last = (sector + sectors - 1) / TOUCHED_SECTORS;
    for (uint64_t block = sector / TOUCHED_SECTORS; block <= last; block++)
        view->touched[block] = 1;
}

void view_apply(struct view *view, const struct extent *extent)
{
    uint64_t entry = extent->entry;
    for (uint64_t i = 0; i < extent->sectors; i++, entry += extent->step)
        if (view->entries[extent->sector + i] < entry)
            set_entry(view, extent->sector + i, entry);
    touch(view, extent->sector, extent->sectors);
}

void view_set(struct view *view, uint64_t sector, uint64_t entry)
{
    set_entry(view, sector, entry);
    touch(view, sector, 1);
}

void view_revert(struct view *view, const struct view *from, const struct extent *extent)
{
    for (uint64_t i = extent->sector; i < extent->sector + extent->sectors; i++)
        set_entry(view, i, from->entries[i]);
    touch(view, extent->sector, extent->sectors);
}

static int read_all(int fd, char *bytes, uint64_t count, uint64_t offset)
{
    while (count) {
        ssize_t done = pread(fd, bytes, count, (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0) /* the end of the file: somebody truncated it */
            return done < 0 ? errno : EIO;
        bytes += done;
        offset += (uint64_t)done;
        count -= (uint64_t)done;
    }
    return 0;
}

static int read_units(const struct store *store, char *bytes, uint64_t unit, uint64_t units)
{
    struct segment *segment = atomic_load(&store->newest);
    while (segment && segment->first_unit > unit)
        segment = segment->older;
    if (!segment)
        return EIO;
    return read_all(segment->fd, bytes, units * SECTOR, (unit - segment->first_unit) * SECTOR);
}

static int read_run(const struct store *store, const struct run *run, char *bytes)
{
    if (!run->entry)
        return read_all(store->base_fd, bytes, run->sectors * SECTOR, run->sector * SECTOR);
    if (!(run->entry & 1)) {
        memset(bytes, 0, run->sectors * SECTOR);
        return 0;
    }
    return read_units(store, bytes, run->entry >> 1, run->sectors);
}

/* The longest run that starts at `sector` and ends before `end`. */
static struct run run_at(const struct view *view, uint64_t sector, uint64_t end)
{
    struct run run = {.sector = sector, .sectors = 1, .entry = entry_at(view, sector)};
    run.step = run.entry & 1 ? 2 : 0;
    uint64_t expected = run.entry;
    while (sector + run.sectors < end) {
        expected += run.step;
        uint64_t next = entry_at(view, sector + run.sectors);
        /* zeroes of different writes are one run; the base is not zeroes */
        bool joins = run.step || !run.entry ? next == expected : next && !(next & 1);
        if (!joins)
            break;
        run.sectors++;
    }
    return run;
}

int store_read(const struct store *store, const struct view *view, void *bytes, uint64_t count,
               uint64_t offset)
{
    uint64_t sector = offset / SECTOR;
    uint64_t end = (offset + count) / SECTOR;
    char *at = bytes;
    while (sector < end) {
        struct run run = run_at(view, sector, end);
        int error = read_run(store, &run, at);
        if (error)
            return error;
        sector += run.sectors;
        at += run.sectors * SECTOR;
    }
    return 0;
}

int store_add_segment(struct store *store, uint64_t first_unit, int fd)
{
    struct segment *segment = malloc(sizeof *segment);
    if (!segment)
        return ENOMEM;
    *segment = (struct segment){
        .older = atomic_load(&store->newest), .first_unit = first_unit, .fd = fd};
    atomic_store(&store->newest, segment);
    return 0;
}

void store_close(struct store *store)
{
    struct segment *segment = atomic_load(&store->newest);
    while (segment) {
        struct segment *older = segment->older;
        close(segment->fd);
        free(segment);
        segment = older;
    }
    atomic_store(&store->newest, NULL);
    if (store->base_fd >= 0)
        close(store->base_fd);
    store->base_fd = -1;
}

static int add_run(struct runs *runs, const struct run *run)
{
    if (runs->count == runs->space) {
        size_t space = runs->space ? 2 * runs->space : 256;
        struct run *items = realloc(runs->items, space * sizeof *items);
        if (!items)
            return ENOMEM;
        runs->items = items;
        runs->space = space;
    }
    runs->items[runs->count++] = *run;
    return 0;
}

int view_runs(const struct view *view, struct runs *runs)
{
    *runs = (struct runs){0};
    for (uint64_t block = 0; block < blocks(view->sectors); block++) {
        if (!view->touched[block])
            continue;
        uint64_t end = (block + 1) * TOUCHED_SECTORS;
        if (end > view->sectors)
            end = view->sectors;
        for (uint64_t sector = block * TOUCHED_SECTORS; sector < end;) {
            struct run run = run_at(view, sector, end);
            if (run.entry && add_run(runs, &run)) {
                free(runs->items);
                *runs = (struct runs){0};
                return ENOMEM;
            }
            sector += run.sectors;
        }
    }
    return 0;
}

enum { COPY_BYTES = 1 << 20 };

static int write_all(int fd, const char *bytes, uint64_t count, uint64_t offset)
{
    while (count) {
        ssize_t done = pwrite(fd, bytes, count, (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? errno : EIO;
        bytes += done;
        offset += (uint64_t)done;
        count -= (uint64_t)done;
    }
    return 0;
}

static int copy_base(const struct store *store, int fd, char *buffer)
{
    off_t end = 0;
    for (;;) {
        off_t start = lseek(store->base_fd, end, SEEK_DATA);
        if (start < 0 && errno == ENXIO)
            return 0;
        if (start < 0 && end == 0) /* no such question on this file system: all is data */
            start = 0;
        else if (start < 0)
            return errno;
        end = lseek(store->base_fd, start, SEEK_HOLE);
        if (end < 0)
            end = (off_t)store->size;
        for (off_t at = start; at < end; at += COPY_BYTES) {
            uint64_t count = end - at < COPY_BYTES ? (uint64_t)(end - at) : COPY_BYTES;
            int error = read_all(store->base_fd, buffer, count, (uint64_t)at);
            if (!error)
                error = write_all(fd, buffer, count, (uint64_t)at);
            if (error)
                return error;
        }
        if ((uint64_t)end >= store->size)
            return 0;
    }
}

static int write_run(const struct store *store, int fd, struct run run, char *buffer)
{
    if (!(run.entry & 1) && fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                      (off_t)(run.sector * SECTOR),
                                      (off_t)(run.sectors * SECTOR)) == 0)
        return 0;
    while (run.sectors) {
        struct run part = run;
        if (part.sectors > COPY_BYTES / SECTOR)
            part.sectors = COPY_BYTES / SECTOR;
        int error = read_run(store, &part, buffer);
        if (!error)
            error = write_all(fd, buffer, part.sectors * SECTOR, part.sector * SECTOR);
        if (error)
            return error;
        run.sector += part.sectors;
        run.sectors -= part.sectors;
        run.entry += part.sectors * run.step;
    }
    return 0;
}

int store_write_image(const struct store *store, const struct runs *runs, const char *path)
{
    char *buffer = malloc(COPY_BYTES);
    if (!buffer)
        return ENOMEM;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) {
        int error = errno;
        free(buffer);
        return error;
    }
    int error = ftruncate(fd, (off_t)store->size) ? errno : copy_base(store, fd, buffer);
    for (size_t i = 0; i < runs->count && !error; i++)
        error = write_run(store, fd, runs->items[i], buffer);
    if (close(fd) && !error)
        error = errno;
    if (error)
        unlink(path);
    free(buffer);
    return error;
}
