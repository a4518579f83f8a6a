/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of the disk without NBD; threads come last, for ThreadSanitizer.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core_fixture.h"
#include "crc32c.h"
#include "survive.h"

/* --- parts -------------------------------------------------------------------- */

static void test_crc(void)
{
    CHECK(crc32c(0, "123456789", 9) == 0xe3069283);
    static uint8_t bytes[20000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)survive_draw(7, i);
    for (uint64_t i = 0; i < 2000; i++) {
        size_t from = survive_draw(1, i) % 64;
        size_t length = survive_draw(2, i) % (sizeof bytes - from);
        uint32_t whole = crc32c_portable(0, bytes + from, length);
        size_t half = length ? survive_draw(3, i) % length : 0;
        uint32_t parts = crc32c(0, bytes + from, half);
        CHECK(crc32c(0, bytes + from, length) == whole);
        CHECK(crc32c(parts, bytes + from + half, length - half) == whole);
    }
}

static void test_draws(void)
{
    CHECK(survive_draw(0, 0) == 0xe220a8397b1dcdaf); /* SplitMix64's published first output */
    int fates[3] = {0};
    for (uint64_t request = 0; request < 3000; request++) {
        struct byte_range write = {512 * (request % 9), 512 * (1 + request % 40)};
        struct byte_range kept = survive_random(42, request, write, 4096);
        uint64_t end = kept.offset + kept.length, write_end = write.offset + write.length;
        CHECK(kept.offset >= write.offset && end <= write_end);
        CHECK(!kept.length || kept.offset == write.offset || kept.offset % 4096 == 0);
        CHECK(!kept.length || end == write_end || end % 4096 == 0);
        fates[!kept.length ? 0 : kept.length == write.length ? 1 : 2]++;
    }
    CHECK(fates[0] > 900 && fates[1] > 900 && fates[2] > 600);
}

/* --- durability ------------------------------------------------------------------ */

static void test_honest(void)
{
    start(honest);
    CHECK(!put(one, 0, 512, 'a', false));
    CHECK(!disk_flush(two)); /* on another connection */
    CHECK(!put(one, 512, 512, 'b', false));
    CHECK(!put(one, 1024, 512, 'c', true));
    CHECK(!disk_write(two, PCLOG_ZERO, NULL, 512, 1536, true));
    CHECK(!disk_write(two, PCLOG_DISCARD, NULL, 512, 2048, false));
    CHECK(!strcmp(letters(6), "abc00B"));
    struct cut_report report = cut(PCLOG_POLICY_DROP, 0);
    CHECK(report.dropped_writes == 2 && report.dropped_bytes == 1024 && !report.survived_writes);
    CHECK(!strcmp(letters(6), "aBc0BB"));
    CHECK(put(one, 0, 512, 'x', false) == EIO && disk_flush(two) == EIO);
    finish();
}

static void write_during_flush(void)
{
    CHECK(!put(two, 512, 512, 'b', false));
}

static void test_flush_covers_what_was_complete_at_its_submission(void)
{
    start(honest);
    CHECK(!put(one, 0, 512, 'a', false));
    during_sleep = write_during_flush;
    CHECK(!disk_flush(one));
    CHECK(!during_sleep);
    cut(PCLOG_POLICY_DROP, 0);
    CHECK(!strcmp(letters(3), "aBB"));
    finish();
}

static void flush_during_fua(void)
{
    CHECK(!put(two, 512, 512, 'b', false));
    CHECK(!disk_flush(two)); /* covers b, not the write that is in flight */
    cut(PCLOG_POLICY_DROP, 0);
}

static void test_cut_ends_what_is_in_flight(void)
{
    start(honest);
    during_sleep = flush_during_fua;
    CHECK(put(one, 0, 512, 'a', true) == EIO);
    CHECK(!strcmp(letters(3), "BbB"));
    finish();
}

static void keep_during_fua(void)
{
    struct cut_report report = cut(PCLOG_POLICY_KEEP, 0);
    CHECK(report.survived_writes == 1 && !report.dropped_writes && !report.dropped_bytes);
}

static void test_in_flight_may_survive(void)
{
    start(honest);
    during_sleep = keep_during_fua;
    CHECK(put(one, 0, 512, 'a', true) == EIO);
    CHECK(!strcmp(letters(2), "aB"));
    finish();
}

static void test_older_never_overwrites_newer(void)
{
    start(honest);
    CHECK(!put(one, 0, 2048, 'a', false));
    CHECK(!put(one, 512, 512, 'b', true));
    CHECK(!strcmp(letters(5), "abaaB"));
    CHECK(!disk_flush(one));
    CHECK(!put(one, 0, 1024, 'c', false));
    CHECK(!disk_write(one, PCLOG_ZERO, NULL, 512, 0, true));
    cut(PCLOG_POLICY_KEEP, 0);
    CHECK(!strcmp(letters(5), "0caaB"));
    finish();
}

static void test_lies(void)
{
    struct disk_config liar = honest;
    liar.contract = PCLOG_VOLATILE_CACHE;
    start(liar);
    CHECK(!put(one, 0, 512, 'a', true));
    CHECK(!disk_flush(one));
    cut(PCLOG_POLICY_DROP, 0);
    CHECK(!strcmp(letters(1), "B"));
    finish();
    liar.contract = 0; /* no volatile cache: nothing to lie about */
    start(liar);
    CHECK(!put(one, 0, 512, 'a', false));
    cut(PCLOG_POLICY_DROP, 0);
    CHECK(!strcmp(letters(1), "a"));
    finish();
}

static void test_full_cache_destages_the_oldest(void)
{
    struct disk_config small = honest;
    small.cache_size = 1024;
    start(small);
    for (int i = 0; i < 5; i++)
        CHECK(!put(one, (uint64_t)i * 512, 512, (char)('a' + i), false));
    struct disk_statistics statistics;
    disk_statistics(disk, &statistics);
    CHECK(statistics.volatile_writes == 2 && statistics.volatile_bytes == 1024);
    cut(PCLOG_POLICY_DROP, 0);
    CHECK(!strcmp(letters(6), "abcBBB"));
    finish();
}

static void test_torn_inside_a_sector(void)
{
    struct disk_config raw = honest;
    raw.atomic_unit = 1;
    for (uint64_t seed = 0; seed < 200; seed++) {
        start(raw);
        char sectors[2048], expected[2048];
        memset(expected, 'B', sizeof expected);
        CHECK(!put(one, 512, 512, 'n', true)); /* newer than nothing */
        CHECK(!put(one, 0, 1024, 'a', false));
        CHECK(!put(one, 512, 1024, 'b', false));
        CHECK(!put(one, 1024, 512, 'd', true)); /* durable and newer than b */
        memset(expected + 512, 'n', 512);
        struct byte_range a = survive_random(seed, 1, (struct byte_range){0, 1024}, 1);
        struct byte_range b = survive_random(seed, 2, (struct byte_range){512, 1024}, 1);
        memset(expected + a.offset, 'a', a.length);
        memset(expected + b.offset, 'b', b.length);
        memset(expected + 1024, 'd', 512);
        struct cut_report report = cut(PCLOG_POLICY_RANDOM, seed);
        CHECK(report.dropped_bytes == 2048 - a.length - b.length);
        struct connection *reader;
        CHECK(!disk_connect(disk, "", &reader));
        CHECK(!disk_read(reader, sectors, sizeof sectors, 0));
        CHECK(!memcmp(sectors, expected, sizeof sectors));
        /* what is written now is newer than any patch */
        CHECK(!put(reader, 0, 2048, 'z', false));
        CHECK(!disk_flush(reader));
        cut(PCLOG_POLICY_DROP, 0);
        CHECK(!strcmp(letters(5), "zzzzB"));
        disk_disconnect(reader);
        finish();
    }
}

static void test_misuse(void)
{
    start(honest);
    char bytes[1024];
    CHECK(disk_read(one, bytes, 512, 1) == EINVAL);
    CHECK(disk_read(one, bytes, 512, DISK_BYTES) == EINVAL);
    CHECK(put(one, 0, 100, 'a', false) == EINVAL);
    CHECK(put(one, DISK_BYTES - 512, 1024, 'a', false) == ENOSPC);
    CHECK(put(one, UINT64_MAX - 511, 512, 'a', false) == ENOSPC);
    CHECK(!disk_flush(one) && disk_stop(disk, STOP_AT_FLUSH, 1) == EALREADY);
    CHECK(disk_stop(disk, STOP_AT_FLUSH, 0) == EINVAL);
    CHECK(!disk_snapshot(disk, path_of("snapshot")));
    CHECK(disk_snapshot(disk, path_of("snapshot")) == EEXIST);
    CHECK(disk_snapshot(disk, path_of("base")) == EEXIST);
    struct cut_report report;
    CHECK(disk_cut(disk, PCLOG_POLICY_DROP, 0, path_of("a"), &report, bytes, sizeof bytes) ==
          EEXIST);
    CHECK(!put(one, 0, 512, 'a', false)); /* that was no cut */
    CHECK(!disk_close(disk) && !disk_close(disk));
    CHECK(put(one, 0, 512, 'a', false) == EIO && disk_mark(disk, "late") == EIO);
    CHECK(disk_connect(disk, "", &(struct connection *){NULL}) == EIO);
    finish();
}

/* A log that cannot grow: nothing goes on unrecorded, and the log ends in order. */
static void test_full_host(void)
{
    struct rlimit unlimited, limited = {.rlim_cur = 1 << 20};
    CHECK(!getrlimit(RLIMIT_FSIZE, &unlimited));
    limited.rlim_max = unlimited.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    CHECK(!setrlimit(RLIMIT_FSIZE, &limited));
    start(honest);
    int taken = 0;
    while (!put(one, 0, PAGE, 'a', false))
        taken++;
    CHECK(taken > 240 && taken <= 256);
    CHECK(put(one, PAGE, 512, 'b', false) == EFBIG); /* it would fit, but it stays refused */
    CHECK(disk_flush(one) == EFBIG);
    struct disk_statistics statistics;
    disk_statistics(disk, &statistics);
    CHECK(statistics.refused == 3 && statistics.log_error == EFBIG);
    CHECK(statistics.requests == (uint64_t)taken);
    CHECK(!strcmp(letters(9), "aaaaaaaaB"));
    finish();
    CHECK(!setrlimit(RLIMIT_FSIZE, &unlimited));
    struct stat data;
    CHECK(!stat(path_of("a.data"), &data));
    CHECK(data.st_size == taken * PAGE + 512); /* and the mark */
}

/* --- threads ------------------------------------------------------------------------ */

static void *hammer(void *context)
{
    uint64_t seed = (uint64_t)(uintptr_t)context;
    for (uint64_t round = 0; round < 40; round++) {
        struct connection *connection;
        CHECK(!disk_connect(disk, "", &connection));
        for (uint64_t i = 0; i < 100; i++) {
            uint64_t draw = survive_draw(seed, round * 100 + i);
            uint64_t offset = draw % 120 * 512, count = (1 + (draw >> 8) % 8) * 512;
            static _Thread_local char bytes[PAGE];
            int error = draw >> 60 == 0   ? disk_flush(connection)
                        : draw >> 60 == 1 ? disk_write(connection, PCLOG_ZERO, NULL, count, offset,
                                                       false)
                        : draw >> 60 < 5  ? disk_read(connection, bytes, count, offset)
                                          : put(connection, offset, count, (char)draw, draw & 1);
            CHECK(!error || error == EIO);
        }
        disk_disconnect(connection);
    }
    return NULL;
}

static void test_threads(void)
{
    start(honest);
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        CHECK(!pthread_create(&threads[i], NULL, hammer, (void *)(i + 1)));
    for (uint64_t seed = 0; seed < 20; seed++) {
        unlink(path_of("snapshot"));
        CHECK(!disk_snapshot(disk, path_of("snapshot")));
        cut(seed % 2 ? PCLOG_POLICY_RANDOM : PCLOG_POLICY_PREFIX, seed);
        struct disk_statistics statistics;
        disk_statistics(disk, &statistics);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    finish();
}

int main(void)
{
    make_directory();
    test_crc();
    test_draws();
    test_honest();
    test_flush_covers_what_was_complete_at_its_submission();
    test_cut_ends_what_is_in_flight();
    test_in_flight_may_survive();
    test_slow();
    test_stops();
    test_injected();
    test_parts();
    test_older_never_overwrites_newer();
    test_lies();
    test_full_cache_destages_the_oldest();
    test_torn_inside_a_sector();
    test_misuse();
    test_full_host();
    test_threads();
    remove_directory();
    puts("ok");
    return 0;
}
