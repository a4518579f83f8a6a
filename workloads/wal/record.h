/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POWERCUT_WAL_RECORD_H
#define POWERCUT_WAL_RECORD_H

#include "layout.h"

/* Whose record it is. */
struct wal_run {
    uint8_t id[16];
    uint64_t key;
};

struct wal_run wal_run(const uint8_t id[16]);

/* The run that the records of generation 0 carry: last byte of the id xor 0x5a, so
 * that to the run itself they are stale. */
struct wal_run wal_prewrite_run(const uint8_t id[16]);

/* Which record it is; generation and position follow from the layout. */
struct wal_identity {
    uint64_t lsn;
    uint64_t prev_lsn;
    uint32_t stream;
};

/* Writes the layout's `record` bytes of the record to `out`. */
void wal_record_build(uint8_t *out, const struct wal_layout *layout, const struct wal_run *run,
                      struct wal_identity identity);

/* The record of generation 0 of `slot`. */
void wal_record_prewritten(uint8_t *out, const struct wal_layout *layout,
                           const struct wal_run *prewrite_run, uint64_t slot);

/* True if the 64 bytes at `chunk` are a header with the right checksum. */
bool wal_header_load(struct wal_header *header, const uint8_t *chunk);

#endif
