/* SPDX-License-Identifier: Apache-2.0
 *
 * Space is reserved ahead with fallocate, for events and payloads apart, so that
 * a full host disk shows itself before a request is taken and not in its midst.
 * Both files are then written with pwrite: what was written is safe in the
 * host's page cache even if this process is killed at once, and a host that
 * breaks its promise of space gives an errno where a memory map would give
 * SIGBUS.
 *
 * Events that must follow one that was written (the completion of a submitted
 * request, its survival of a cut) are `owed`: their room is set aside when the
 * request is admitted.
 */
#define _GNU_SOURCE
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "crc32c.h"

enum {
    UNIT = 512,
    SLACK_EVENTS = 64, /* marks, connections, the cut, END */
    FAILURE_MARK_BYTES = 64,
    SLACK_BYTES = 8 * UNIT,
};

static const uint64_t CHUNK_MIN = 256 << 10;
static const uint64_t CHUNK_MAX = 64 << 20;

uint64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int write_all(int fd, const void *bytes, uint64_t length, uint64_t offset)
{
    const char *at = bytes;
    while (length) {
        ssize_t done = pwrite(fd, at, length, (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? errno : EIO;
        at += done;
        offset += (uint64_t)done;
        length -= (uint64_t)done;
    }
    return 0;
}

/* Reserves up to `wanted` bytes in all: a generous step ahead, or just enough if the
 * host has no more. */
static int reserve(int fd, uint64_t *space, uint64_t wanted)
{
    if (wanted <= *space)
        return 0;
    uint64_t step = *space < CHUNK_MIN ? CHUNK_MIN : *space > CHUNK_MAX ? CHUNK_MAX : *space;
    for (;;) {
        if (step < wanted - *space)
            step = wanted - *space;
        if (fallocate(fd, 0, (off_t)*space, (off_t)step) == 0) {
            *space += step;
            return 0;
        }
        if (errno == EINTR)
            continue;
        if (errno == EOPNOTSUPP) { /* nothing to reserve with: pwrite will tell */
            *space = wanted;
            return 0;
        }
        if (step == wanted - *space)
            return errno;
        step = step / 2;
    }
}

static int create_one(const char *prefix, const char *suffix, int *fd)
{
    char *path;
    if (asprintf(&path, "%s%s", prefix, suffix) < 0)
        return ENOMEM;
    *fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    int error = *fd < 0 ? errno : 0;
    free(path);
    return error;
}

static void remove_one(const char *prefix, const char *suffix)
{
    char *path;
    if (asprintf(&path, "%s%s", prefix, suffix) < 0)
        return;
    unlink(path);
    free(path);
}

static int create_scratch(struct log *log, const char *scratch)
{
    log->data_fd = open(scratch, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (log->data_fd < 0)
        log->data_fd = memfd_create("powercut-scratch", MFD_CLOEXEC);
    return log->data_fd < 0 ? errno : 0;
}

static int create_recorded(struct log *log, const char *prefix, struct pclog_header *header)
{
    log->prefix = strdup(prefix);
    if (!log->prefix)
        return ENOMEM;
    int error = create_one(prefix, ".log", &log->event_fd);
    if (error)
        return error;
    error = create_one(prefix, ".data", &log->data_fd);
    if (!error)
        error = reserve(log->event_fd, &log->event_space,
                        PCLOG_HEADER_SIZE + SLACK_EVENTS * sizeof(struct pclog_event));
    if (!error)
        error = reserve(log->data_fd, &log->data_space, SLACK_BYTES);
    if (!error)
        error = write_all(log->event_fd, header, sizeof *header, 0);
    if (!error)
        return 0;
    remove_one(prefix, ".log");
    if (log->data_fd >= 0)
        remove_one(prefix, ".data");
    return error;
}

int log_create(struct log *log, const char *prefix, const char *scratch,
               struct pclog_header *header)
{
    *log = (struct log){.recorded = prefix != NULL, .event_fd = -1, .data_fd = -1};
    struct timespec real;
    clock_gettime(CLOCK_REALTIME, &real);
    memcpy(header->magic, PCLOG_MAGIC, sizeof header->magic);
    header->version = PCLOG_VERSION;
    header->header_size = PCLOG_HEADER_SIZE;
    header->start_monotonic_ns = monotonic_ns();
    header->start_realtime_ns = (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec;
    header->crc = crc32c(0, header, offsetof(struct pclog_header, crc));
    int error = prefix ? create_recorded(log, prefix, header) : create_scratch(log, scratch);
    if (!error)
        return 0;
    if (log->event_fd >= 0)
        close(log->event_fd);
    if (log->data_fd >= 0)
        close(log->data_fd);
    free(log->prefix);
    *log = (struct log){.event_fd = -1, .data_fd = -1};
    return error;
}

static int mark_failure(struct log *log, const char *what, int error)
{
    char mark[FAILURE_MARK_BYTES];
    snprintf(mark, sizeof mark, "%s: %s", what, strerrorname_np(error));
    return log_mark(log, mark);
}

int log_admit(struct log *log, uint64_t events, uint64_t payload)
{
    if (log->failure)
        return log->failure;
    int error = reserve(log->data_fd, &log->data_space, log->data_used + payload + SLACK_BYTES);
    if (!error && log->recorded) {
        uint64_t needed = log->events + log->owed + events + SLACK_EVENTS;
        error = reserve(log->event_fd, &log->event_space,
                        PCLOG_HEADER_SIZE + needed * sizeof(struct pclog_event));
    }
    if (!error)
        return 0;
    mark_failure(log, "refusing requests", error); /* into the slack, else statistics tell */
    log->failure = error;
    return error;
}

int log_payload(struct log *log, const void *bytes, uint64_t length, uint64_t *offset)
{
    *offset = log->data_used;
    int error = write_all(log->data_fd, bytes, length, log->data_used);
    if (error)
        log->failure = error;
    else
        log->data_used += (length + UNIT - 1) / UNIT * UNIT;
    return error;
}

int log_event(struct log *log, struct pclog_event *event)
{
    uint64_t now = monotonic_ns();
    if (now <= log->last_ns)
        now = log->last_ns + 1;
    log->last_ns = now;
    event->sequence = log->events;
    event->time_ns = now;
    if (!log->recorded) {
        log->events++;
        return 0;
    }
    event->crc = crc32c(0, event, offsetof(struct pclog_event, crc));
    int error = write_all(log->event_fd, event, sizeof *event,
                          PCLOG_HEADER_SIZE + log->events * sizeof *event);
    if (error)
        log->failure = error;
    else
        log->events++;
    return error;
}

int log_mark(struct log *log, const char *name)
{
    uint64_t length = strlen(name);
    struct pclog_event event = {
        .type = PCLOG_MARK, .length = length, .data_crc = crc32c(0, name, length)};
    if (log->recorded &&
        (log->data_used + length > log->data_space ||
         PCLOG_HEADER_SIZE + (log->events + log->owed + 1) * sizeof event > log->event_space))
        return ENOSPC;
    int error = log_payload(log, name, length, &event.data);
    return error ? error : log_event(log, &event);
}

void log_read_failure(struct log *log, int error)
{
    if (log->read_failed)
        return;
    if (log_admit(log, 1, FAILURE_MARK_BYTES) == 0) /* otherwise it says already that it fails */
        log->read_failed = mark_failure(log, "failing reads", error) == 0;
}

int log_end(struct log *log, uint64_t requests)
{
    struct pclog_event event = {.type = PCLOG_END, .request = requests};
    return log_event(log, &event);
}

int log_settle(struct log *log)
{
    if (!log->recorded)
        return 0;
    int error = 0;
    uint64_t used = PCLOG_HEADER_SIZE + log->events * sizeof(struct pclog_event);
    if (ftruncate(log->event_fd, (off_t)used) || ftruncate(log->data_fd, (off_t)log->data_used) ||
        fsync(log->data_fd) || fsync(log->event_fd))
        error = errno;
    close(log->event_fd);
    log->event_fd = -1;
    free(log->prefix);
    log->prefix = NULL;
    return error;
}
