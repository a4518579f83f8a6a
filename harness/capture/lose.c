/* SPDX-License-Identifier: Apache-2.0
 *
 * One of several disks loses its power while the others go on.  What its cache held is there or not,
 * by survive.h; the log needs no word of its own for that: for whatever is lost what was there before
 * is written again, and a flush makes all of it durable.  Each instant in between is one at which the
 * disk might have lost its power, too.
 *
 * From then on it refuses every request, until it has its power back.
 */
#define _GNU_SOURCE
#include "disk_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crc32c.h"
#include "survive.h"

static const uint64_t UNDER_WAY_POLL_NS = 1000000;
static const uint64_t RESTORED_SECTORS = 2048; /* at most, in one write */

struct loss {
    struct disk *disk;
    const struct disk_part *part;
    struct extent *items; /* in the order in which they were submitted */
    uint64_t count;
    struct restored {
        struct restored *next;
        uint64_t sector, sectors;
        char bytes[];
    } *first, **last;
};

/* With the lock held, and released meanwhile: until no write of the part is under way. */
static int wait_settled(struct disk *disk, const struct disk_part *part)
{
    for (;;) {
        struct in_flight *at = disk->in_flight.next;
        while (at != &disk->in_flight && !lies_on(part, &at->extent))
            at = at->next;
        if (at == &disk->in_flight)
            return 0;
        if (disk->motion != RUNNING || disk->closed)
            return EBUSY;
        pthread_mutex_unlock(&disk->lock);
        bool worthwhile = disk->config.sleep_ns(UNDER_WAY_POLL_NS);
        pthread_mutex_lock(&disk->lock);
        if (!worthwhile)
            return EBUSY;
    }
}

static int by_submission(const void *left, const void *right)
{
    uint64_t a = ((const struct extent *)left)->request, b = ((const struct extent *)right)->request;
    return a < b ? -1 : a > b;
}

static int collect(struct loss *loss)
{
    struct cache *cache = &loss->disk->cache;
    loss->items = calloc(cache->last - cache->first + 1, sizeof *loss->items);
    if (!loss->items)
        return ENOMEM;
    for (uint64_t number = cache->first; number < cache->last; number++) {
        const struct extent *extent = cache_item(cache, number);
        if (extent->sectors && lies_on(loss->part, extent))
            loss->items[loss->count++] = *extent;
    }
    qsort(loss->items, loss->count, sizeof *loss->items, by_submission);
    return 0;
}

/* What survives of a write is on the medium: whole sectors of it. */
static void survive(struct loss *loss, struct extent extent, uint64_t seed)
{
    struct byte_range all = {extent.sector * SECTOR, extent.sectors * SECTOR};
    struct byte_range kept =
        survive_random(seed, extent.request, all, loss->disk->config.atomic_unit);
    uint64_t from = (kept.offset + SECTOR - 1) / SECTOR;
    uint64_t to = (kept.offset + kept.length) / SECTOR;
    if (from >= to)
        return;
    extent.entry += (from - extent.sector) * extent.step;
    extent.sector = from;
    extent.sectors = to - from;
    view_apply(&loss->disk->medium, &extent);
}

/* The sectors of `extent` that do not show what the client saw. */
static int keep_old(struct loss *loss, const struct extent *extent)
{
    struct disk *disk = loss->disk;
    uint64_t end = extent->sector + extent->sectors;
    for (uint64_t at = extent->sector, next; at < end; at = next) {
        next = at + 1;
        if (disk->current.entries[at] == disk->medium.entries[at])
            continue;
        while (next < end && next - at < RESTORED_SECTORS &&
               disk->current.entries[next] != disk->medium.entries[next])
            next++;
        struct restored *one = malloc(sizeof *one + (next - at) * SECTOR);
        if (!one)
            return ENOMEM;
        *one = (struct restored){.sector = at, .sectors = next - at};
        *loss->last = one;
        loss->last = &one->next;
        int error = store_read(&disk->store, &disk->medium, one->bytes, one->sectors * SECTOR,
                               at * SECTOR);
        if (error)
            return error;
    }
    return 0;
}

static int complete(struct disk *disk, struct pclog_event *event)
{
    event->type = PCLOG_COMPLETE;
    event->data = 0;
    event->data_crc = 0;
    return log_event(&disk->log, event);
}

static int restore(struct disk *disk, const struct restored *one)
{
    uint64_t bytes = one->sectors * SECTOR;
    uint64_t unit = disk->first_unit + disk->log.data_used / SECTOR;
    struct pclog_event event = {
        .type = PCLOG_SUBMIT,
        .op = PCLOG_WRITE,
        .request = disk->counts.requests,
        .offset = one->sector * SECTOR,
        .length = bytes,
        .data_crc = crc32c(0, one->bytes, bytes),
    };
    int error = log_payload(&disk->log, one->bytes, bytes, &event.data);
    if (!error)
        error = log_event(&disk->log, &event);
    if (!error)
        error = complete(disk, &event);
    if (error)
        return error;
    disk->counts.requests++;
    struct extent extent = {event.request, one->sector, one->sectors, 2 * unit + 1, 2};
    view_apply(&disk->current, &extent);
    view_apply(&disk->medium, &extent);
    return 0;
}

static int flush(struct disk *disk, const struct disk_part *part)
{
    struct pclog_event event = {
        .type = PCLOG_SUBMIT,
        .op = PCLOG_FLUSH,
        .request = disk->counts.requests++,
        .offset = part->offset,
        .length = part->length,
    };
    int error = log_event(&disk->log, &event);
    return error ? error : complete(disk, &event);
}

static int lose(struct loss *loss, uint64_t seed)
{
    struct disk *disk = loss->disk;
    char mark[64];
    snprintf(mark, sizeof mark, "lost its power: %s", loss->part->name);
    uint64_t events = 3, payload = sizeof mark; /* a flush, and the mark */
    int error = collect(loss);
    for (uint64_t i = 0; i < loss->count && !error; i++)
        survive(loss, loss->items[i], seed);
    for (uint64_t i = 0; i < loss->count && !error; i++)
        error = keep_old(loss, &loss->items[i]);
    for (const struct restored *one = loss->first; one; one = one->next) {
        events += 2;
        payload += one->sectors * SECTOR;
    }
    if (!error)
        error = log_admit(&disk->log, events, payload);
    if (!error)
        error = log_mark(&disk->log, mark);
    /* Those that are lost, too: what is written again comes after them. */
    if (!error)
        cache_flush(disk, loss->part, disk->cache.last);
    for (const struct restored *one = loss->first; one && !error; one = one->next)
        error = restore(disk, one);
    return error ? error : flush(disk, loss->part);
}

int disk_lose(struct disk *disk, const char *name, uint64_t seed)
{
    struct loss loss = {.disk = disk};
    uint64_t bit = disk_part_bit(disk, name);
    if (!bit)
        return ENOENT;
    loss.part = &disk->config.parts[__builtin_ctzll(bit)];
    loss.last = &loss.first;
    pthread_mutex_lock(&disk->lock);
    disk->dark |= bit;
    int error = disk->closed ? EIO : wait_settled(disk, loss.part);
    if (!error) {
        error = lose(&loss, seed);
        if (error) /* half a loss is none that anybody may build on */
            disk->closed = true;
    }
    pthread_mutex_unlock(&disk->lock);
    while (loss.first) {
        struct restored *one = loss.first;
        loss.first = one->next;
        free(one);
    }
    free(loss.items);
    return error;
}

int disk_regain(struct disk *disk, const char *name)
{
    uint64_t bit = disk_part_bit(disk, name);
    if (!bit)
        return ENOENT;
    pthread_mutex_lock(&disk->lock);
    disk->dark &= ~bit;
    pthread_mutex_unlock(&disk->lock);
    return 0;
}
