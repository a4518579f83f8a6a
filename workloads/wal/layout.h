/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the slots of a log are: pure arithmetic, no I/O.
 *
 * A log is a sequence of slots; `position` counts bytes from the start of the
 * log (for segments: over the files one after the other), `spot` says in which
 * file and where in it.  Only segments have files other than number 0.
 */
#ifndef POWERCUT_WAL_LAYOUT_H
#define POWERCUT_WAL_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "wal_format.h"

enum wal_layout_kind {
    WAL_APPEND,     /* one file that grows with each record */
    WAL_PREALLOC,   /* one file, fallocate()d: unwritten extents */
    WAL_PREWRITTEN, /* one file full of records of generation 0; ends when full */
    WAL_RECYCLED,   /* the same, but goes round */
    WAL_SEGMENTS,   /* a directory of files of equal size, each growing */
    WAL_RAW         /* a block device or an image of one, from `offset`; goes round */
};

#define WAL_SECTOR 512u

struct wal_layout {
    enum wal_layout_kind kind;
    uint32_t record;     /* bytes */
    uint32_t stride;     /* bytes from slot to slot within a file */
    uint64_t slots;      /* 0: unbounded */
    uint64_t per_file;   /* slots in a segment file; else 0 */
    uint64_t segment;    /* bytes of a segment file; else 0 */
    uint64_t offset;     /* of position 0 in its file: raw only */
};

struct wal_spot {
    uint64_t file;   /* index of the segment file; else 0 */
    uint64_t offset; /* in that file, in bytes */
};

/* True for layouts that overwrite slot 0 when the last one was written. */
bool wal_wraps(const struct wal_layout *layout);

/* True for layouts that are full of records of generation 0 before the run. */
bool wal_prewritten(const struct wal_layout *layout);

uint64_t wal_slot(const struct wal_layout *layout, uint64_t lsn);
uint64_t wal_position(const struct wal_layout *layout, uint64_t slot);
struct wal_spot wal_spot(const struct wal_layout *layout, uint64_t slot);

/* Slots from `slot` that follow one another in its file, itself included. */
uint64_t wal_contiguous(const struct wal_layout *layout, uint64_t slot);

/* How often the slot of record `lsn` was written before it, modulo 2^16. */
uint16_t wal_generation(const struct wal_layout *layout, uint64_t lsn);

/* True if record `lsn` belongs into `slot`, now or after going round. */
bool wal_fits(const struct wal_layout *layout, uint64_t slot, uint64_t lsn);

/* Highest LSN that this log can take. */
uint64_t wal_last_lsn(const struct wal_layout *layout);

#endif
