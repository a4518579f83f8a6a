/* SPDX-License-Identifier: Apache-2.0
 *
 * Who wrote a 64-byte chunk.  Internal to the classifier.
 */
#ifndef POWERCUT_WAL_CHUNK_H
#define POWERCUT_WAL_CHUNK_H

#include "classify.h"

enum wal_author { WAL_ZERO, WAL_HERE, WAL_ELSEWHERE, WAL_OLDER, WAL_NOBODY };

struct wal_chunk {
    enum wal_author author;
    unsigned run; /* of the classifier's runs */
    uint32_t stream;
    uint64_t lsn;
    uint16_t generation; /* of a header */
    uint8_t wrong;       /* WAL_NOBODY: first wrong byte, where that is known; else 0 */
    uint8_t cut;         /* not 0: a second author, `after`, wrote from this byte on */
    enum wal_author after;
    unsigned after_run;
    uint32_t after_stream;
    uint64_t after_lsn;
};

/* What an author would have written into a chunk; bytes that cannot be known are not. */
struct wal_expected {
    uint8_t bytes[WAL_CHUNK];
    uint64_t known; /* bit i: byte i */
};

/* True if the two chunks are parts of one record of one run, or both zero. */
bool wal_same_author(const struct wal_chunk *a, const struct wal_chunk *b);

/* The first part and the rest of a chunk, as chunks of their own. */
struct wal_chunk wal_chunk_head(const struct wal_chunk *chunk);
struct wal_chunk wal_chunk_tail(const struct wal_chunk *chunk);

/* The author of chunk `index` of `slot`, if there is a single one. */
struct wal_chunk wal_chunk_attribute(struct wal_classifier *c, uint64_t slot, uint32_t index,
                                     const uint8_t *data);

/* What `author` would have written as chunk `index` of `slot`; false if that cannot be said. */
bool wal_chunk_expect(const struct wal_classifier *c, uint64_t slot, uint32_t index,
                      const struct wal_chunk *author, struct wal_expected *expected);

/* The first byte from `from` on at which `data` is not as expected; WAL_CHUNK if none. */
unsigned wal_first_wrong(const struct wal_expected *expected, const uint8_t *data, unsigned from);

/* Turns back a single inverted bit of a header, if that makes its checksum right. */
bool wal_header_repair(struct wal_header *header, const uint8_t *data, unsigned *wrong);

/* CRC32C of the payload of a record. */
uint32_t wal_payload_crc(const struct wal_layout *layout, uint64_t key, uint32_t stream,
                         uint64_t lsn);

#endif
