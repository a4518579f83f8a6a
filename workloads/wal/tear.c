/* SPDX-License-Identifier: Apache-2.0
 *
 * Chunks of two authors: where a tear went through them.
 */
#include <string.h>

#include "slot.h"

#define EDGE_BYTES_MIN 8u /* a word, which names its author */
#define CANDIDATES_MAX 24u

static bool attributable(const struct wal_chunk *chunk)
{
    return chunk->author != WAL_NOBODY && chunk->author != WAL_ELSEWHERE;
}

/* Authors that may have written one side of a chunk. */
struct candidates {
    struct wal_chunk list[CANDIDATES_MAX];
    unsigned count;
    unsigned bytes_min;
};

static void add_candidate(struct candidates *candidates, struct wal_chunk chunk)
{
    if (!attributable(&chunk))
        return;
    for (unsigned i = 0; i < candidates->count; i++) {
        if (wal_same_author(&candidates->list[i], &chunk))
            return;
    }
    if (candidates->count < CANDIDATES_MAX)
        candidates->list[candidates->count++] = chunk;
}

/* The author that a single word names, if it is in its place. */
static void add_word(struct candidates *candidates, const struct slot *s, uint32_t chunk,
                     unsigned word_in_chunk)
{
    uint64_t index = (chunk - 1) * (uint64_t)(WAL_CHUNK / 8) + word_in_chunk;
    uint64_t word;

    memcpy(&word, s->data + (size_t)chunk * WAL_CHUNK + 8 * (size_t)word_in_chunk, 8);
    for (unsigned run = 0; run < s->c->run_count; run++) {
        uint64_t place = wal_unmix(word) ^ s->c->runs[run].key;
        struct wal_chunk author = {
            .author = run ? WAL_OLDER : WAL_HERE,
            .run = run,
            .stream = (uint32_t)(place >> (WAL_LSN_BITS + WAL_INDEX_BITS)),
            .lsn = place >> WAL_INDEX_BITS & WAL_LSN_MAX,
        };

        if ((place & ((1u << WAL_INDEX_BITS) - 1)) != index)
            continue;
        if (run > 1 || wal_fits(&s->c->layout, s->number, author.lsn))
            add_candidate(candidates, author);
    }
}

/* The authors that the fields of a broken header hint at. */
static void add_headers(struct candidates *candidates, const struct slot *s)
{
    const struct wal_layout *layout = &s->c->layout;
    struct wal_header found;
    struct wal_chunk author = {.author = WAL_HERE};

    memcpy(&found, s->data, sizeof(found));
    author.stream = found.stream % WAL_STREAMS_MAX;
    author.lsn = found.lsn;
    if (wal_fits(layout, s->number, author.lsn) &&
        wal_generation(layout, author.lsn) == found.generation)
        add_candidate(candidates, author);
    author.lsn = s->number + 1;
    if (layout->slots) /* the LSN may be on the other side; the generation implies it */
        author.lsn += (uint16_t)(found.generation - wal_prewritten(layout)) * layout->slots;
    if (wal_fits(layout, s->number, author.lsn))
        add_candidate(candidates, author);
    if (wal_prewritten(layout))
        add_candidate(candidates, (struct wal_chunk){
            .author = WAL_OLDER, .run = 1, .lsn = s->number + 1});
}

/* Who may have written the first part (side -1) or the rest (side 1) of `chunk`: within a
 * sector only its neighbour's author, at a sector's edge anybody who left a trace. */
static struct candidates side_candidates(const struct slot *s, uint32_t chunk, int side)
{
    struct candidates candidates = {.bytes_min = 1};
    bool first = side < 0 && chunk == 0, last = side > 0 && chunk + 1 == s->chunks;
    uint32_t neighbour = chunk + (uint32_t)side;

    if (!first && !last && wal_sector_of(s, neighbour) == wal_sector_of(s, chunk)) {
        const struct wal_chunk *other = &s->c->chunks[neighbour];

        add_candidate(&candidates, side < 0 ? wal_chunk_tail(other) : wal_chunk_head(other));
        return candidates;
    }
    candidates.bytes_min = EDGE_BYTES_MIN;
    add_candidate(&candidates, (struct wal_chunk){.author = WAL_ZERO});
    if (!first && !last)
        add_candidate(&candidates, s->c->chunks[neighbour]);
    for (uint32_t i = 0; i < s->chunks && candidates.count < CANDIDATES_MAX / 2; i++)
        add_candidate(&candidates, s->c->chunks[i]);
    if (chunk > 0)
        add_word(&candidates, s, chunk, side < 0 ? 0 : WAL_CHUNK / 8 - 1);
    else
        add_headers(&candidates, s);
    return candidates;
}

/* True if some byte of [from, to) is as `a` must have written it, but `b` not. */
static bool speaks_for(const struct wal_expected *a, const struct wal_expected *b,
                       const uint8_t *data, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        bool could_be_b = b->known >> i & 1 && b->bytes[i] == data[i];

        if (a->known >> i & 1 && a->bytes[i] == data[i] && !could_be_b)
            return true;
    }
    return false;
}

bool wal_find_cut(const struct slot *s, uint32_t index)
{
    const uint8_t *data = s->data + (size_t)index * WAL_CHUNK;
    struct candidates heads = side_candidates(s, index, -1), tails = side_candidates(s, index, 1);
    struct wal_expected head, tail;

    for (unsigned h = 0; h < heads.count; h++) {
        if (!wal_chunk_expect(s->c, s->number, index, &heads.list[h], &head))
            continue;
        unsigned reach = wal_first_wrong(&head, data, 0);

        for (unsigned t = 0; t < tails.count; t++) {
            bool both_here = heads.list[h].author == WAL_HERE && tails.list[t].author == WAL_HERE;

            /* Headers of one run differ in little: damage would pass for a tear. */
            if (wal_same_author(&heads.list[h], &tails.list[t]) || (index == 0 && both_here) ||
                !wal_chunk_expect(s->c, s->number, index, &tails.list[t], &tail))
                continue;
            for (unsigned cut = heads.bytes_min; cut <= reach && cut + tails.bytes_min <= WAL_CHUNK;
                 cut++) {
                if (wal_first_wrong(&tail, data, cut) != WAL_CHUNK ||
                    !speaks_for(&head, &tail, data, 0, cut) ||
                    !speaks_for(&tail, &head, data, cut, WAL_CHUNK))
                    continue;
                s->c->chunks[index] = heads.list[h];
                s->c->chunks[index].cut = (uint8_t)cut;
                s->c->chunks[index].after = tails.list[t].author;
                s->c->chunks[index].after_run = tails.list[t].run;
                s->c->chunks[index].after_stream = tails.list[t].stream;
                s->c->chunks[index].after_lsn = tails.list[t].lsn;
                return true;
            }
        }
    }
    return false;
}
