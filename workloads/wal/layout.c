/* SPDX-License-Identifier: Apache-2.0 */
#include "layout.h"

bool wal_wraps(const struct wal_layout *layout)
{
    return layout->kind == WAL_RECYCLED || layout->kind == WAL_RAW;
}

bool wal_prewritten(const struct wal_layout *layout)
{
    return layout->kind == WAL_RECYCLED || layout->kind == WAL_PREWRITTEN;
}

uint64_t wal_slot(const struct wal_layout *layout, uint64_t lsn)
{
    return layout->slots ? (lsn - 1) % layout->slots : lsn - 1;
}

uint64_t wal_position(const struct wal_layout *layout, uint64_t slot)
{
    if (!layout->per_file)
        return slot * layout->stride;
    return slot / layout->per_file * layout->segment + slot % layout->per_file * layout->stride;
}

struct wal_spot wal_spot(const struct wal_layout *layout, uint64_t slot)
{
    if (!layout->per_file)
        return (struct wal_spot){.offset = layout->offset + slot * layout->stride};
    return (struct wal_spot){
        .file = slot / layout->per_file,
        .offset = slot % layout->per_file * layout->stride,
    };
}

uint64_t wal_contiguous(const struct wal_layout *layout, uint64_t slot)
{
    if (layout->per_file)
        return layout->per_file - slot % layout->per_file;
    return layout->slots ? layout->slots - slot : UINT64_MAX;
}

uint16_t wal_generation(const struct wal_layout *layout, uint64_t lsn)
{
    uint64_t round = layout->slots ? (lsn - 1) / layout->slots : 0;

    return (uint16_t)(round + wal_prewritten(layout));
}

bool wal_fits(const struct wal_layout *layout, uint64_t slot, uint64_t lsn)
{
    if (lsn == 0 || lsn > wal_last_lsn(layout))
        return false;
    return wal_slot(layout, lsn) == slot;
}

uint64_t wal_last_lsn(const struct wal_layout *layout)
{
    if (layout->slots && !wal_wraps(layout))
        return layout->slots;
    return WAL_LSN_MAX;
}
