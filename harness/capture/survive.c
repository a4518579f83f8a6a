/* SPDX-License-Identifier: Apache-2.0 */
#include "survive.h"

uint64_t survive_draw(uint64_t seed, uint64_t index)
{
    uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

struct byte_range survive_random(uint64_t seed, uint64_t request, struct byte_range write,
                                 uint32_t atomic_unit)
{
    struct byte_range nothing = {write.offset, 0};
    uint64_t fate = survive_draw(seed, 3 * request) % 3;
    if (fate == 0)
        return nothing;
    if (fate == 1)
        return write;
    uint64_t first = write.offset / atomic_unit;
    uint64_t end = write.offset + write.length;
    uint64_t units = (end - 1) / atomic_unit - first + 1;
    uint64_t where = survive_draw(seed, 3 * request + 1);
    if (units == 1)
        return where % 2 ? nothing : write;
    uint64_t skipped = where % units;
    uint64_t kept = 1 + survive_draw(seed, 3 * request + 2) % (units - skipped);
    uint64_t from = (first + skipped) * atomic_unit;
    uint64_t to = from + kept * atomic_unit;
    if (from < write.offset)
        from = write.offset;
    if (to > end)
        to = end;
    return (struct byte_range){from, to - from};
}

uint64_t survive_prefix(uint64_t seed, uint64_t writes)
{
    return survive_draw(seed, 0) % (writes + 1);
}
