/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands in a slot.  Pure: bytes in, one extent out; survives any bytes.
 *
 * Every 64-byte chunk of the slot is attributed to its author: a payload word
 * names run, record and place (wal_format.h), a header is checksummed.
 *
 *   here       this run, a record that belongs into this slot, at its place
 *   elsewhere  this run, but a record or a place that belongs elsewhere
 *   older      another run: the one whose id the pre-written records carry, or one
 *              whose header was seen in the log
 *   zero
 *   nobody     none of these
 *
 * From the authors follows the state, the first that applies:
 *
 *   corrupt      nobody wrote a chunk, or more than two authors share a sector
 *                (a tear leaves at most two, one after the other)
 *   misdirected  a chunk belongs elsewhere
 *   intact       every chunk is `here`, of one record, and its checksums are right
 *   torn         some chunk is `here`; `lsn` is the newest record found, `detail`
 *                the number of its sectors that are right
 *   stale        some chunk is of another run
 *   absent       all zero
 *
 * A sector may be torn itself (atomic unit 1, or a page that was sent while the
 * record was being copied into it), also within a chunk: a first part by one
 * author and the rest by another is accepted.  At the edge of a sector a part of
 * less than 8 bytes is not: it would excuse too many corruptions.  For the same
 * reason a header that is torn within itself over an older one of the same run is
 * corrupt.
 */
#ifndef POWERCUT_WAL_CLASSIFY_H
#define POWERCUT_WAL_CLASSIFY_H

#include <stddef.h>

#include "../common/wire.h"
#include "record.h"

#define WAL_RUNS_MAX 18 /* this run, its pre-written records, 16 others */

struct wal_chunk; /* the author of a chunk */

struct wal_classifier {
    struct wal_layout layout;
    struct wal_run runs[WAL_RUNS_MAX]; /* 0: this run, 1: its pre-written records */
    unsigned run_count;
    struct wal_chunk *chunks; /* one for each chunk of a record */
};

/* False if there is no memory. */
bool wal_classifier_open(struct wal_classifier *classifier, const struct wal_layout *layout,
                         const uint8_t run_id[16]);
void wal_classifier_close(struct wal_classifier *classifier);

/* Looks for headers of other runs in `length` bytes (a multiple of 64): their payload is
 * then known for what it is. */
void wal_classifier_learn(struct wal_classifier *classifier, const uint8_t *data, size_t length);

/* Classifies the layout's `record` bytes at `data`, which were found in `slot`. */
struct pc_extent wal_classify(struct wal_classifier *classifier, uint64_t slot,
                              const uint8_t *data);

#endif
