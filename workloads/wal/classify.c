/* SPDX-License-Identifier: Apache-2.0 */
#include "classify.h"

#include <stdlib.h>
#include <string.h>

#include "../common/crc32c.h"
#include "chunk.h"

#define EDGE_BYTES_MIN 8u /* a word, which names its author */
#define CANDIDATES_MAX 24u

/* The slot at hand. */
struct slot {
    struct wal_classifier *c;
    uint64_t number;
    const uint8_t *data;
    uint32_t chunks;
    uint32_t phase;           /* chunks between the start of its first sector and the slot */
    struct wal_chunk newest;  /* author and LSN of the newest record of this run; or zero */
    struct wal_chunk repaired;/* what the header says, but for one bit; or nobody */
};

bool wal_classifier_open(struct wal_classifier *c, const struct wal_layout *layout,
                         const uint8_t run_id[16])
{
    *c = (struct wal_classifier){.layout = *layout, .run_count = 2};
    c->runs[0] = wal_run(run_id);
    c->runs[1] = wal_prewrite_run(run_id);
    c->chunks = calloc(layout->record / WAL_CHUNK, sizeof(*c->chunks));
    return c->chunks != NULL;
}

void wal_classifier_close(struct wal_classifier *c)
{
    free(c->chunks);
}

void wal_classifier_learn(struct wal_classifier *c, const uint8_t *data, size_t length)
{
    struct wal_header header;

    for (size_t at = 0; at + WAL_CHUNK <= length; at += WAL_CHUNK) {
        unsigned run = 0;

        if (!wal_header_load(&header, data + at))
            continue;
        while (run < c->run_count && memcmp(c->runs[run].id, header.run_id, 16) != 0)
            run++;
        if (run == c->run_count && run < WAL_RUNS_MAX)
            c->runs[c->run_count++] = wal_run(header.run_id);
    }
}

/* The usual case, without attributing anything. */
static bool is_intact(const struct slot *s, uint64_t *lsn)
{
    const struct wal_layout *layout = &s->c->layout;
    const struct wal_run *run = &s->c->runs[0];
    struct wal_header h;

    if (!wal_header_load(&h, s->data) || memcmp(h.run_id, run->id, 16) != 0 ||
        !wal_fits(layout, s->number, h.lsn) || h.position != wal_position(layout, s->number) ||
        h.generation != wal_generation(layout, h.lsn) || h.stream >= WAL_STREAMS_MAX ||
        h.length != layout->record - WAL_CHUNK ||
        h.payload_crc != pc_crc32c(0, s->data + WAL_CHUNK, h.length))
        return false;
    for (uint32_t i = 0; i < h.length / 8; i++) {
        uint64_t word;

        memcpy(&word, s->data + WAL_CHUNK + 8 * (size_t)i, 8);
        if (word != wal_word(run->key, h.stream, h.lsn, i))
            return false;
    }
    *lsn = h.lsn;
    return true;
}

static uint32_t sector_of(const struct slot *s, uint32_t chunk)
{
    return (s->phase + chunk) / (WAL_SECTOR / WAL_CHUNK);
}

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

    if (!first && !last && sector_of(s, neighbour) == sector_of(s, chunk)) {
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

/* Finds two authors of which one wrote the first part of the chunk and the other the rest. */
static bool find_cut(const struct slot *s, uint32_t index)
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

static void note_newest(struct slot *s, const struct wal_chunk *chunk)
{
    if (chunk->author == WAL_HERE && chunk->lsn > s->newest.lsn)
        s->newest = wal_chunk_head(chunk);
}

static void repair_header(struct slot *s)
{
    struct wal_header header;
    unsigned wrong;

    s->repaired = (struct wal_chunk){.author = WAL_NOBODY};
    if (s->c->chunks[0].author != WAL_NOBODY || s->c->chunks[0].wrong ||
        !wal_header_repair(&header, s->data, &wrong))
        return;
    s->c->chunks[0].wrong = (uint8_t)wrong;
    s->repaired.stream = header.stream;
    if (memcmp(header.run_id, s->c->runs[0].id, 16) == 0 &&
        wal_fits(&s->c->layout, s->number, header.lsn)) {
        s->repaired.author = WAL_HERE;
        s->repaired.lsn = header.lsn;
    }
}

/* Attributes every chunk; chunks of two authors once those around them are known. */
static void attribute(struct slot *s)
{
    bool repaired = false;

    for (uint32_t i = 0; i < s->chunks; i++) {
        s->c->chunks[i] = wal_chunk_attribute(s->c, s->number, i, s->data + (size_t)i * WAL_CHUNK);
        note_newest(s, &s->c->chunks[i]);
    }
    repair_header(s);
    repaired = s->repaired.author == WAL_HERE || s->c->chunks[0].wrong;
    for (uint32_t i = 0; i < s->chunks; i++) {
        if (s->c->chunks[i].author != WAL_NOBODY || (i == 0 && repaired) || !find_cut(s, i))
            continue;
        struct wal_chunk tail = wal_chunk_tail(&s->c->chunks[i]);

        note_newest(s, &s->c->chunks[i]);
        note_newest(s, &tail);
    }
    note_newest(s, &s->repaired);
}

/* The first byte of `chunk` that is not as the newest record has it. */
static uint32_t wrong_byte(const struct slot *s, uint32_t index)
{
    const uint8_t *data = s->data + (size_t)index * WAL_CHUNK;
    struct wal_chunk author = s->newest;
    struct wal_expected expected;
    unsigned wrong = s->c->chunks[index].wrong;

    if (wrong)
        return index * WAL_CHUNK + wrong;
    if (author.author != WAL_HERE) /* whatever it is, it is not what is due here first */
        author = (struct wal_chunk){.author = WAL_HERE, .lsn = s->number + 1};
    if (wal_chunk_expect(s->c, s->number, index, &author, &expected))
        wrong = wal_first_wrong(&expected, data, 0);
    if (wrong == WAL_CHUNK)
        wrong = offsetof(struct wal_header, header_crc); /* all else is as it has to be */
    return index * WAL_CHUNK + wrong;
}

/* True if the sector that begins with `first` shows more than two authors. */
static bool patchwork(const struct slot *s, uint32_t first, uint32_t end)
{
    unsigned changes = 0;

    for (uint32_t i = first; i < end; i++) {
        const struct wal_chunk *chunk = &s->c->chunks[i];
        struct wal_chunk head = wal_chunk_head(chunk);

        if (i > first) {
            struct wal_chunk before = wal_chunk_tail(&s->c->chunks[i - 1]);

            changes += !wal_same_author(&before, &head);
        }
        changes += chunk->cut != 0;
    }
    return changes > 1;
}

static bool is_newest(const struct slot *s, const struct wal_chunk *chunk)
{
    return !chunk->cut && wal_same_author(chunk, &s->newest);
}

struct summary {
    uint32_t right;     /* sectors that are the newest record's, whole */
    uint32_t sectors;
    uint32_t corrupt;   /* first byte nobody wrote; UINT32_MAX: none */
    const struct wal_chunk *elsewhere, *older;
};

static struct summary summarize(const struct slot *s)
{
    struct summary summary = {.corrupt = UINT32_MAX};

    for (uint32_t first = 0, end; first < s->chunks; first = end) {
        bool right = true;
        uint32_t not_newest = UINT32_MAX;

        for (end = first; end < s->chunks && sector_of(s, end) == sector_of(s, first); end++) {
            const struct wal_chunk *chunk = &s->c->chunks[end];

            if (!is_newest(s, chunk)) {
                right = false;
                not_newest = not_newest == UINT32_MAX ? end : not_newest;
            }
            if (chunk->author == WAL_NOBODY && summary.corrupt == UINT32_MAX)
                summary.corrupt = wrong_byte(s, end);
            if (chunk->author == WAL_ELSEWHERE && !summary.elsewhere)
                summary.elsewhere = chunk;
            if (chunk->author == WAL_OLDER && !summary.older)
                summary.older = chunk;
        }
        summary.sectors++;
        summary.right += right;
        if (summary.corrupt == UINT32_MAX && patchwork(s, first, end))
            summary.corrupt = wrong_byte(s, not_newest);
    }
    return summary;
}

static struct pc_extent conclude(const struct slot *s, const struct summary *summary)
{
    struct pc_extent extent = {.slot = s->number, .count = 1};

    if (summary->corrupt != UINT32_MAX) {
        extent.state = PC_SLOT_CORRUPT;
        extent.lsn = s->newest.lsn;
        extent.detail = summary->corrupt;
    } else if (summary->elsewhere) {
        extent.state = PC_SLOT_MISDIRECTED;
        extent.lsn = summary->elsewhere->lsn;
    } else if (s->newest.author == WAL_HERE && summary->right == summary->sectors) {
        /* Every chunk is right and the header's checksum too, yet it is not intact: the
         * header's own account of the payload is wrong. */
        extent.state = PC_SLOT_CORRUPT;
        extent.lsn = s->newest.lsn;
        extent.detail = offsetof(struct wal_header, payload_crc);
    } else if (s->newest.author == WAL_HERE) {
        extent.state = PC_SLOT_TORN;
        extent.lsn = s->newest.lsn;
        extent.detail = summary->right;
    } else if (summary->older) {
        extent.state = PC_SLOT_STALE;
        extent.lsn = summary->older->lsn;
        extent.detail = summary->older->generation;
    } else {
        extent.state = PC_SLOT_ABSENT;
    }
    return extent;
}

struct pc_extent wal_classify(struct wal_classifier *c, uint64_t number, const uint8_t *data)
{
    struct slot s = {
        .c = c,
        .number = number,
        .data = data,
        .chunks = c->layout.record / WAL_CHUNK,
        .phase = (uint32_t)(wal_position(&c->layout, number) % WAL_SECTOR / WAL_CHUNK),
    };
    uint64_t lsn;

    if (is_intact(&s, &lsn))
        return (struct pc_extent){number, 1, lsn, PC_SLOT_INTACT, 0};
    attribute(&s);
    struct summary summary = summarize(&s);

    return conclude(&s, &summary);
}
