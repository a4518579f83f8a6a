/* SPDX-License-Identifier: Apache-2.0
 *
 * Where slots are, and records.
 */
#include <string.h>

#include "../wal/record.h"
#include "check.h"

static const struct wal_layout append = {.kind = WAL_APPEND, .record = 192, .stride = 192};
static const struct wal_layout ring = {
    .kind = WAL_RAW, .record = 1000, .stride = 1024, .slots = 10, .offset = 4096};
static const struct wal_layout recycled = {
    .kind = WAL_RECYCLED, .record = 128, .stride = 512, .slots = 3};
static const struct wal_layout segments = {
    .kind = WAL_SEGMENTS, .record = 960, .stride = 1024, .segment = 5000, .per_file = 4};

static void test_slots(void)
{
    CHECK_EQUAL(wal_slot(&append, 1), 0);
    CHECK_EQUAL(wal_position(&append, 1000), 192000);
    CHECK_EQUAL(wal_contiguous(&append, 5), UINT64_MAX);
    CHECK_EQUAL(wal_last_lsn(&append), WAL_LSN_MAX);
    CHECK(wal_fits(&append, 4, 5) && !wal_fits(&append, 4, 15), "append");
    CHECK(!wal_fits(&append, 0, 0), "there is no LSN 0");

    CHECK_EQUAL(wal_slot(&ring, 11), 0);
    CHECK_EQUAL(wal_slot(&ring, 20), 9);
    CHECK_EQUAL(wal_contiguous(&ring, 7), 3);
    CHECK_EQUAL(wal_spot(&ring, 2).offset, 4096 + 2048);
    CHECK_EQUAL(wal_position(&ring, 2), 2048);
    CHECK_EQUAL(wal_generation(&ring, 10), 0);
    CHECK_EQUAL(wal_generation(&ring, 11), 1);
    CHECK(wal_fits(&ring, 3, 4) && wal_fits(&ring, 3, 24) && !wal_fits(&ring, 3, 25), "ring");
    CHECK(!wal_fits(&ring, 9, 0), "there is no LSN 0");

    CHECK_EQUAL(wal_generation(&recycled, 3), 1);
    CHECK_EQUAL(wal_generation(&recycled, 4), 2);
    CHECK_EQUAL(wal_generation(&recycled, 3 * 65535 + 1), 0); /* modulo 2^16 */

    CHECK_EQUAL(wal_spot(&segments, 9).file, 2);
    CHECK_EQUAL(wal_spot(&segments, 9).offset, 1024);
    CHECK_EQUAL(wal_position(&segments, 9), 11024);
    CHECK_EQUAL(wal_contiguous(&segments, 9), 3);
}

static void test_mix(void)
{
    uint64_t state = 7;

    CHECK_EQUAL(wal_mix(0), 0);
    CHECK_EQUAL(wal_mix(1), 0x5692161d100b05e5ull); /* splitmix64's finaliser */
    for (int i = 0; i < 100000; i++) {
        uint64_t x = check_random(&state);

        CHECK_EQUAL(wal_unmix(wal_mix(x)), x);
        CHECK_EQUAL(wal_mix(wal_unmix(x)), x);
    }
}

static void test_record(void)
{
    uint8_t id[16] = {1, 2, 3}, out[1000];
    struct wal_run run = wal_run(id), before = wal_prewrite_run(id);
    struct wal_header header;
    uint64_t word;

    wal_record_build(out, &ring, &run, (struct wal_identity){24, 20, 5});
    CHECK(wal_header_load(&header, out), "header");
    CHECK_EQUAL(header.lsn, 24);
    CHECK_EQUAL(header.prev_lsn, 20);
    CHECK_EQUAL(header.stream, 5);
    CHECK_EQUAL(header.generation, 2);
    CHECK_EQUAL(header.position, 3 * 1024);
    CHECK_EQUAL(header.length, 936);
    memcpy(&word, out + 64 + 8 * 100, 8);
    CHECK_EQUAL(wal_unmix(word) ^ wal_key(id), (uint64_t)5 << 57 | (uint64_t)24 << 17 | 100);

    wal_record_prewritten(out, &recycled, &before, 2);
    CHECK(wal_header_load(&header, out), "header");
    CHECK_EQUAL(header.lsn, 3);
    CHECK_EQUAL(header.generation, 0);
    CHECK_EQUAL(header.run_id[15], 0x5a);
    for (unsigned bit = 0; bit < 512; bit++) {
        out[bit / 8] ^= 1u << bit % 8;
        CHECK(!wal_header_load(&header, out), "a header with bit %u inverted passes", bit);
        out[bit / 8] ^= 1u << bit % 8;
    }
}

int main(void)
{
    test_slots();
    test_mix();
    test_record();
    return check_status("layout");
}
