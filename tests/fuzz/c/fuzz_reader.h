/* SPDX-License-Identifier: Apache-2.0
 *
 * How a fuzzer's input becomes a log: three bytes choose its shape, the rest is its file.
 */
#ifndef POWERCUT_FUZZ_READER_H
#define POWERCUT_FUZZ_READER_H

#include "../../../workloads/wal/config.h"

#define FUZZ_SHAPE_BYTES 3
#define FUZZ_CAPACITY 16384u

static const uint8_t fuzz_run_id[16] = "powercut-fuzzer";

static inline struct wal_config fuzz_config(const uint8_t shape[FUZZ_SHAPE_BYTES])
{
    static const int layouts[] = {WAL_APPEND, WAL_PREALLOC, WAL_PREWRITTEN, WAL_RECYCLED, WAL_RAW};
    static const uint64_t aligns[] = {0, 512, 4096};
    struct wal_config config = {
        .layout = layouts[shape[0] % 5],
        .record = (1 + shape[1] % 32) * (uint64_t)WAL_CHUNK,
        .align = aligns[shape[2] % 3],
        .capacity = FUZZ_CAPACITY,
    };

    if (config.layout == WAL_APPEND)
        config.capacity = 0;
    if (config.layout == WAL_RAW)
        config.offset = shape[2] / 3 % 2 * 4096;
    __builtin_memcpy(config.run_id, fuzz_run_id, sizeof(config.run_id));
    return config;
}

#endif
