/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target: the log reader survives any image, and what it says holds together:
 * extents follow one another without a gap, and each state's fields are possible.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../../workloads/wal/reader.h"
#include "fuzz_reader.h"

struct seen {
    struct wal_layout layout;
    uint64_t next; /* slot that the next extent has to begin with */
};

#define HOLDS(condition)                                                                       \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            fprintf(stderr, "does not hold: %s\n", #condition);                                \
            abort();                                                                           \
        }                                                                                      \
    } while (0)

static int check_extent(void *target, const struct pc_extent *extent)
{
    struct seen *seen = target;
    const struct wal_layout *layout = &seen->layout;
    bool none = extent->state == PC_SLOT_ABSENT || extent->state == PC_SLOT_UNREADABLE;

    HOLDS(extent->slot == seen->next && extent->count > 0);
    seen->next += extent->count;
    HOLDS(extent->state >= PC_SLOT_INTACT && extent->state <= PC_SLOT_UNREADABLE);
    HOLDS(!none || extent->lsn == 0);
    if (extent->state == PC_SLOT_INTACT || extent->state == PC_SLOT_TORN)
        HOLDS(wal_fits(layout, extent->slot, extent->lsn));
    if (extent->state == PC_SLOT_TORN)
        HOLDS(extent->detail <= layout->record / WAL_SECTOR + 1); /* of one more, at most */
    if (extent->state == PC_SLOT_CORRUPT)
        HOLDS(extent->detail < layout->record);
    return 0;
}

static int take_fact(void *target, const char *fact)
{
    (void)target;
    (void)fact;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int file = -1;
    static char path[64];

    if (size < FUZZ_SHAPE_BYTES)
        return 0;
    struct wal_config config = fuzz_config(data);
    size_t bytes = size - FUZZ_SHAPE_BYTES;
    struct seen seen = {.layout = wal_config_layout(&config, bytes)};
    struct wal_sink sink = {check_extent, take_fact, &seen};
    struct pc_problems problems = {0};
    struct wal_failure failure = {0};

    if (file < 0) {
        file = memfd_create("log", 0);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    }
    HOLDS(ftruncate(file, 0) == 0);
    HOLDS(pwrite(file, data + FUZZ_SHAPE_BYTES, bytes, 0) == (ssize_t)bytes);
    config.path = path;
    int failed = wal_scan(&config, &sink, &problems, &failure);

    HOLDS(!failed);
    if (config.layout == WAL_APPEND)
        HOLDS(seen.next == (bytes + seen.layout.stride - 1) / seen.layout.stride);
    else
        HOLDS(seen.next == seen.layout.slots);
    return 0;
}
