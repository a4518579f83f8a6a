/* SPDX-License-Identifier: Apache-2.0
 *
 * The reader's judgement of slots as a shared library, for the raw engine: it asks about
 * parts of crash states of which no image exists.
 *
 * The disk is made of cells of equal size.  A slot is put together from the cells that it
 * touches, one after the other; each comes from some place in memory.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../../workloads/wal/classify.h"

struct slots_request {
    uint64_t count;         /* slots asked about */
    const uint64_t *slot;   /* number of each */
    const uint64_t *first;  /* index of its first cell in `source`; count + 1 elements */
    const uint32_t *skip;   /* bytes of its first cell that are before the slot */
    const void *const *source; /* where the bytes of each cell are; NULL for zeroes */
    uint32_t cell;          /* bytes */
    uint32_t record;        /* bytes */
    uint32_t stride;        /* bytes */
    uint32_t reserved;
    uint64_t slots;         /* in the log */
    uint8_t run_id[16];
};

/* What the reader says of the slots of a raw log.  0 or an errno. */
__attribute__((visibility("default")))
int wal_classify_slots(const struct slots_request *r, struct pc_extent *extents)
{
    struct wal_classifier classifier;
    struct wal_layout layout = {
        .kind = WAL_RAW,
        .record = r->record,
        .stride = r->stride,
        .slots = r->slots,
    };
    /* A slot begins and ends within a cell; what a short disk lacks reads as zeroes. */
    uint8_t *bytes = malloc((size_t)r->record + 2 * (size_t)r->cell);

    if (!bytes || !wal_classifier_open(&classifier, &layout, r->run_id)) {
        free(bytes);
        return ENOMEM;
    }
    for (uint64_t i = 0; i < r->count; i++) {
        size_t at = 0, end = r->skip[i] + (size_t)r->record;

        for (uint64_t c = r->first[i]; c < r->first[i + 1] && at < end; c++, at += r->cell) {
            if (r->source[c])
                memcpy(bytes + at, r->source[c], r->cell);
            else
                memset(bytes + at, 0, r->cell);
        }
        if (at < end)
            memset(bytes + at, 0, end - at);
        extents[i] = wal_classify(&classifier, r->slot[i], bytes + r->skip[i]);
    }
    wal_classifier_close(&classifier);
    free(bytes);
    return 0;
}
