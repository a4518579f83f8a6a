/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREWRITE_BYTES ((size_t)1 << 20)
#define SCRATCH_BYTES (WAL_RECORD_MAX + 2 * (size_t)WAL_BLOCK_MAX)

static int open_flags(const struct wal_config *config)
{
    int flags = O_RDWR | O_CLOEXEC;

    if (config->direct)
        flags |= O_DIRECT;
    if (config->sync == WAL_SYNC_O_DSYNC)
        flags |= O_DSYNC;
    if (config->sync == WAL_SYNC_O_SYNC)
        flags |= O_SYNC;
    return flags;
}

/* The smallest write that O_DIRECT takes.  Larger is always right, so 4096 where the
 * kernel (before 6.1, or the file system) does not say. */
static uint32_t direct_block(int fd)
{
    struct stat st;
    int sector;

    if (fstat(fd, &st) == 0 && S_ISBLK(st.st_mode) && ioctl(fd, BLKSSZGET, &sector) == 0)
        return (uint32_t)sector;
#ifdef STATX_DIOALIGN
    struct statx stx;

    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) == 0 &&
        (stx.stx_mask & STATX_DIOALIGN) && stx.stx_dio_offset_align)
        return stx.stx_dio_offset_align;
#endif
    return 4096;
}

static int open_parent(const char *path, struct wal_failure *failure)
{
    char copy[PATH_MAX];

    if (strlen(path) >= sizeof(copy))
        return wal_fail(failure, ENAMETOOLONG, "open the directory of %s", path);
    strcpy(copy, path);
    const char *parent = dirname(copy);
    int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 ? wal_fail(failure, errno, "open %s", parent) : fd;
}

static int sync_directory(int fd, const char *path, struct wal_failure *failure)
{
    return fsync(fd) ? wal_fail(failure, errno, "fsync the directory of %s", path) : 0;
}

/* Fills the file with records of generation 0, through the page cache whatever the run
 * does later: this is not under test. */
static int prewrite(struct wal_log *log, int fd, struct wal_failure *failure)
{
    const struct wal_layout *layout = &log->layout;
    struct wal_run run = wal_prewrite_run(log->config->run_id);
    uint64_t per_write = PREWRITE_BYTES / layout->stride;
    uint8_t *data = calloc(per_write + !per_write, layout->stride);
    int failed = 0;

    if (!data)
        return wal_fail(failure, ENOMEM, "malloc");
    per_write += !per_write;
    for (uint64_t slot = 0; slot < layout->slots && !failed; slot += per_write) {
        uint64_t count = layout->slots - slot < per_write ? layout->slots - slot : per_write;

        for (uint64_t i = 0; i < count; i++)
            wal_record_prewritten(data + i * layout->stride, layout, &run, slot + i);
        struct wal_write write = {fd, data, count * layout->stride,
                                  wal_spot(layout, slot).offset};

        failed = wal_write_rest(&write, 0, 0, failure);
    }
    free(data);
    return failed;
}

/* A new file of a layout of fixed size, durable before the run begins. */
static int make_whole(struct wal_log *log, struct wal_failure *failure)
{
    const struct wal_config *config = log->config;
    int fd = open(config->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    if (fd < 0)
        return wal_fail(failure, errno, "open %s", config->path);
    int failed = 0;

    if (wal_prewritten(&log->layout)) {
        failed = prewrite(log, fd, failure);
        if (failed)
            wal_fail_on(failure, config->path);
        /* what is left after the last slot, so that the file is as large as asked for */
        if (!failed && ftruncate(fd, (off_t)config->capacity))
            failed = wal_fail(failure, errno, "ftruncate %s", config->path);
    } else if (fallocate(fd, 0, 0, (off_t)config->capacity)) {
        failed = wal_fail(failure, errno, "fallocate %s", config->path);
    }
    if (!failed && fsync(fd))
        failed = wal_fail(failure, errno, "fsync %s", config->path);
    close(fd);
    return failed ? failed : sync_directory(log->directory, config->path, failure);
}

static int open_segments_directory(struct wal_log *log, struct wal_failure *failure)
{
    const char *path = log->config->path;

    if (mkdir(path, 0755) == 0) {
        int parent = open_parent(path, failure);

        if (parent < 0)
            return -1;
        int failed = sync_directory(parent, path, failure);

        close(parent);
        if (failed)
            return failed;
    } else if (errno != EEXIST) {
        return wal_fail(failure, errno, "mkdir %s", path);
    }
    log->directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return log->directory < 0 ? wal_fail(failure, errno, "open %s", path) : 0;
}

static int open_segment(struct wal_log *log, uint64_t index, struct wal_failure *failure)
{
    const struct wal_config *config = log->config;
    uint64_t resumed = wal_spot(&log->layout, wal_slot(&log->layout, config->first_lsn)).file;
    char name[32];

    /* A run that goes on keeps what its first segment holds already. */
    int truncate = config->first_lsn == 1 || index > resumed ? O_TRUNC : 0;

    snprintf(name, sizeof(name), "%016" PRIx64 ".wal", index);
    int fd = openat(log->directory, name, open_flags(config) | O_CREAT | truncate, 0644);

    return fd < 0 ? wal_fail(failure, errno, "open %s/%s", config->path, name) : fd;
}

static int open_single(struct wal_log *log, struct wal_failure *failure)
{
    const struct wal_config *config = log->config;
    bool create = config->layout == WAL_APPEND && config->first_lsn == 1;
    int flags = open_flags(config) | (create ? O_CREAT | O_TRUNC : 0);
    int fd = open(config->path, flags, 0644);

    return fd < 0 ? wal_fail(failure, errno, "open %s", config->path) : fd;
}

struct wal_file *wal_log_file(struct wal_log *log, uint64_t index, struct wal_failure *failure)
{
    for (int i = 0; i < WAL_FILES; i++) {
        if (log->files[i].fd >= 0 && log->files[i].index == index)
            return &log->files[i];
    }
    struct wal_file *file = &log->files[log->next_file];
    bool segments = log->config->layout == WAL_SEGMENTS;

    if (file->fd >= 0)
        close(file->fd); /* settled: a commit never touches more than WAL_FILES */
    file->fd = segments ? open_segment(log, index, failure) : open_single(log, failure);
    if (file->fd < 0)
        return NULL;
    file->index = index;
    /* A segment that existed may have lost its name with the power: settle it, too. */
    file->fresh = segments || log->config->layout == WAL_APPEND;
    log->next_file = (log->next_file + 1) % WAL_FILES;
    return file;
}

int wal_log_settle(struct wal_log *log, struct wal_failure *failure)
{
    bool fresh = false;

    for (int i = 0; i < WAL_FILES; i++) {
        struct wal_file *file = &log->files[i];

        if (file->fd < 0 || !file->fresh)
            continue;
        if (fsync(file->fd))
            return wal_fail(failure, errno, "fsync %s", log->config->path);
        fresh = true;
    }
    if (!fresh)
        return 0;
    if (sync_directory(log->directory, log->config->path, failure))
        return -1;
    for (int i = 0; i < WAL_FILES; i++)
        log->files[i].fresh = false;
    return 0;
}

static uint64_t device_bytes(const struct wal_config *config)
{
    int fd = open(config->path, O_RDONLY | O_CLOEXEC);
    off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);

    if (fd >= 0)
        close(fd);
    return size > 0 ? (uint64_t)size : 0;
}

static int open_first(struct wal_log *log, struct pc_problems *problems,
                      struct wal_failure *failure)
{
    const struct wal_config *config = log->config;
    uint64_t first = wal_slot(&log->layout, config->first_lsn);
    bool whole = log->layout.slots && config->layout != WAL_RAW && config->layout != WAL_SEGMENTS;

    if (whole && config->first_lsn == 1 && !config->direct) {
        wal_config_check_layout(config, &log->layout, 1, problems);
        if (problems->count || make_whole(log, failure))
            return -1;
    }
    if (whole && config->first_lsn == 1 && config->direct) {
        /* The block size is that of the file system: ask a file of it that is empty. */
        int fd = open(config->path, open_flags(config) | O_CREAT, 0644);

        if (fd < 0)
            return wal_fail(failure, errno, "open %s", config->path);
        wal_config_check_layout(config, &log->layout, direct_block(fd), problems);
        close(fd);
        if (problems->count || make_whole(log, failure))
            return -1;
    }
    struct wal_file *file = wal_log_file(log, wal_spot(&log->layout, first).file, failure);

    if (!file)
        return -1;
    log->unit = config->direct ? direct_block(file->fd) : 1;
    if (log->unit > WAL_BLOCK_MAX)
        return wal_fail(failure, EINVAL, "O_DIRECT on %s: block too large", config->path);
    wal_config_check_layout(config, &log->layout, log->unit, problems);
    return problems->count ? -1 : 0;
}

int wal_log_open(struct wal_log *log, const struct wal_config *config,
                 struct pc_problems *problems, struct wal_failure *failure)
{
    *log = (struct wal_log){.config = config, .directory = -1, .unit = 1};
    for (int i = 0; i < WAL_FILES; i++)
        log->files[i].fd = -1;
    if (posix_memalign((void **)&log->scratch, WAL_BLOCK_MAX, SCRATCH_BYTES))
        return wal_fail(failure, ENOMEM, "malloc");
    log->layout = wal_config_layout(config, config->layout == WAL_RAW ? device_bytes(config) : 0);
    if (config->layout == WAL_SEGMENTS) {
        if (open_segments_directory(log, failure))
            return -1;
    } else if (config->layout != WAL_RAW) {
        log->directory = open_parent(config->path, failure);
        if (log->directory < 0)
            return -1;
    }
    return open_first(log, problems, failure);
}

void wal_log_close(struct wal_log *log)
{
    for (int i = 0; i < WAL_FILES; i++) {
        if (log->files[i].fd >= 0)
            close(log->files[i].fd);
    }
    if (log->directory >= 0)
        close(log->directory);
    free(log->scratch);
}

static int read_whole(int fd, uint64_t offset, uint8_t *data, size_t length,
                      struct wal_failure *failure)
{
    size_t done = 0;

    while (done < length) {
        ssize_t n = pread(fd, data + done, length - done, (off_t)(offset + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return wal_fail(failure, errno, "pread");
        if (n == 0)
            break;
        done += (size_t)n;
        if (done % WAL_SECTOR)
            break; /* the end of the file; O_DIRECT would refuse to go on from there */
    }
    memset(data + done, 0, length - done);
    return 0;
}

int wal_log_read(struct wal_log *log, int fd, uint64_t offset, uint8_t *data, size_t length,
                 struct wal_failure *failure)
{
    uint64_t low = offset / log->unit * log->unit;
    uint64_t high = (offset + length + log->unit - 1) / log->unit * log->unit;

    if (read_whole(fd, low, log->scratch, high - low, failure))
        return -1;
    memcpy(data, log->scratch + (offset - low), length);
    return 0;
}

int wal_log_patch(struct wal_log *log, int fd, uint64_t offset, const uint8_t *data,
                  size_t length, struct wal_failure *failure)
{
    uint64_t low = offset / log->unit * log->unit;
    uint64_t high = (offset + length + log->unit - 1) / log->unit * log->unit;

    if (log->unit > 1 && read_whole(fd, low, log->scratch, high - low, failure))
        return -1;
    memcpy(log->scratch + (offset - low), data, length);
    struct wal_write write = {fd, log->scratch, high - low, low};

    return wal_write_rest(&write, 0, 0, failure);
}
