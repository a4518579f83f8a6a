/* SPDX-License-Identifier: Apache-2.0
 *
 * The slot that is classified.  Internal to the classifier.
 */
#ifndef POWERCUT_WAL_SLOT_H
#define POWERCUT_WAL_SLOT_H

#include "chunk.h"

struct slot {
    struct wal_classifier *c;
    uint64_t number;
    const uint8_t *data;
    uint32_t chunks;
    uint32_t phase;           /* chunks between the start of its first sector and the slot */
    struct wal_chunk newest;  /* author and LSN of the newest record of this run; or zero */
    struct wal_chunk repaired;/* what the header says, but for one bit; or nobody */
};

/* The number of a chunk's sector, counted from the one in which the slot begins. */
static inline uint32_t wal_sector_of(const struct slot *s, uint32_t chunk)
{
    return (s->phase + chunk) / (WAL_SECTOR / WAL_CHUNK);
}

/* If a tear went through chunk `index`, so that one author wrote its first part and another the
 * rest: says so in the chunk, and returns true.  Chunks of one author must be known by then. */
bool wal_find_cut(const struct slot *s, uint32_t index);

#endif
