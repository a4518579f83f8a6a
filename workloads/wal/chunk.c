/* SPDX-License-Identifier: Apache-2.0 */
#include "chunk.h"

#include <stddef.h>
#include <string.h>

#include "../common/crc32c.h"

#define WORDS (WAL_CHUNK / 8)
#define ALL_KNOWN UINT64_MAX

static bool is_zero(const uint8_t *data)
{
    static const uint8_t zero[WAL_CHUNK];

    return memcmp(data, zero, WAL_CHUNK) == 0;
}

bool wal_same_author(const struct wal_chunk *a, const struct wal_chunk *b)
{
    return a->author == b->author &&
           (a->author == WAL_ZERO ||
            (a->run == b->run && a->stream == b->stream && a->lsn == b->lsn));
}

struct wal_chunk wal_chunk_head(const struct wal_chunk *chunk)
{
    struct wal_chunk head = *chunk;

    head.cut = 0;
    return head;
}

struct wal_chunk wal_chunk_tail(const struct wal_chunk *chunk)
{
    if (!chunk->cut)
        return *chunk;
    return (struct wal_chunk){
        .author = chunk->after,
        .run = chunk->after_run,
        .stream = chunk->after_stream,
        .lsn = chunk->after_lsn,
    };
}

static unsigned find_run(struct wal_classifier *c, const uint8_t id[16])
{
    unsigned run = 0;

    while (run < c->run_count && memcmp(c->runs[run].id, id, 16) != 0)
        run++;
    if (run == c->run_count && run < WAL_RUNS_MAX)
        c->runs[c->run_count++] = wal_run(id);
    return run;
}

/* A valid header: of this run in its place, of this run elsewhere, or of another run. */
static struct wal_chunk attribute_header(struct wal_classifier *c, uint64_t slot, uint32_t index,
                                         const struct wal_header *header)
{
    const struct wal_layout *layout = &c->layout;
    struct wal_chunk chunk = {
        .author = WAL_OLDER,
        .run = find_run(c, header->run_id),
        .stream = header->stream,
        .lsn = header->lsn,
        .generation = header->generation,
    };

    if (chunk.run != 0)
        return chunk;
    if (index != 0 || header->position != wal_position(layout, slot) ||
        !wal_fits(layout, slot, header->lsn)) {
        chunk.author = WAL_ELSEWHERE;
        return chunk;
    }
    chunk.author = WAL_HERE;
    /* A good checksum over what this run cannot have written. */
    if (header->generation != wal_generation(layout, header->lsn))
        chunk.wrong = offsetof(struct wal_header, generation);
    else if (header->stream >= WAL_STREAMS_MAX)
        chunk.wrong = offsetof(struct wal_header, stream);
    else if (header->length != layout->record - WAL_CHUNK)
        chunk.wrong = offsetof(struct wal_header, length);
    if (chunk.wrong)
        chunk.author = WAL_NOBODY;
    return chunk;
}

/* Eight words that follow one another in one record of `run`. */
static bool decode_words(const struct wal_run *run, const uint8_t *data, uint64_t *place)
{
    uint64_t word;

    memcpy(&word, data, 8);
    *place = wal_unmix(word) ^ run->key;
    for (unsigned i = 1; i < WORDS; i++) {
        memcpy(&word, data + 8 * (size_t)i, 8);
        if (word != wal_mix(run->key ^ (*place + i)))
            return false;
    }
    return true;
}

/* True if the chunk is payload of `run`: in its place, or if `strayed` from any other. */
static bool attribute_words(const struct wal_classifier *c, uint64_t slot, uint32_t index,
                            const uint8_t *data, unsigned run, bool strayed,
                            struct wal_chunk *chunk)
{
    uint64_t place;

    if (!decode_words(&c->runs[run], data, &place))
        return false;
    uint64_t lsn = place >> WAL_INDEX_BITS & WAL_LSN_MAX;
    uint64_t word_index = place & ((1u << WAL_INDEX_BITS) - 1);
    bool in_place = index > 0 && word_index == (index - 1) * (uint64_t)WORDS &&
                    (run != 0 || wal_fits(&c->layout, slot, lsn));

    if (in_place == strayed)
        return false;
    /* What this run wrote begins at a chunk of a record; an older run's may be longer. */
    if (run == 0 && (word_index % WORDS || word_index >= (c->layout.record - WAL_CHUNK) / 8))
        return false;
    *chunk = (struct wal_chunk){
        .author = run != 0 ? WAL_OLDER : in_place ? WAL_HERE : WAL_ELSEWHERE,
        .run = run,
        .stream = (uint32_t)(place >> (WAL_LSN_BITS + WAL_INDEX_BITS)),
        .lsn = lsn,
    };
    return true;
}

struct wal_chunk wal_chunk_attribute(struct wal_classifier *c, uint64_t slot, uint32_t index,
                                     const uint8_t *data)
{
    struct wal_chunk chunk = {.author = WAL_NOBODY};
    struct wal_header header;

    if (is_zero(data)) {
        chunk.author = WAL_ZERO;
        return chunk;
    }
    if (wal_header_load(&header, data))
        return attribute_header(c, slot, index, &header);
    /* A chunk in its place settles who wrote it.  Only then is one looked for that strayed:
     * if the keys of two runs agree in their low three bits, as one pair in eight does, the
     * words of either follow one another under the key of the other, too. */
    for (int strayed = 0; strayed <= 1; strayed++) {
        for (unsigned run = 0; run < c->run_count; run++) {
            if (attribute_words(c, slot, index, data, run, strayed, &chunk))
                return chunk;
        }
    }
    return chunk;
}

uint32_t wal_payload_crc(const struct wal_layout *layout, uint64_t key, uint32_t stream,
                         uint64_t lsn)
{
    uint64_t words[WORDS];
    uint32_t crc = 0;

    for (uint64_t i = 0; i < (layout->record - WAL_CHUNK) / 8; i += WORDS) {
        for (unsigned k = 0; k < WORDS; k++)
            words[k] = wal_word(key, stream, lsn, i + k);
        crc = pc_crc32c(crc, words, sizeof(words));
    }
    return crc;
}

static uint64_t known_field(size_t offset, size_t bytes)
{
    return (((uint64_t)1 << bytes) - 1) << offset;
}

/* The previous LSN of the stream is not known, nor are the checksums that cover it. */
static bool expect_header(const struct wal_classifier *c, uint64_t slot,
                          const struct wal_chunk *author, struct wal_expected *expected)
{
    const struct wal_layout *layout = &c->layout;
    struct wal_header header = {
        .magic = WAL_MAGIC,
        .version = WAL_VERSION,
        .stream = author->stream,
        .length = layout->record - WAL_CHUNK,
        .lsn = author->lsn,
        .position = wal_position(layout, slot),
    };
    uint64_t unknown = known_field(offsetof(struct wal_header, prev_lsn), 8) |
                       known_field(offsetof(struct wal_header, header_crc), 4);

    memcpy(header.run_id, c->runs[author->run].id, sizeof(header.run_id));
    if (author->run == 1) {
        header.prev_lsn = author->lsn - 1;
        unknown = 0;
    } else {
        header.generation = wal_generation(layout, author->lsn);
    }
    if (author->run > 1) /* another run may have had another layout */
        unknown |= known_field(offsetof(struct wal_header, generation), 2) |
                   known_field(offsetof(struct wal_header, length), 4) |
                   known_field(offsetof(struct wal_header, position), 8) |
                   known_field(offsetof(struct wal_header, payload_crc), 4);
    else
        header.payload_crc =
            wal_payload_crc(layout, c->runs[author->run].key, author->stream, author->lsn);
    header.header_crc = pc_crc32c(0, &header, offsetof(struct wal_header, header_crc));
    memcpy(expected->bytes, &header, sizeof(header));
    expected->known = ~unknown;
    return true;
}

bool wal_chunk_expect(const struct wal_classifier *c, uint64_t slot, uint32_t index,
                      const struct wal_chunk *author, struct wal_expected *expected)
{
    *expected = (struct wal_expected){.known = ALL_KNOWN};
    if (author->author == WAL_ZERO)
        return true;
    if (author->author != WAL_HERE && author->author != WAL_OLDER)
        return false;
    if (author->run >= c->run_count)
        return false;
    if (index == 0)
        return expect_header(c, slot, author, expected);
    for (unsigned i = 0; i < WORDS; i++) {
        uint64_t word = wal_word(c->runs[author->run].key, author->stream, author->lsn,
                                 (index - 1) * (uint64_t)WORDS + i);

        memcpy(expected->bytes + 8 * (size_t)i, &word, 8);
    }
    return true;
}

unsigned wal_first_wrong(const struct wal_expected *expected, const uint8_t *data, unsigned from)
{
    unsigned i = from;

    while (i < WAL_CHUNK && (!(expected->known >> i & 1) || data[i] == expected->bytes[i]))
        i++;
    return i;
}

bool wal_header_repair(struct wal_header *header, const uint8_t *data, unsigned *wrong)
{
    uint8_t copy[WAL_CHUNK];

    memcpy(copy, data, sizeof(copy));
    for (unsigned bit = 0; bit < 8 * WAL_CHUNK; bit++) {
        copy[bit / 8] ^= 1u << bit % 8;
        if (wal_header_load(header, copy)) {
            *wrong = bit / 8;
            return true;
        }
        copy[bit / 8] ^= 1u << bit % 8;
    }
    return false;
}
