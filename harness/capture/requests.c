/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads, writes and flushes: what they do to the cache and the medium, and what of them is
 * logged.  Opening and closing, connections and control are in disk.c, the cut is in cut.c.
 */
#define _GNU_SOURCE
#include "disk_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crc32c.h"
#include "slow.h"

/* How long a request sleeps on a disk that has stopped before it looks again.  Nobody waits
 * for it: a cut does not need the requests that it ends. */
static const uint64_t STOPPED_POLL_NS = 5000000;

static bool volatile_cache(const struct disk *disk)
{
    return disk->config.contract & PCLOG_VOLATILE_CACHE;
}

/* Whether a write is durable when it completes, and so takes the time of one with FUA. */
static bool durable_at_once(const struct disk *disk, const struct pclog_event *event)
{
    return !volatile_cache(disk) || (event->flags & PCLOG_FUA && !(event->flags & PCLOG_IGNORED));
}

/* With the lock held, and released meanwhile: sleeps.  False if it is no use to go on. */
static bool sleep_unlocked(struct disk *disk, uint64_t time_ns)
{
    pthread_mutex_unlock(&disk->lock);
    bool worthwhile = disk->config.sleep_ns(time_ns);
    pthread_mutex_lock(&disk->lock);
    return worthwhile;
}

/* With the lock held: waits until the disk is as free to move as `most` says, then says
 * whether this connection still has power. */
static int wait_until(struct connection *connection, enum motion most)
{
    struct disk *disk = connection->disk;
    bool worthwhile = true;
    while (worthwhile && disk->motion > most && powered(connection))
        worthwhile = sleep_unlocked(disk, STOPPED_POLL_NS);
    return worthwhile && powered(connection) ? 0 : EIO;
}

/* With the lock held, and released meanwhile: until the power goes. */
static int hang(struct connection *connection)
{
    while (powered(connection) && sleep_unlocked(connection->disk, STOPPED_POLL_NS))
        ;
    return EIO;
}

static bool is_dark(const struct connection *connection)
{
    return connection->disk->dark & connection->bit;
}

static int wait_to_submit(struct connection *connection)
{
    int error = wait_until(connection, TAKING);
    return error ? error : is_dark(connection) ? EIO : 0;
}

/* With the lock held: how long what makes durable takes. */
static uint64_t latency_ns(struct disk *disk, uint64_t usual_ns)
{
    uint64_t slow = disk->config.slow ? slow_sync_ns(disk->config.seed, disk->syncs++) : 0;
    return slow > usual_ns ? slow : usual_ns;
}

/* After a latency, which may be none. */
static int wait_to_complete(struct connection *connection, uint64_t latency_ns)
{
    if (latency_ns && !sleep_unlocked(connection->disk, latency_ns))
        return EIO;
    return wait_until(connection, RUNNING);
}

static void count_completion(struct disk *disk)
{
    if (disk->stop.left)
        disk->stop.left--;
    stop_if_due(disk);
}

static int refuse(struct disk *disk, int error)
{
    disk->counts.refused++;
    return error;
}

static int log_completion(struct disk *disk, struct pclog_event *submitted)
{
    submitted->type = PCLOG_COMPLETE;
    submitted->data = 0;
    submitted->data_crc = 0;
    disk->log.owed--;
    return log_event(&disk->log, submitted);
}

/* With the lock held.  A disk that has no room for the mark refuses the next request. */
static void mark_injected(struct disk *disk, const char *what, const struct injection *one)
{
    char mark[128];
    snprintf(mark, sizeof mark, "injected: %s: %s", what,
             one->error ? strerrorname_np(one->error) : "hang");
    if (!log_admit(&disk->log, 1, sizeof mark))
        log_mark(&disk->log, mark);
}

/* What a read is told that meets an injected error, 0 if it meets none; a mark names it. */
static int read_injected(struct connection *connection, uint64_t offset, uint64_t count)
{
    struct disk *disk = connection->disk;
    if (!disk->reads_injected)
        return 0;
    struct injected_request request = {
        .read = true, .sector = offset / SECTOR, .sectors = count / SECTOR};
    pthread_mutex_lock(&disk->lock);
    const struct injection *one = injection_of(&disk->injections, &request, monotonic_ns());
    int error = one ? one->error : 0;
    if (one) {
        char what[64];
        snprintf(what, sizeof what, "read of %" PRIu64 "+%" PRIu64, offset, count);
        if (powered(connection))
            mark_injected(disk, what, one);
        if (!error)
            error = hang(connection);
    }
    pthread_mutex_unlock(&disk->lock);
    return error;
}

int disk_read(struct connection *connection, void *bytes, uint64_t count, uint64_t offset)
{
    struct disk *disk = connection->disk;
    const struct disk_part *part = &connection->part;
    if (offset % SECTOR || count % SECTOR || offset > part->length || count > part->length - offset)
        return EINVAL;
    if (disk->motion == STOPPED) {
        pthread_mutex_lock(&disk->lock);
        wait_to_submit(connection);
        pthread_mutex_unlock(&disk->lock);
    }
    int injected_error = read_injected(connection, part->offset + offset, count);
    if (injected_error)
        return injected_error;
    int error = store_read(&disk->store, &disk->current, bytes, count, part->offset + offset);
    if (error) {
        pthread_mutex_lock(&disk->lock);
        if (powered(connection))
            log_read_failure(&disk->log, error);
        pthread_mutex_unlock(&disk->lock);
    }
    /* A cut in the meantime may have mixed two views. */
    return powered(connection) && !is_dark(connection) ? error : EIO;
}

static void count_write(struct disk *disk, const struct pclog_event *event)
{
    struct disk_statistics *counts = &disk->counts;
    counts->requests++;
    counts->in_flight++;
    counts->writes += event->op == PCLOG_WRITE;
    counts->write_bytes += event->op == PCLOG_WRITE ? event->length : 0;
    counts->zeroes += event->op == PCLOG_ZERO;
    counts->discards += event->op == PCLOG_DISCARD;
    counts->fua_writes += event->flags & PCLOG_FUA ? 1 : 0;
}

/* Which error this write or flush is to meet, at its submission; NULL for none.  A mark says so. */
static const struct injection *injected(struct disk *disk, const struct pclog_event *event)
{
    bool write = event->op == PCLOG_WRITE || event->op == PCLOG_ZERO;
    struct injected_request request = {
        .write = write,
        .fua = write && event->flags & PCLOG_FUA,
        .discard = event->op == PCLOG_DISCARD,
        .flush = event->op == PCLOG_FLUSH,
        .sector = event->offset / SECTOR,
        .sectors = event->length / SECTOR,
    };
    const struct injection *one = injection_of(&disk->injections, &request, event->time_ns);
    if (one) {
        char what[64];
        snprintf(what, sizeof what, "%s, request %" PRIu64,
                 request.flush     ? "flush"
                 : request.discard ? "discard"
                 : request.fua     ? "write with FUA"
                                   : "write",
                 event->request);
        mark_injected(disk, what, one);
    }
    return one;
}

/* With the lock held: logs the submission and shows the write to the client, unless it is lost. */
static int submit_write(struct disk *disk, struct in_flight *request, struct pclog_event *event,
                        const void *bytes, const struct injection **injection)
{
    /* owed from here on: the completion, and survival of a cut (or DESTAGE) */
    uint64_t payload = event->op == PCLOG_WRITE ? event->length : 0;
    int error = cache_make_room(disk);
    if (!error)
        error = log_admit(&disk->log, 3, payload);
    uint64_t unit = disk->first_unit + disk->log.data_used / SECTOR;
    if (!error && payload)
        error = log_payload(&disk->log, bytes, payload, &event->data);
    event->request = disk->counts.requests;
    if (!error)
        error = log_event(&disk->log, event);
    if (error)
        return refuse(disk, error);
    disk->log.owed += 2;
    count_write(disk, event);
    request->extent = (struct extent){
        .request = event->request,
        .sector = event->offset / SECTOR,
        .sectors = event->length / SECTOR,
        .entry = 2 * unit + (payload ? 1 : 0),
        .step = payload ? 2 : 0,
    };
    request->next = &disk->in_flight;
    request->previous = disk->in_flight.previous;
    request->previous->next = request->next->previous = request;
    *injection = injected(disk, event);
    if (!*injection || (*injection)->kept)
        view_apply(&disk->current, &request->extent);
    stop_if_due(disk);
    return 0;
}

static void unlink_request(struct disk *disk, struct in_flight *request)
{
    request->previous->next = request->next;
    request->next->previous = request->previous;
    disk->counts.in_flight--;
}

/* With the lock held: the write fails; its bytes are on the medium or nowhere.  Returns what the
 * client is told. */
static int fail_write(struct disk *disk, struct in_flight *request, struct pclog_event *event,
                      const struct injection *injection)
{
    struct pclog_event destage = {.type = PCLOG_DESTAGE,
                                  .request = event->request,
                                  .offset = event->offset,
                                  .length = event->length};
    event->flags |= PCLOG_FAILED | PCLOG_INJECTED;
    event->length = (uint64_t)injection->error;
    int error = log_completion(disk, event);
    if (!error && injection->kept)
        error = log_event(&disk->log, &destage);
    if (error)
        return error;
    if (injection->kept)
        view_apply(&disk->medium, &request->extent);
    disk->log.owed--;
    unlink_request(disk, request);
    free(request);
    count_completion(disk);
    return injection->error;
}

/* With the lock held: the write is done, and durable or in the cache. */
static int complete_write(struct disk *disk, struct in_flight *request, struct pclog_event *event)
{
    int error = log_completion(disk, event);
    if (error)
        return error; /* and so it stays in flight: nobody may believe it done */
    unlink_request(disk, request);
    if (durable_at_once(disk, event)) {
        view_apply(&disk->medium, &request->extent);
        disk->log.owed--;
    } else {
        error = cache_push(disk, &request->extent);
    }
    free(request);
    count_completion(disk);
    return error;
}

int disk_write(struct connection *connection, enum pclog_op op, const void *bytes, uint64_t count,
               uint64_t offset, bool fua)
{
    struct disk *disk = connection->disk;
    if (!count || offset % SECTOR || count % SECTOR)
        return EINVAL;
    const struct disk_part *part = &connection->part;
    if (offset > part->length || count > part->length - offset)
        return ENOSPC;
    struct in_flight *request = malloc(sizeof *request);
    if (!request)
        return ENOMEM;
    struct pclog_event event = {
        .type = PCLOG_SUBMIT,
        .op = (uint8_t)op,
        .flags = (uint16_t)((fua ? PCLOG_FUA : 0) |
                            (fua && !part->fua_honoured ? PCLOG_IGNORED : 0)),
        .connection = connection->number,
        .offset = part->offset + offset,
        .length = count,
        .data_crc = op == PCLOG_WRITE ? crc32c(0, bytes, count) : 0,
    };
    const struct injection *injection = NULL;
    pthread_mutex_lock(&disk->lock);
    int error = wait_to_submit(connection);
    if (!error)
        error = submit_write(disk, request, &event, bytes, &injection);
    if (error) {
        pthread_mutex_unlock(&disk->lock);
        free(request);
        return error;
    }
    /* From here on `request` belongs to the disk: a cut may end it meanwhile. */
    error = injection && !injection->error
                ? hang(connection)
                : wait_to_complete(connection, durable_at_once(disk, &event)
                                                   ? latency_ns(disk, disk->config.fua_latency_ns)
                                                   : 0);
    if (!error)
        error = injection ? fail_write(disk, request, &event, injection)
                          : complete_write(disk, request, &event);
    pthread_mutex_unlock(&disk->lock);
    return error;
}

/* With the lock held: logs the submission of a flush. */
static int submit_flush(struct disk *disk, struct pclog_event *event,
                        const struct injection **injection)
{
    int error = log_admit(&disk->log, 2, 0);
    event->request = disk->counts.requests;
    if (!error)
        error = log_event(&disk->log, event);
    if (error)
        return refuse(disk, error);
    disk->log.owed++;
    disk->counts.requests++;
    disk->counts.flushes++;
    disk->counts.flushes_in_flight++;
    *injection = injected(disk, event);
    stop_if_due(disk);
    return 0;
}

/* With the lock held: the flush is done, and covers the cache up to `horizon`; or it fails, and
 * what is volatile stays so. */
static int complete_flush(struct connection *connection, struct pclog_event *event,
                          uint64_t horizon, const struct injection *injection)
{
    struct disk *disk = connection->disk;
    if (injection) {
        event->flags |= PCLOG_FAILED | PCLOG_INJECTED;
        event->length = (uint64_t)injection->error;
    }
    int error = log_completion(disk, event);
    if (error)
        return error;
    disk->counts.flushes_in_flight--;
    if (!injection && connection->part.flush_honoured)
        cache_flush(disk, &connection->part, horizon);
    count_completion(disk);
    return injection ? injection->error : 0;
}

int disk_flush(struct connection *connection)
{
    struct disk *disk = connection->disk;
    const struct disk_part *part = &connection->part;
    struct pclog_event event = {
        .type = PCLOG_SUBMIT,
        .op = PCLOG_FLUSH,
        .flags = part->flush_honoured ? 0 : PCLOG_IGNORED,
        .connection = connection->number,
        .offset = disk->config.parts_count ? part->offset : 0,
        .length = disk->config.parts_count ? part->length : 0,
    };
    const struct injection *injection = NULL;
    pthread_mutex_lock(&disk->lock);
    int error = wait_to_submit(connection);
    if (!error)
        error = submit_flush(disk, &event, &injection);
    if (!error) {
        uint64_t horizon = disk->cache.last; /* what has completed by now, and nothing later */
        uint64_t takes_ns = part->flush_honoured && disk->motion == RUNNING
                                ? latency_ns(disk, disk->config.flush_latency_ns)
                                : 0;
        error = injection && !injection->error
                    ? hang(connection)
                    : wait_to_complete(connection, takes_ns);
        if (!error)
            error = complete_flush(connection, &event, horizon, injection);
    }
    pthread_mutex_unlock(&disk->lock);
    return error;
}
