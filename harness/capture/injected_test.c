/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of the errors that a disk is told to make.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include "core_fixture.h"
#include "injected.h"

static struct injections injections;

/* An honest disk that is to make these errors, and is not armed yet. */
static void start_with(const char *first, const char *second)
{
    injections = (struct injections){0};
    CHECK(injection_parse(first, &injections));
    CHECK(!second || injection_parse(second, &injections));
    struct disk_config config = honest;
    config.injections = &injections;
    start(config);
}

static void test_settings(void)
{
    static const char *const bad[] = {
        "",                        "write:nth:1:EIO:1",          "write:nth:0:EIO:1:lost",
        "write:nth:1:EPERM:1:lost", "erase:nth:1:EIO:1:lost",    "write:rate:1000001:EIO:1:lost",
        "flush:nth:1:EIO:1:kept",  "read:nth:1:EIO:1:kept",      "write:nth:1:hang:1:kept",
        "write:nth:1:EIO:1:lost:5", "write:nth:1:EIO:1:lost:5:0", 
        "write:nth:1:EIO:1:lost x", "write:nth:1:EIO:1:lost:5:1x",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(!injection_parse(bad[i], &(struct injections){0}));
    struct injections all = {0};
    for (int i = 0; i < INJECTIONS_MAX; i++)
        CHECK(injection_parse("write:nth:1:EIO:0:kept:8:16", &all));
    CHECK(!injection_parse("write:nth:1:EIO:0:kept:8:16", &all));
}

static void test_nothing_fails_before_it_is_armed(void)
{
    start_with("write:nth:1:EIO:0:lost", NULL);
    CHECK(!put(one, 0, 512, 'a', false));
    CHECK(!disk_inject(disk) && disk_inject(disk) == EALREADY);
    CHECK(put(one, 512, 512, 'b', false) == EIO);
    CHECK(!disk_flush(one));
    cut(PCLOG_POLICY_DROP, 0);
    CHECK(!strcmp(letters(2), "aB"));
    disk_disconnect(one);
    CHECK(!disk_connect(disk, "", &one)); /* the power is back, without errors */
    CHECK(!put(one, 512, 512, 'c', true));
    finish();
}

static void test_the_nth_fails_and_is_lost(void)
{
    start_with("write:nth:2:EIO:2:lost", NULL);
    CHECK(!disk_inject(disk));
    CHECK(!put(one, 0, 512, 'a', false));
    CHECK(put(one, 512, 512, 'b', false) == EIO);
    CHECK(put(two, 1024, 512, 'c', true) == EIO);
    CHECK(!put(one, 1536, 512, 'd', false));
    char sector[512];
    CHECK(!disk_read(one, sector, 512, 512) && sector[0] == 'B'); /* what was there before */
    CHECK(!disk_flush(one));
    struct cut_report report = cut(PCLOG_POLICY_KEEP, 0);
    CHECK(!report.survived_writes && !strcmp(letters(4), "aBBd"));
    finish();
}

static void test_what_is_kept_is_there_at_once(void)
{
    start_with("write:nth:1:EIO:1:kept", NULL);
    CHECK(!disk_inject(disk));
    CHECK(put(one, 0, 512, 'a', false) == EIO);
    char sector[512];
    CHECK(!disk_read(one, sector, 512, 0) && sector[0] == 'a');
    struct cut_report report = cut(PCLOG_POLICY_DROP, 0);
    CHECK(!report.dropped_writes && !strcmp(letters(1), "a"));
    finish();
}

static void test_a_flush_that_fails_leaves_the_cache_volatile(void)
{
    start_with("flush:nth:1:EIO:1:lost", NULL);
    CHECK(!disk_inject(disk));
    CHECK(!put(one, 0, 512, 'a', false));
    CHECK(disk_flush(one) == EIO);
    CHECK(cut(PCLOG_POLICY_DROP, 0).dropped_writes == 1 && !strcmp(letters(1), "B"));
    finish();
    start_with("flush:nth:1:EIO:1:lost", NULL);
    CHECK(!disk_inject(disk));
    CHECK(!put(one, 0, 512, 'a', false));
    CHECK(disk_flush(one) == EIO && !disk_flush(two)); /* the next one covers it */
    CHECK(!cut(PCLOG_POLICY_DROP, 0).dropped_writes && !strcmp(letters(1), "a"));
    finish();
}

static void test_kinds_and_places(void)
{
    start_with("fua:nth:1:ENOSPC:0:lost", "discard:nth:1:EIO:0:lost:4:2");
    CHECK(!disk_inject(disk));
    CHECK(!put(one, 0, 512, 'a', false) && put(one, 0, 512, 'b', true) == ENOSPC);
    CHECK(disk_write(one, PCLOG_ZERO, NULL, 512, 0, true) == ENOSPC);
    CHECK(!disk_write(one, PCLOG_DISCARD, NULL, 2048, 0, false));
    CHECK(disk_write(one, PCLOG_DISCARD, NULL, 2560, 0, false) == EIO);
    CHECK(!disk_write(one, PCLOG_DISCARD, NULL, 512, 3072, false) && !disk_flush(one));
    finish();
    start_with("read:nth:2:EIO:1:lost:0:1", NULL);
    CHECK(!disk_inject(disk));
    char sector[512];
    CHECK(!disk_read(one, sector, 512, 512) && !disk_read(one, sector, 512, 0));
    CHECK(disk_read(one, sector, 512, 0) == EIO && !disk_read(one, sector, 512, 0));
    finish();
}

static void test_rates(void)
{
    for (int turn = 0; turn < 2; turn++) { /* the same each time */
        start_with("write:rate:250000:EIO:0:lost", NULL);
        CHECK(!disk_inject(disk));
        int failed = 0;
        for (int i = 0; i < 1000; i++)
            failed += put(one, 0, 512, 'a', false) == EIO;
        CHECK(failed == 238);
        finish();
    }
}

static void cut_now(void)
{
    cut(PCLOG_POLICY_KEEP, 0);
}

static void test_what_hangs_waits_for_the_cut(void)
{
    start_with("flush:nth:1:hang:1:lost", NULL);
    CHECK(!disk_inject(disk));
    CHECK(!put(one, 0, 512, 'a', false));
    during_sleep = cut_now;
    CHECK(disk_flush(one) == EIO);
    finish();
    start_with("write:at:0:hang:1:lost", NULL);
    CHECK(!disk_inject(disk));
    during_sleep = cut_now;
    CHECK(put(one, 0, 512, 'a', false) == EIO);
    finish();
}

void test_injected(void)
{
    test_settings();
    test_nothing_fails_before_it_is_armed();
    test_the_nth_fails_and_is_lost();
    test_what_is_kept_is_there_at_once();
    test_a_flush_that_fails_leaves_the_cache_volatile();
    test_kinds_and_places();
    test_rates();
    test_what_hangs_waits_for_the_cut();
}
