/* SPDX-License-Identifier: Apache-2.0
 *
 * A disk that stops, and what a cut makes of the requests that it finds in flight then.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include "core_fixture.h"
#include "survive.h"

enum { IN_FLIGHT = 24 };

static int submitted;
static void (*at_last)(void);

/* Each write submits the next one while it waits: all of them are in flight together. */
static void submit_next(void)
{
    int number = submitted++;
    if (number == IN_FLIGHT) {
        at_last();
        return;
    }
    during_sleep = submit_next;
    CHECK(put(one, (uint64_t)number * 2048, 2048, (char)('a' + number), false) == EIO);
}

static uint64_t policy_seed;
static struct cut_report report_of_many;

static void cut_at_random(void)
{
    report_of_many = cut(PCLOG_POLICY_RANDOM, policy_seed);
}

static void cut_prefix(void)
{
    report_of_many = cut(PCLOG_POLICY_PREFIX, policy_seed);
}

static void submit_many(void (*last)(void), uint64_t seed)
{
    start(honest);
    submitted = 0;
    at_last = last;
    policy_seed = seed;
    CHECK(!disk_stop(disk, STOP_DURING, 0));
    submit_next();
}

/* Policy random: each write in flight is kept, torn or lost, as its number and the seed say. */
static void test_random_keeps_some_of_what_is_in_flight(void)
{
    int kept = 0, torn = 0;
    for (uint64_t seed = 0; seed < 100; seed++) {
        submit_many(cut_at_random, seed);
        const char *seen = letters(4 * IN_FLIGHT);
        uint64_t survived = 0;
        for (int i = 0; i < IN_FLIGHT; i++) {
            struct byte_range all = {(uint64_t)i * 2048, 2048};
            struct byte_range range = survive_random(seed, (uint64_t)i, all, 512);
            for (uint64_t sector = all.offset; sector < all.offset + 2048; sector += 512) {
                bool in = sector >= range.offset && sector < range.offset + range.length;
                CHECK(seen[sector / 512] == (in ? 'a' + i : 'B'));
            }
            survived += range.length > 0;
            kept += range.length == 2048;
            torn += range.length && range.length < 2048;
        }
        CHECK(report_of_many.survived_writes == survived);
        CHECK(report_of_many.dropped_writes == IN_FLIGHT - survived);
        finish();
    }
    /* Of 2,400 writes of four units 1/3 + 1/3 x 1/16 are expected whole (a tear may keep all
     * units), 1/3 x 15/16 in part: 850 and 750.  These are the numbers of these seeds. */
    CHECK(kept == 842 && torn == 774);
}

/* Policy prefix: completed ones first, then those in flight, in the order of submission. */
static void test_prefix_reaches_what_is_in_flight(void)
{
    int whole = 0;
    for (uint64_t seed = 0; seed < 100; seed++) {
        submit_many(cut_prefix, seed);
        uint64_t expected = survive_prefix(seed, IN_FLIGHT);
        CHECK(report_of_many.survived_writes == expected);
        const char *seen = letters(4 * IN_FLIGHT);
        for (uint64_t i = 0; i < IN_FLIGHT; i++)
            CHECK(seen[4 * i] == (i < expected ? 'a' + (char)i : 'B'));
        whole += expected == IN_FLIGHT;
        finish();
    }
    CHECK(whole == 2); /* 100 / 25 expected */
}

static int stops;

static void on_stopped(void *context, uint64_t time_ns)
{
    CHECK(context == &stops && time_ns);
    stops++;
}

static void cut_in_the_midst(void)
{
    struct disk_statistics statistics;
    disk_statistics(disk, &statistics);
    CHECK(stops == 1 && statistics.stopped);
    CHECK(statistics.writes == 3 && statistics.flushes == 1);
    CHECK(statistics.in_flight == 1 && statistics.flushes_in_flight == 1);
    cut(PCLOG_POLICY_KEEP, 0);
}

static void write_in_the_midst(void)
{
    during_sleep = cut_in_the_midst;
    char sector[512];
    CHECK(!disk_read(two, sector, sizeof sector, 512) && sector[0] == 'b');
    CHECK(put(two, 1024, 512, 'c', false) == EIO);
}

static void test_a_stopped_disk_completes_nothing(void)
{
    struct disk_config told = honest;
    told.flush_latency_ns = told.fua_latency_ns = 0;
    told.on_stopped = on_stopped;
    told.context = &stops;
    stops = 0;
    start(told);
    CHECK(!disk_stop(disk, STOP_DURING, 2));
    CHECK(!put(one, 0, 512, 'a', false) && !stops);
    CHECK(!put(one, 512, 512, 'b', true) && !stops); /* nothing waits yet */
    during_sleep = write_in_the_midst;
    CHECK(disk_flush(one) == EIO); /* it is submitted, and does not complete */
    CHECK(!strcmp(letters(4), "abcB"));
    struct connection *next;
    CHECK(!disk_connect(disk, "", &next));
    CHECK(!put(next, 0, 512, 'd', false) && !disk_flush(next)); /* the power is back */
    CHECK(stops == 1);
    disk_disconnect(next);
    finish();
}

static void cut_between(void)
{
    struct disk_statistics statistics;
    disk_statistics(disk, &statistics);
    CHECK(stops == 1 && statistics.stopped && statistics.writes == 1);
    CHECK(!statistics.in_flight && !statistics.flushes_in_flight);
    cut(PCLOG_POLICY_KEEP, 0);
}

static void test_a_disk_stops_between_requests(void)
{
    struct disk_config told = honest;
    told.on_stopped = on_stopped;
    told.context = &stops;
    stops = 0;
    start(told);
    CHECK(!disk_stop(disk, STOP_AFTER, 1));
    CHECK(!put(one, 0, 512, 'a', false) && stops == 1);
    during_sleep = cut_between;
    char sector[512];
    CHECK(disk_read(two, sector, sizeof sector, 0) == EIO); /* it waits for the cut */
    CHECK(!during_sleep);
    CHECK(!strcmp(letters(3), "aBB"));
    finish();
    stops = 0;
    start(told);
    CHECK(!disk_stop(disk, STOP_AFTER, 1));
    CHECK(!put(one, 0, 512, 'a', false) && stops == 1);
    during_sleep = cut_between;
    CHECK(put(two, 512, 512, 'b', false) == EIO); /* it is not even submitted */
    CHECK(!strcmp(letters(3), "aBB"));
    finish();
}

void test_stops(void)
{
    test_random_keeps_some_of_what_is_in_flight();
    test_prefix_reaches_what_is_in_flight();
    test_a_stopped_disk_completes_nothing();
    test_a_disk_stops_between_requests();
}
