/* SPDX-License-Identifier: Apache-2.0
 *
 * The volatile cache: completed writes on their way to the medium.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>

#include "disk_internal.h"

int cache_make_room(struct disk *disk)
{
    struct cache *cache = &disk->cache;
    if (cache->last - cache->first + disk->counts.in_flight + 1 < cache->space)
        return 0;
    struct extent *items = calloc(2 * cache->space, sizeof *items);
    if (!items)
        return ENOMEM;
    for (uint64_t number = cache->first; number < cache->last; number++)
        items[number & (2 * cache->space - 1)] = *cache_item(cache, number);
    free(cache->items);
    cache->items = items;
    cache->space *= 2;
    return 0;
}

/* Takes a completed write out of the cache, onto the medium. */
static void cache_take(struct disk *disk, struct extent *extent)
{
    view_apply(&disk->medium, extent);
    disk->cache.bytes -= cache_cost(extent);
    disk->counts.volatile_writes--;
    disk->counts.volatile_bytes -= extent->sectors * SECTOR;
    disk->log.owed--; /* it no longer may have to survive a cut */
    extent->sectors = 0;
    while (disk->cache.first < disk->cache.last &&
           !cache_item(&disk->cache, disk->cache.first)->sectors)
        disk->cache.first++;
}

void cache_flush(struct disk *disk, const struct disk_part *part, uint64_t horizon)
{
    for (uint64_t number = disk->cache.first; number < horizon; number++) {
        struct extent *extent = cache_item(&disk->cache, number);
        if (number >= disk->cache.first && extent->sectors && lies_on(part, extent))
            cache_take(disk, extent);
    }
}

int cache_push(struct disk *disk, const struct extent *extent)
{
    *cache_item(&disk->cache, disk->cache.last++) = *extent;
    disk->cache.bytes += cache_cost(extent);
    disk->counts.volatile_writes++;
    disk->counts.volatile_bytes += extent->sectors * SECTOR;
    int error = 0;
    while (disk->config.cache_size && disk->cache.bytes > disk->config.cache_size && !error) {
        struct extent *oldest = cache_item(&disk->cache, disk->cache.first);
        struct pclog_event event = {
            .type = PCLOG_DESTAGE,
            .request = oldest->request,
            .offset = oldest->sector * SECTOR,
            .length = oldest->sectors * SECTOR,
        };
        error = log_event(&disk->log, &event);
        if (!error)
            cache_take(disk, oldest);
    }
    return error;
}
