/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target: the judgement of slots of which parts lie in memory (harness/rawread), on the
 * host: whatever the bytes and wherever the cells begin, what it says is possible.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../harness/rawread/slots.c"
#include "../../../workloads/wal/reader.h"

enum { HEAD = 8, SLOTS = 16, CELLS = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint32_t cells[] = {512, 1024, 4096};

    if (size < HEAD)
        return 0;
    uint32_t cell = cells[data[0] % 3];
    uint32_t record = (1 + data[1] % 32) * (uint32_t)WAL_CHUNK;
    uint64_t slot[SLOTS], first[SLOTS + 1] = {0};
    uint32_t skip[SLOTS];
    const void *source[CELLS + SLOTS];
    struct pc_extent extents[SLOTS];
    const uint8_t *bytes = data + HEAD;
    size_t whole = (size - HEAD) / cell, used = 0;
    uint64_t count = 1 + data[2] % SLOTS;

    for (uint64_t i = 0; i < count; i++) {
        size_t wanted = data[3 + i % 4] % 5;

        slot[i] = (uint64_t)data[7] * i;
        skip[i] = data[3 + (i + 1) % 4] % (cell / 64) * 64;
        for (size_t c = 0; c < wanted && used < CELLS; c++, used++)
            source[used] = whole && (data[6] >> c % 8 & 1) == 0 ? bytes + (used + i) % whole * cell
                                                                : NULL;
        first[i + 1] = used;
    }
    struct slots_request request = {
        .count = count, .slot = slot, .first = first, .skip = skip, .source = source,
        .cell = cell, .record = record, .stride = (record + 511) / 512 * 512, .slots = 256,
        .run_id = "powercut-fuzzer",
    };
    if (wal_classify_slots(&request, extents) != 0)
        abort();
    for (uint64_t i = 0; i < count; i++) {
        if (extents[i].slot != slot[i] || extents[i].count != 1 ||
            extents[i].state < PC_SLOT_INTACT || extents[i].state > PC_SLOT_UNREADABLE) {
            fprintf(stderr, "slot %llu: state %u\n", (unsigned long long)slot[i],
                    extents[i].state);
            abort();
        }
    }
    return 0;
}
