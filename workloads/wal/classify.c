/* SPDX-License-Identifier: Apache-2.0 */
#include "classify.h"

#include <stdlib.h>
#include <string.h>

#include "../common/crc32c.h"
#include "slot.h"

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
        if (s->c->chunks[i].author != WAL_NOBODY || (i == 0 && repaired) || !wal_find_cut(s, i))
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

        for (end = first; end < s->chunks && wal_sector_of(s, end) == wal_sector_of(s, first);
             end++) {
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
