/* SPDX-License-Identifier: Apache-2.0
 *
 * Power loss.  Under the lock, and so between two requests: the generation moves
 * on (whoever connected before fails from here), survivors are chosen
 * (survive.h), CUT, SURVIVE and END are logged, and the client's view becomes
 * the medium.  The log of the time after starts on that medium.
 */
#define _GNU_SOURCE
#include "disk_internal.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "survive.h"

struct candidate {
    struct extent extent;
    struct byte_range survives;
};

struct cut {
    struct disk *disk;
    struct candidate *items;
    uint64_t count; /* completed ones come first, in completion order; then those in flight */
    /* Sectors of which only some bytes survived are put together anew, in units of their
     * own from `patch_unit` on. */
    uint64_t patch_unit, patches;
    int patch_fd;
};

static struct byte_range whole(const struct extent *extent)
{
    return (struct byte_range){extent->sector * SECTOR, extent->sectors * SECTOR};
}

static int collect(struct cut *cut)
{
    struct disk *disk = cut->disk;
    struct cache *cache = &disk->cache;
    uint64_t most = cache->last - cache->first + disk->counts.in_flight;
    cut->items = calloc(most + 1, sizeof *cut->items);
    if (!cut->items)
        return ENOMEM;
    for (uint64_t number = cache->first; number < cache->last; number++)
        if (cache_item(cache, number)->sectors)
            cut->items[cut->count++].extent = *cache_item(cache, number);
    for (struct in_flight *at = disk->in_flight.next; at != &disk->in_flight; at = at->next)
        cut->items[cut->count++].extent = at->extent;
    return 0;
}

static void choose(struct cut *cut, enum pclog_policy policy, uint64_t seed)
{
    uint64_t prefix = survive_prefix(seed, cut->count);
    for (uint64_t i = 0; i < cut->count; i++) {
        struct candidate *item = &cut->items[i];
        struct byte_range all = whole(&item->extent);
        bool keep = policy == PCLOG_POLICY_KEEP || (policy == PCLOG_POLICY_PREFIX && i < prefix);
        item->survives = keep ? all : (struct byte_range){all.offset, 0};
        if (policy == PCLOG_POLICY_RANDOM)
            item->survives = survive_random(seed, item->extent.request, all,
                                            cut->disk->config.atomic_unit);
    }
}

static int by_submission(const void *left, const void *right)
{
    uint64_t a = ((const struct candidate *)left)->extent.request;
    uint64_t b = ((const struct candidate *)right)->extent.request;
    return a < b ? -1 : a > b;
}

/* A sector of which only bytes [from, to) of the write survived. */
static int patch(struct cut *cut, struct extent one, uint64_t from, uint64_t to)
{
    struct disk *disk = cut->disk;
    uint64_t shown = disk->medium.entries[one.sector];
    if (shown > one.entry && shown < 2 * cut->patch_unit)
        return 0; /* a newer write is there, and not from this cut */
    char sector[SECTOR], written[SECTOR] = {0};
    uint64_t start = one.sector * SECTOR;
    int error = store_read(&disk->store, &disk->medium, sector, SECTOR, start);
    struct view single = {.sectors = 1, .entries = &one.entry};
    if (!error && one.step)
        error = store_read(&disk->store, &single, written, SECTOR, 0);
    if (error)
        return error;
    memcpy(sector + (from - start), written + (from - start), to - from);
    if (pwrite(cut->patch_fd, sector, SECTOR, (off_t)(cut->patches * SECTOR)) != SECTOR)
        return EIO;
    view_set(&disk->medium, one.sector, 2 * (cut->patch_unit + cut->patches++) + 1);
    return 0;
}

/* Candidates come in submission order, so whatever this cut itself has left in a sector
 * is older than the candidate at hand. */
static int survive(struct cut *cut, const struct candidate *item)
{
    struct view *medium = &cut->disk->medium;
    uint64_t end = item->survives.offset + item->survives.length;
    for (uint64_t at = item->survives.offset, next; at < end; at = next) {
        struct extent one = item->extent;
        one.sector = at / SECTOR;
        one.sectors = 1;
        one.entry += (one.sector - item->extent.sector) * one.step;
        next = (one.sector + 1) * SECTOR < end ? (one.sector + 1) * SECTOR : end;
        if (next - at == SECTOR) {
            if (medium->entries[one.sector] >= 2 * cut->patch_unit)
                view_set(medium, one.sector, 0);
            view_apply(medium, &one);
        } else {
            int error = patch(cut, one, at, next);
            if (error)
                return error;
        }
    }
    return 0;
}

static int log_survivors(struct cut *cut, struct cut_report *report)
{
    struct log *log = &cut->disk->log;
    qsort(cut->items, cut->count, sizeof *cut->items, by_submission);
    int error = 0;
    for (uint64_t i = 0; i < cut->count && !error; i++) {
        const struct candidate *item = &cut->items[i];
        report->dropped_bytes += whole(&item->extent).length - item->survives.length;
        if (!item->survives.length) {
            report->dropped_writes++;
            continue;
        }
        report->survived_writes++;
        struct pclog_event event = {
            .type = PCLOG_SURVIVE,
            .request = item->extent.request,
            .offset = item->survives.offset,
            .length = item->survives.length,
        };
        error = log_event(log, &event);
        if (!error)
            error = survive(cut, item);
    }
    return error;
}

/* The old log is over; the next one begins, with an empty cache on the medium. */
static void restart(struct cut *cut, struct log *next)
{
    struct disk *disk = cut->disk;
    for (uint64_t i = 0; i < cut->count; i++)
        view_revert(&disk->current, &disk->medium, &cut->items[i].extent);
    while (disk->in_flight.next != &disk->in_flight) {
        struct in_flight *request = disk->in_flight.next;
        disk->in_flight.next = request->next;
        free(request);
    }
    disk->in_flight.previous = &disk->in_flight;
    disk->cache.first = disk->cache.last = disk->cache.bytes = 0;
    disk->counts = (struct disk_statistics){0};
    next->last_ns = disk->log.last_ns;
    disk->log = *next;
}

static int cut_power(struct cut *cut, enum pclog_policy policy, uint64_t seed,
                     struct cut_report *report)
{
    struct disk *disk = cut->disk;
    disk->generation++;
    disk->motion = RUNNING;
    disk->stop = (struct stop){0};
    disk->injections.armed = disk->reads_injected = false;
    /* One unit stays free between the files, so that no run of units spans two of them. */
    cut->patch_unit = disk->first_unit + disk->log.data_used / SECTOR + 1;
    struct pclog_event event = {.type = PCLOG_CUT, .op = (uint8_t)policy, .request = seed};
    int error = log_event(&disk->log, &event);
    report->at_ns = event.time_ns;
    choose(cut, policy, seed);
    if (!error)
        error = store_add_segment(&disk->store, cut->patch_unit, cut->patch_fd);
    if (!error) {
        cut->patch_fd = dup(cut->patch_fd); /* the store owns the first one now */
        error = cut->patch_fd < 0 ? errno : log_survivors(cut, report);
    }
    return error ? error : log_end(&disk->log, disk->counts.requests);
}

static int prepare(struct cut *cut, const char *next_log, struct log *next, char *message,
                   size_t space)
{
    struct disk *disk = cut->disk;
    int error = disk->closed ? EIO : collect(cut);
    if (!error) {
        cut->patch_fd = memfd_create("powercut-torn", MFD_CLOEXEC);
        error = cut->patch_fd < 0 ? errno : 0;
    }
    if (error) {
        snprintf(message, space, "cut: %s", disk->closed ? "the disk is closed" : strerror(error));
        return error;
    }
    error = disk_start_log(disk, next_log, next);
    if (error)
        snprintf(message, space, "next log %s: %s", next_log ? next_log : "(none)",
                 strerror(error));
    return error;
}

int disk_cut(struct disk *disk, enum pclog_policy policy, uint64_t seed, const char *next_log,
             struct cut_report *report, char *message, size_t space)
{
    struct cut cut = {.disk = disk, .patch_fd = -1};
    struct log next = {.event_fd = -1, .data_fd = -1};
    *report = (struct cut_report){0};
    if (policy == PCLOG_POLICY_RANDOM && disk->config.contract & PCLOG_ORDERED) {
        snprintf(message, space, "cut: an ordered disk never leaves a random subset; "
                                 "policy prefix leaves what it may leave");
        return EINVAL;
    }
    pthread_mutex_lock(&disk->lock);
    int error = prepare(&cut, next_log, &next, message, space);
    if (error) { /* the power stays on */
        pthread_mutex_unlock(&disk->lock);
        goto out;
    }
    error = cut_power(&cut, policy, seed, report);
    struct log ended = disk->log;
    uint64_t first_unit = cut.patch_unit + cut.patches + 1;
    if (!error)
        error = store_add_segment(&disk->store, first_unit, next.data_fd);
    if (error) { /* half a cut is none that anybody may build on */
        snprintf(message, space, "cut: %s; the disk is closed", strerror(error));
        disk->closed = true;
        disk->log = next;
    } else {
        disk->first_unit = first_unit;
        restart(&cut, &next);
    }
    pthread_mutex_unlock(&disk->lock);
    int settled = log_settle(&ended);
    if (settled && !error) {
        snprintf(message, space, "the log cannot be made durable: %s", strerror(settled));
        error = settled;
    }
out:
    if (cut.patch_fd >= 0)
        close(cut.patch_fd);
    free(cut.items);
    return error;
}
