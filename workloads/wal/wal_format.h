/* SPDX-License-Identifier: Apache-2.0
 *
 * The record format of the WAL workload.
 *
 * A log is a sequence of fixed-size slots.  Record LSN n (from 1) belongs to
 * slot (n - 1) mod slots, where `slots` is the capacity of the log; a growing
 * log has no capacity and never wraps.  A record is made of 64-byte chunks, so
 * no chunk straddles a sector: chunk 0 is the header below, every later chunk
 * is payload.
 *
 * Payload word i (8 bytes, counted from the start of the payload) is
 *
 *     mix(key(run_id) ^ (stream << 57 | lsn << 17 | i))
 *
 * with `mix` a bijection of 64 bits (splitmix64's finaliser, Steele et al.,
 * OOPSLA 2014).  Being a bijection it can be undone: one aligned word found
 * anywhere, on a disk or in a captured write, names the record and the place
 * in the record that it belongs to.  So a checker needs no copy of the data,
 * the exposure analysis needs no map of the file system, and a word that
 * landed elsewhere tells where it came from.  Limits that follow: 128 streams,
 * 2^40 records, 1 MiB a record.
 *
 * Packed records follow one another directly.  Aligned records start at a
 * multiple of `align` (512 or 4096) and are padded with zeroes.
 *
 * The Python side is harness/powercut/model/wal.py.
 */
#ifndef POWERCUT_WAL_FORMAT_H
#define POWERCUT_WAL_FORMAT_H

#include <assert.h>
#include <stdint.h>

#define WAL_MAGIC 0x4c415750u /* "PWAL" */
#define WAL_VERSION 1u
#define WAL_CHUNK 64u
#define WAL_RECORD_MIN 64u
#define WAL_RECORD_MAX (1u << 20)
#define WAL_STREAMS_MAX 128u

struct wal_header {
    uint32_t magic;
    uint16_t version;
    uint16_t generation; /* how often this slot had been written before, mod 2^16 */
    uint8_t run_id[16];  /* fresh for every run: what an earlier run left never verifies */
    uint32_t stream;     /* the thread that appended the record */
    uint32_t length;     /* payload bytes: record size - 64 */
    uint64_t lsn;
    uint64_t prev_lsn;   /* of the same stream; 0 for its first */
    uint64_t position;   /* byte offset in the log that the record was written for */
    uint32_t payload_crc;/* CRC32C of the payload */
    uint32_t header_crc; /* CRC32C of the 60 bytes before */
};
static_assert(sizeof(struct wal_header) == WAL_CHUNK, "a header is one chunk");

#endif
