/* SPDX-License-Identifier: Apache-2.0 */
#include "reader.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/wire_out.h"

#define BATCH_BYTES ((size_t)1 << 20)

struct scan {
    const struct wal_config *config;
    const struct wal_sink *sink;
    struct wal_failure *failure;
    struct wal_layout layout;
    struct wal_classifier classifier;
    bool learned;           /* the log was searched for other runs */
    uint8_t *batch;
    struct pc_extent open;  /* the extent that may still grow; count 0: none */
    int directory;          /* of segments; else -1 */
    uint64_t *segments;     /* indices of the files that exist, ascending */
    size_t segment_count;
};

static int sink_extent(struct scan *s)
{
    int error = s->open.count ? s->sink->extent(s->sink->target, &s->open) : 0;

    s->open.count = 0;
    return error ? wal_fail(s->failure, -error, "write to the channel") : 0;
}

static int sink_fact(struct scan *s, const char *fact)
{
    int error = s->sink->fact(s->sink->target, fact);

    return error ? wal_fail(s->failure, -error, "write to the channel") : 0;
}

/* Joins extents of one kind; LSNs, where there are any, must go on rising by one. */
static int add_extent(struct scan *s, struct pc_extent extent)
{
    struct pc_extent *open = &s->open;
    bool lsn_goes_on = open->lsn ? extent.lsn == open->lsn + open->count : extent.lsn == 0;

    if (open->count && open->state == extent.state && open->detail == extent.detail &&
        open->slot + open->count == extent.slot && lsn_goes_on) {
        open->count += extent.count;
        return 0;
    }
    if (sink_extent(s))
        return -1;
    *open = extent;
    return 0;
}

static int add_absent(struct scan *s, uint64_t slot, uint64_t count)
{
    return count ? add_extent(s, (struct pc_extent){slot, count, 0, PC_SLOT_ABSENT, 0}) : 0;
}

/* Reads up to `length` bytes, zeroes past the end; 0 or an errno. */
static int read_at(int fd, uint64_t offset, uint8_t *data, size_t length)
{
    size_t done = 0;

    while (done < length) {
        ssize_t n = pread(fd, data + done, length - done, (off_t)(offset + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    memset(data + done, 0, length - done);
    return 0;
}

/* A folder opens like a file and claims to be of any length, ext4's of 2^63 - 1. */
static int open_file(struct scan *s, uint64_t index)
{
    const char *path = s->config->path;
    int folder = AT_FDCWD;
    struct stat status;
    char name[32];

    if (s->directory >= 0) {
        snprintf(name, sizeof(name), "%016" PRIx64 ".wal", index);
        path = name;
        folder = s->directory;
    }
    int fd = openat(folder, path, O_RDONLY | O_CLOEXEC);

    if (fd >= 0 && fstat(fd, &status) == 0 && S_ISDIR(status.st_mode)) {
        close(fd);
        errno = EISDIR;
        return -1;
    }
    return fd;
}

/* Older runs may have left payload without its header: their keys have to be known before
 * anything is called corrupt.  What cannot be read here is reported by the scan itself. */
static int learn(struct scan *s)
{
    uint8_t *data = malloc(BATCH_BYTES);

    if (!data)
        return wal_fail(s->failure, ENOMEM, "malloc");
    s->learned = true;
    for (size_t i = 0; i < (s->directory < 0 ? 1 : s->segment_count); i++) {
        int fd = open_file(s, s->directory < 0 ? 0 : s->segments[i]);
        off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);

        for (uint64_t at = s->layout.offset; size > 0 && at < (uint64_t)size; at += BATCH_BYTES) {
            if (!read_at(fd, at, data, BATCH_BYTES))
                wal_classifier_learn(&s->classifier, data, BATCH_BYTES);
        }
        if (fd >= 0)
            close(fd);
    }
    free(data);
    return 0;
}

static int scan_slot(struct scan *s, uint64_t slot, const uint8_t *data)
{
    struct pc_extent extent = wal_classify(&s->classifier, slot, data);

    if (extent.state == PC_SLOT_CORRUPT && !s->learned) {
        if (learn(s))
            return -1;
        extent = wal_classify(&s->classifier, slot, data);
    }
    return add_extent(s, extent);
}

/* The slots from `first` on, `count` of them, all in the file `fd` of `size` bytes. */
static int scan_file(struct scan *s, int fd, uint64_t size, uint64_t first, uint64_t count)
{
    uint32_t stride = s->layout.stride;
    uint64_t start = wal_spot(&s->layout, first).offset;
    uint64_t there = size > start ? (size - start + stride - 1) / stride : 0;
    uint64_t present = there < count ? there : count;
    uint64_t per_batch = BATCH_BYTES / stride ? BATCH_BYTES / stride : 1;

    for (uint64_t done = 0; done < present; done += per_batch) {
        uint64_t slots = present - done < per_batch ? present - done : per_batch;
        uint64_t offset = start + done * stride;
        int error = read_at(fd, offset, s->batch, slots * stride);

        for (uint64_t i = 0; i < slots; i++) {
            uint8_t *data = s->batch + i * stride;
            uint64_t slot = first + done + i;
            /* After an error each slot is read alone: only those that fail are unreadable. */
            int slot_error = error ? read_at(fd, offset + i * stride, data, s->layout.record) : 0;
            struct pc_extent unreadable = {slot, 1, 0, PC_SLOT_UNREADABLE, (uint32_t)slot_error};

            if (slot_error ? add_extent(s, unreadable) : scan_slot(s, slot, data))
                return -1;
        }
    }
    return add_absent(s, first + present, count - present);
}

static int scan_single(struct scan *s, struct pc_problems *problems)
{
    int fd = open_file(s, 0);

    if (fd < 0 && errno == ENOENT)
        return sink_fact(s, "file=missing");
    off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);

    if (size < 0) {
        int error = errno;

        if (fd >= 0)
            close(fd);
        return wal_fail(s->failure, error, "open %s", s->config->path);
    }
    char fact[64];

    snprintf(fact, sizeof(fact), "file_bytes=%lld", (long long)size);
    s->layout = wal_config_layout(s->config, (uint64_t)size);
    s->classifier.layout = s->layout;
    uint64_t count = s->layout.slots;

    if (s->layout.kind == WAL_APPEND)
        count = ((uint64_t)size + s->layout.stride - 1) / s->layout.stride;
    else if (count == 0)
        pc_problem(problems, "%s holds no record: it ends before offset= plus one record",
                   s->config->path);
    int failed = problems->count ? -1 : sink_fact(s, fact);

    if (!failed)
        failed = scan_file(s, fd, (uint64_t)size, 0, count);
    close(fd);
    return failed;
}

static int compare_index(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* "%016x.wal" and nothing else, of a position that can be. */
static bool segment_index(const struct scan *s, const char *name, uint64_t *index)
{
    char again[32];

    if (sscanf(name, "%16" SCNx64, index) != 1)
        return false;
    snprintf(again, sizeof(again), "%016" PRIx64 ".wal", *index);
    return strcmp(again, name) == 0 && *index < WAL_LSN_MAX / s->layout.per_file;
}

static int list_segments(struct scan *s)
{
    int fd = dup(s->directory);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    size_t room = 0;
    struct dirent *entry;

    if (!directory)
        return wal_fail(s->failure, errno, "opendir %s", s->config->path);
    errno = 0;
    while ((entry = readdir(directory))) {
        uint64_t index;

        if (!segment_index(s, entry->d_name, &index))
            continue;
        if (s->segment_count == room) {
            room = room ? 2 * room : 64;
            uint64_t *larger = realloc(s->segments, room * sizeof(*larger));

            if (!larger) {
                closedir(directory);
                return wal_fail(s->failure, ENOMEM, "malloc");
            }
            s->segments = larger;
        }
        s->segments[s->segment_count++] = index;
        errno = 0;
    }
    int error = errno;

    closedir(directory);
    if (error)
        return wal_fail(s->failure, error, "readdir %s", s->config->path);
    if (s->segment_count)
        qsort(s->segments, s->segment_count, sizeof(*s->segments), compare_index);
    return 0;
}

/* A segment that cannot be opened or measured: its slots are unreadable, the others not. */
static int scan_segment(struct scan *s, uint64_t index)
{
    uint64_t first = index * s->layout.per_file;
    int fd = open_file(s, index);
    off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
    int failed;

    if (size < 0)
        failed = add_extent(s, (struct pc_extent){first, s->layout.per_file, 0,
                                                  PC_SLOT_UNREADABLE, (uint32_t)errno});
    else
        failed = scan_file(s, fd, (uint64_t)size, first, s->layout.per_file);
    if (fd >= 0)
        close(fd);
    return failed;
}

static int scan_segments(struct scan *s)
{
    uint64_t next = 0;

    s->layout = wal_config_layout(s->config, 0);
    s->classifier.layout = s->layout;
    s->directory = open(s->config->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->directory < 0 && errno == ENOENT)
        return sink_fact(s, "file=missing");
    if (s->directory < 0)
        return wal_fail(s->failure, errno, "open %s", s->config->path);
    if (list_segments(s))
        return -1;
    for (size_t i = 0; i < s->segment_count; i++) {
        uint64_t index = s->segments[i], per_file = s->layout.per_file;

        if (s->layout.slots && index * per_file >= s->layout.slots)
            break; /* beyond the capacity: not of this log */
        if (add_absent(s, next * per_file, (index - next) * per_file) || scan_segment(s, index))
            return -1;
        next = index + 1;
    }
    return 0;
}

int wal_scan(const struct wal_config *config, const struct wal_sink *sink,
             struct pc_problems *problems, struct wal_failure *failure)
{
    struct scan s = {.config = config, .sink = sink, .failure = failure, .directory = -1};
    struct wal_layout layout = wal_config_layout(config, 0);
    size_t batch = layout.stride > BATCH_BYTES ? layout.stride : BATCH_BYTES;
    int failed;

    s.batch = malloc(batch);
    if (!wal_classifier_open(&s.classifier, &layout, config->run_id) || !s.batch)
        failed = wal_fail(failure, ENOMEM, "malloc");
    else if (config->layout == WAL_SEGMENTS)
        failed = scan_segments(&s);
    else
        failed = scan_single(&s, problems);
    if (!failed)
        failed = sink_extent(&s);
    if (s.directory >= 0)
        close(s.directory);
    wal_classifier_close(&s.classifier);
    free(s.segments);
    free(s.batch);
    return failed;
}

/* Extents gather here until they fill a message of less than 32 KiB, which is what a
 * virtio-serial port takes in one write(). */
struct sender {
    struct pc_outbox outbox;
    struct pc_extent extents[1000];
    uint32_t count;
};

static int send_extents(struct sender *sender)
{
    uint32_t bytes = sender->count * (uint32_t)sizeof(sender->extents[0]);
    int error = 0;

    if (sender->count)
        error = pc_outbox_add(&sender->outbox,
                              (struct pc_message){.type = PC_EXTENT, .value = sender->count},
                              sender->extents, bytes);
    sender->count = 0;
    return error ? error : pc_outbox_flush(&sender->outbox);
}

static int take_extent(void *target, const struct pc_extent *extent)
{
    struct sender *sender = target;

    sender->extents[sender->count++] = *extent;
    if (sender->count < sizeof(sender->extents) / sizeof(sender->extents[0]))
        return 0;
    return send_extents(sender);
}

static int take_fact(void *target, const char *fact)
{
    struct sender *sender = target;

    return pc_outbox_fact(&sender->outbox, "%s", fact);
}

int wal_read_run(const struct wal_config *config, int channel)
{
    static struct sender sender; /* large, and one per process */
    struct wal_sink sink = {take_extent, take_fact, &sender};
    struct pc_problems problems = {0};
    struct wal_failure failure = {0};

    pc_outbox_init(&sender.outbox, channel);
    int failed = wal_scan(config, &sink, &problems, &failure);
    int error = failed ? 0 : send_extents(&sender);

    if (error)
        failed = wal_fail(&failure, -error, "write to the channel");
    if (problems.count) {
        pc_outbox_error(&sender.outbox, EINVAL, problems.text);
        fprintf(stderr, "wal: %s\n", problems.text);
        return 2;
    }
    if (failed) {
        pc_outbox_error(&sender.outbox, failure.error, failure.call);
        fprintf(stderr, "wal: %s: %s\n", failure.call, strerror(failure.error));
        return 1;
    }
    return 0;
}
