/* SPDX-License-Identifier: Apache-2.0
 * Shared by disk.c (life), requests.c and cut.c (power). */
#ifndef POWERCUT_CAPTURE_DISK_INTERNAL_H
#define POWERCUT_CAPTURE_DISK_INTERNAL_H

#include <pthread.h>

#include "disk.h"
#include "injected.h"
#include "log.h"
#include "medium.h"

/* A write between submission and completion, or one that was abandoned there. */
struct in_flight {
    struct in_flight *previous, *next;
    struct extent extent;
};

/* Completed, not durable: a ring in completion order.  What a flush of one part took out of the
 * midst has no sectors left. */
struct cache {
    struct extent *items;
    uint64_t space;            /* a power of two */
    uint64_t first, last;      /* running numbers; `last - first` items are there */
    uint64_t bytes;            /* what counts towards cache_size */
};

enum motion {
    RUNNING,
    TAKING,  /* writes and flushes are submitted and do not complete */
    STOPPED, /* nor are they submitted, and reads wait, too */
};

/* A stop that was asked for. */
struct stop {
    bool wanted;   /* and not yet told */
    enum disk_stop how;
    uint64_t flush; /* STOP_AT_FLUSH */
    uint64_t left;  /* completions, else */
};

struct disk {
    struct disk_config config;
    char *directory;           /* of the last log: unnamed files go there */
    uint64_t size;
    pthread_mutex_t lock;      /* over all below */
    struct store store;        /* (its readers need no lock) */
    struct view current;       /* what the client sees */
    struct view medium;        /* what survives */
    struct log log;
    uint64_t first_unit;       /* number of the first payload unit of the present log */
    struct cache cache;
    struct in_flight in_flight; /* head of a ring */
    _Atomic uint64_t generation; /* of the power: one more after every cut */
    _Atomic bool closed;
    _Atomic uint64_t dark; /* parts without power: a bit each, the first one's the lowest */
    _Atomic enum motion motion; /* these three are written under the lock only */
    struct stop stop;
    struct injections injections;
    _Atomic bool reads_injected; /* armed, and one of them is for reads */
    struct disk_statistics counts;
    uint64_t syncs;            /* flushes and durable writes that took time */
};

struct connection {
    struct disk *disk;
    struct disk_part part; /* the whole, where there are none */
    uint64_t bit;          /* in `dark`; 0 where there are none */
    uint64_t generation;
    uint32_t number;
};

/* 0 if there is no such part. */
uint64_t disk_part_bit(const struct disk *disk, const char *name);

/* Whether the disk was neither closed nor cut since the connection was made. */
static inline bool powered(const struct connection *connection)
{
    const struct disk *disk = connection->disk;
    return !disk->closed && connection->generation == disk->generation;
}

/* No request reaches beyond its part. */
static inline bool lies_on(const struct disk_part *part, const struct extent *extent)
{
    return extent->sector * SECTOR >= part->offset &&
           extent->sector * SECTOR < part->offset + part->length;
}

static inline struct extent *cache_item(struct cache *cache, uint64_t number)
{
    return &cache->items[number & (cache->space - 1)];
}

/* A zeroing takes no payload: one sector of cache stands for it. */
static inline uint64_t cache_cost(const struct extent *extent)
{
    return extent->step ? extent->sectors * SECTOR : SECTOR;
}

/* All with the lock held.  Room for one more, before a request is taken: completion must not
 * fail. */
int cache_make_room(struct disk *disk);
/* A write that has completed; a full cache destages its oldest. */
int cache_push(struct disk *disk, const struct extent *extent);
/* What had completed before `horizon` on a part, onto the medium. */
void cache_flush(struct disk *disk, const struct disk_part *part, uint64_t horizon);

/* With the lock held, after whatever may have brought a stop about. */
void stop_if_due(struct disk *disk);

int disk_start_log(struct disk *disk, const char *prefix, struct log *log);

#endif
