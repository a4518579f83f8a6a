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
 * stored little-endian, with `mix` a bijection of 64 bits (splitmix64's
 * finaliser, Steele et al., OOPSLA 2014); the functions below are the exact
 * definition.  Being a bijection it can be undone: one aligned word found
 * anywhere, on a disk or in a captured write, names the record and the place
 * in the record that it belongs to.  So a checker needs no copy of the data,
 * the exposure analysis needs no map of the file system, and a word that
 * landed elsewhere tells where it came from.  Limits that follow: 128 streams,
 * 2^40 records, 1 MiB a record.
 *
 * Packed records follow one another directly.  Aligned records start at a
 * multiple of `align` (512 or 4096) and are padded with zeroes.
 *
 * The Python side is harness/powercut/wal/record.py.
 */
#ifndef POWERCUT_WAL_FORMAT_H
#define POWERCUT_WAL_FORMAT_H

#include <assert.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the format is little-endian and the code that uses it does not convert"
#endif

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

/* Bits of a payload word before mixing: stream 7, LSN 40, index 17. */
#define WAL_INDEX_BITS 17
#define WAL_LSN_BITS 40
#define WAL_LSN_MAX ((1ull << WAL_LSN_BITS) - 1)

/* splitmix64's finaliser: a bijection of 64 bits; mix(0) = 0. */
static inline uint64_t wal_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/* wal_unmix(wal_mix(x)) == x.  The factors are the inverses modulo 2^64. */
static inline uint64_t wal_unmix(uint64_t x)
{
    x = (x ^ (x >> 31) ^ (x >> 62)) * 0x319642b2d24d8ec3ull;
    x = (x ^ (x >> 27) ^ (x >> 54)) * 0x96de1b173f119089ull;
    return x ^ (x >> 30) ^ (x >> 60);
}

/* The run's key: mix(lo ^ mix(hi)), lo and hi the little-endian halves of run_id
 * (lo = bytes 0..7, hi = bytes 8..15). */
static inline uint64_t wal_key(const uint8_t run_id[16])
{
    uint64_t lo, hi;

    __builtin_memcpy(&lo, run_id, 8);
    __builtin_memcpy(&hi, run_id + 8, 8);
    return wal_mix(lo ^ wal_mix(hi));
}

/* What a payload word stands for, before it is mixed. */
static inline uint64_t wal_place(uint32_t stream, uint64_t lsn, uint64_t index)
{
    return (uint64_t)stream << (WAL_LSN_BITS + WAL_INDEX_BITS) | lsn << WAL_INDEX_BITS | index;
}

/* Payload word `index` of record `lsn`.  Back: wal_unmix(word) ^ key is the place. */
static inline uint64_t wal_word(uint64_t key, uint32_t stream, uint64_t lsn, uint64_t index)
{
    return wal_mix(key ^ wal_place(stream, lsn, index));
}

#endif
