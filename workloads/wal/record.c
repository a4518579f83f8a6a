/* SPDX-License-Identifier: Apache-2.0 */
#include "record.h"

#include <stddef.h>
#include <string.h>

#include "../common/crc32c.h"

#define HEADER_CRC_BYTES offsetof(struct wal_header, header_crc)

struct wal_run wal_run(const uint8_t id[16])
{
    struct wal_run run = {.key = wal_key(id)};

    memcpy(run.id, id, sizeof(run.id));
    return run;
}

struct wal_run wal_prewrite_run(const uint8_t id[16])
{
    uint8_t derived[16];

    memcpy(derived, id, sizeof(derived));
    derived[15] ^= 0x5a;
    return wal_run(derived);
}

static void build(uint8_t *out, const struct wal_layout *layout, const struct wal_run *run,
                  struct wal_identity identity, uint16_t generation)
{
    uint32_t length = layout->record - WAL_CHUNK;
    struct wal_header header = {
        .magic = WAL_MAGIC,
        .version = WAL_VERSION,
        .generation = generation,
        .stream = identity.stream,
        .length = length,
        .lsn = identity.lsn,
        .prev_lsn = identity.prev_lsn,
        .position = wal_position(layout, wal_slot(layout, identity.lsn)),
    };

    for (uint32_t i = 0; i < length / 8; i++) {
        uint64_t word = wal_word(run->key, identity.stream, identity.lsn, i);

        memcpy(out + WAL_CHUNK + 8 * (size_t)i, &word, 8);
    }
    memcpy(header.run_id, run->id, sizeof(header.run_id));
    header.payload_crc = pc_crc32c(0, out + WAL_CHUNK, length);
    header.header_crc = pc_crc32c(0, &header, HEADER_CRC_BYTES);
    memcpy(out, &header, sizeof(header));
}

void wal_record_build(uint8_t *out, const struct wal_layout *layout, const struct wal_run *run,
                      struct wal_identity identity)
{
    build(out, layout, run, identity, wal_generation(layout, identity.lsn));
}

void wal_record_prewritten(uint8_t *out, const struct wal_layout *layout,
                           const struct wal_run *prewrite_run, uint64_t slot)
{
    build(out, layout, prewrite_run,
          (struct wal_identity){.lsn = slot + 1, .prev_lsn = slot, .stream = 0}, 0);
}

bool wal_header_load(struct wal_header *header, const uint8_t *chunk)
{
    memcpy(header, chunk, sizeof(*header));
    return header->magic == WAL_MAGIC && header->version == WAL_VERSION &&
           header->header_crc == pc_crc32c(0, header, HEADER_CRC_BYTES);
}
