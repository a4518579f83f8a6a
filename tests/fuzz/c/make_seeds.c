/* SPDX-License-Identifier: Apache-2.0
 *
 * make_seeds DIR: whole, torn, shifted and older logs of several shapes, from which the
 * fuzzer starts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../workloads/wal/record.h"
#include "fuzz_reader.h"

static uint8_t image[FUZZ_SHAPE_BYTES + 4096 + FUZZ_CAPACITY];

static void fill(const uint8_t shape[FUZZ_SHAPE_BYTES], unsigned variant)
{
    struct wal_config config = fuzz_config(shape);
    struct wal_layout layout = wal_config_layout(&config, 0);
    struct wal_run run = wal_run(fuzz_run_id), before = wal_prewrite_run(fuzz_run_id);
    uint64_t slots = layout.slots ? layout.slots : FUZZ_CAPACITY / layout.stride;
    uint8_t *file = image + FUZZ_SHAPE_BYTES;

    memset(image, 0, sizeof(image));
    memcpy(image, shape, FUZZ_SHAPE_BYTES);
    for (uint64_t slot = 0; slot < slots; slot++) {
        uint8_t *record = file + wal_spot(&layout, slot).offset;

        if (wal_prewritten(&layout) || variant == 1)
            wal_record_prewritten(record, &layout, &before, slot);
        if (slot < slots / 2 || !wal_prewritten(&layout))
            wal_record_build(record, &layout, &run,
                             (struct wal_identity){slot + 1, slot, slot % 3});
        if (variant == 2 && slot % 3 == 1) /* torn */
            memset(record + layout.record / 2, 0, layout.record - layout.record / 2);
        if (variant == 3 && slot % 3 == 2) /* corrupt */
            record[slot * 7 % layout.record] ^= 0x10;
    }
    if (variant == 4) /* misdirected by a chunk */
        memmove(file + WAL_CHUNK, file, FUZZ_CAPACITY - WAL_CHUNK);
}

int main(int argc, char **argv)
{
    static const uint8_t records[] = {0, 2, 7, 15, 24};
    unsigned seed = 0;
    char path[4096];

    if (argc != 2)
        return 2;
    for (uint8_t layout = 0; layout < 5; layout++) {
        for (unsigned i = 0; i < sizeof(records); i++) {
            for (unsigned variant = 0; variant < 5; variant++, seed++) {
                uint8_t shape[FUZZ_SHAPE_BYTES] = {layout, records[i], (uint8_t)(seed % 6)};

                fill(shape, variant);
                snprintf(path, sizeof(path), "%s/seed-%03u", argv[1], seed);
                FILE *out = fopen(path, "wb");

                if (!out || fwrite(image, sizeof(image), 1, out) != 1 || fclose(out)) {
                    perror(path);
                    return 1;
                }
            }
        }
    }
    return 0;
}
