/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of several disks on one medium: each has its own flushes, and all lose their power at once.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include "core_fixture.h"
#include "injected.h"

static const struct disk_part both[] = {
    {"data", 0, 32 << 10, true, true, false},
    {"log", 32 << 10, 16 << 10, true, true, false},
};
static const struct disk_part one_lies[] = {
    {"data", 0, 32 << 10, true, true, false},
    {"log", 32 << 10, 16 << 10, false, false, false},
};

static struct disk_config disk_of(const struct disk_part *parts)
{
    struct disk_config config = honest;
    config.parts = parts;
    config.parts_count = 2;
    return config;
}

static void test_each_has_its_place(void)
{
    start(disk_of(both));
    CHECK(connection_size(one) == 32 << 10 && connection_size(two) == 16 << 10);
    CHECK(!put(one, 0, 512, 'a', false) && !put(two, 0, 512, 'b', false));
    CHECK(!strcmp(letters_of("data", 2), "aB"));
    CHECK(!strcmp(letters_of("log", 2), "bB"));
    CHECK(!put(two, (16 << 10) - 512, 512, 'z', false));
    CHECK(put(two, 16 << 10, 512, 'z', false) == ENOSPC);
    CHECK(put(two, (16 << 10) - 512, 1024, 'z', false) == ENOSPC);
    char sector[512];
    CHECK(disk_read(two, sector, 512, 16 << 10) == EINVAL);
    CHECK(disk_connect(disk, "", &(struct connection *){NULL}) == ENOENT);
    CHECK(disk_connect(disk, "other", &(struct connection *){NULL}) == ENOENT);
    finish();
}

static void test_a_flush_covers_its_own_disk(void)
{
    start(disk_of(both));
    CHECK(!put(one, 0, 512, 'a', false) && !put(two, 0, 512, 'b', false));
    CHECK(!put(one, 512, 512, 'c', false) && !put(two, 512, 512, 'd', false));
    CHECK(!disk_flush(two));
    struct disk_statistics now;
    disk_statistics(disk, &now);
    CHECK(now.volatile_writes == 2 && now.volatile_bytes == 1024);
    CHECK(!put(two, 1024, 512, 'e', true)); /* FUA */
    struct cut_report report = cut(PCLOG_POLICY_DROP, 0);
    CHECK(report.dropped_writes == 2 && report.dropped_bytes == 1024);
    CHECK(!strcmp(letters_of("data", 2), "BB"));
    CHECK(!strcmp(letters_of("log", 4), "bdeB"));
    finish();
}

static void test_what_one_flush_leaves_another_takes(void)
{
    start(disk_of(both));
    for (int i = 0; i < 3; i++)
        CHECK(!put(one, 512u * i, 512, 'a', false) && !put(two, 512u * i, 512, 'b', false));
    CHECK(!disk_flush(two) && !disk_flush(two) && !disk_flush(one));
    struct disk_statistics now;
    disk_statistics(disk, &now);
    CHECK(!now.volatile_writes && !now.volatile_bytes);
    CHECK(!put(one, 0, 512, 'x', false)); /* the ring goes on after both */
    struct cut_report report = cut(PCLOG_POLICY_KEEP, 0);
    CHECK(report.survived_writes == 1 && !report.dropped_writes);
    CHECK(!strcmp(letters_of("data", 4), "xaaB"));
    CHECK(!strcmp(letters_of("log", 4), "bbbB"));
    finish();
}

static void flush_other(void)
{
    CHECK(!put(two, 512, 512, 'd', false));
    CHECK(!disk_flush(two));
    CHECK(!put(one, 512, 512, 'c', false)); /* too late for the flush that is under way */
}

static void test_flushes_of_both_at_once(void)
{
    start(disk_of(both));
    CHECK(!put(one, 0, 512, 'a', false) && !put(two, 0, 512, 'b', false));
    during_sleep = flush_other;
    CHECK(!disk_flush(one));
    CHECK(!during_sleep);
    struct cut_report report = cut(PCLOG_POLICY_DROP, 0);
    CHECK(report.dropped_writes == 1);
    CHECK(!strcmp(letters_of("data", 3), "aBB"));
    CHECK(!strcmp(letters_of("log", 3), "bdB"));
    finish();
}

static void test_one_lies(void)
{
    start(disk_of(one_lies));
    CHECK(!put(one, 0, 512, 'a', false) && !put(two, 0, 512, 'b', false));
    CHECK(!disk_flush(one) && !disk_flush(two) && !put(two, 512, 512, 'c', true));
    cut(PCLOG_POLICY_DROP, 0);
    CHECK(!strcmp(letters_of("data", 2), "aB"));
    CHECK(!strcmp(letters_of("log", 2), "BB"));
    finish();
}

static void test_one_cache(void)
{
    struct disk_config config = disk_of(both);
    config.cache_size = 1024;
    start(config);
    CHECK(!put(one, 0, 512, 'a', false) && !put(two, 0, 512, 'b', false));
    CHECK(!disk_flush(one) && !put(two, 512, 512, 'c', false));
    CHECK(!put(one, 512, 512, 'd', false)); /* the oldest that waits is b */
    cut(PCLOG_POLICY_DROP, 0);
    CHECK(!strcmp(letters_of("data", 2), "aB"));
    CHECK(!strcmp(letters_of("log", 2), "bB"));
    finish();
}

static void test_errors_of_one_alone(void)
{
    static struct injections injections;
    CHECK(injection_parse("flush:nth:1:EIO:0:lost:64:32", &injections) &&
          injection_parse("write:nth:1:EIO:0:lost:64:32", &injections));
    struct disk_config config = disk_of(both);
    config.injections = &injections;
    start(config);
    CHECK(!disk_inject(disk));
    CHECK(!put(one, 0, 512, 'a', false) && !disk_flush(one));
    CHECK(put(two, 0, 512, 'b', false) == EIO && disk_flush(two) == EIO);
    CHECK(!disk_flush(one));
    cut(PCLOG_POLICY_DROP, 0);
    CHECK(!strcmp(letters_of("data", 2), "aB") && !strcmp(letters_of("log", 2), "BB"));
    finish();
}

/* `data` loses its power: what it had not flushed is there or not, and `log` keeps all of its own. */
static void test_one_loses_its_power(void)
{
    static const char *const legal[] = {"aaB", "aab", "cab", "caB", "abb", "abB", "cbb", "cbB"};
    size_t i, seen = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        start(disk_of(both));
        CHECK(!put(one, 0, 1024, 'a', false) && !disk_flush(one));
        CHECK(!put(one, 512, 1024, 'b', false) && !put(one, 0, 512, 'c', false));
        CHECK(!put(two, 0, 512, 'd', false));
        CHECK(disk_lose(disk, "other", seed) == ENOENT && !disk_lose(disk, "data", seed));
        char sector[512];
        CHECK(disk_read(one, sector, 512, 0) == EIO && put(one, 0, 512, 'x', false) == EIO);
        CHECK(disk_flush(one) == EIO && !put(two, 512, 512, 'e', false));
        CHECK(!disk_regain(disk, "data"));
        char at_once[4];
        strcpy(at_once, letters_of("data", 3));
        for (i = 0; i < sizeof legal / sizeof *legal && strcmp(at_once, legal[i]); i++)
            ;
        CHECK(i < sizeof legal / sizeof *legal);
        seen |= (size_t)1 << i;
        CHECK(!put(one, 1536, 512, 'f', false));
        struct cut_report report = cut(PCLOG_POLICY_DROP, 0);
        CHECK(report.dropped_writes == 3);
        CHECK(!strcmp(letters_of("data", 3), at_once)); /* it is durable */
        CHECK(!strcmp(letters_of("log", 2), "BB"));
        finish();
    }
    CHECK(seen == 0xff);
}

static void lose_one(void)
{
    CHECK(!disk_lose(disk, "data", 1));
}

/* A flush that was under way ends in order, and nothing is left for it; a write is waited for. */
static void test_one_loses_its_power_in_between(void)
{
    start(disk_of(both));
    CHECK(!put(one, 0, 512, 'a', false));
    during_sleep = lose_one;
    CHECK(!disk_flush(one) && !disk_regain(disk, "data"));
    char left = *letters_of("data", 1);
    CHECK(left == 'a' || left == 'B');
    cut(PCLOG_POLICY_DROP, 0);
    CHECK(*letters_of("data", 1) == left);
    finish();
}

static void test_parts_that_cannot_be(void)
{
    static const struct disk_part bad[][2] = {
        {{"a", 0, 1024, true, true, false}, {"b", 512, 1024, true, true, false}},
        {{"a", 0, 1024, true, true, false}, {"b", 1024, DISK_BYTES, true, true, false}},
        {{"a", 100, 1024, true, true, false}, {"b", 2048, 512, true, true, false}},
        {{"a", 0, 0, true, true, false}, {"b", 2048, 512, true, true, false}},
    };
    char message[256];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct disk_config config = disk_of(bad[i]);
        struct disk *none;
        config.base = path_of("base");
        CHECK(disk_open(&none, &config, message, sizeof message) == EINVAL);
        CHECK(!strncmp(message, "part=", 5));
    }
}

void test_parts(void)
{
    test_each_has_its_place();
    test_a_flush_covers_its_own_disk();
    test_what_one_flush_leaves_another_takes();
    test_flushes_of_both_at_once();
    test_one_lies();
    test_one_cache();
    test_errors_of_one_alone();
    test_one_loses_its_power();
    test_one_loses_its_power_in_between();
    test_parts_that_cannot_be();
}
