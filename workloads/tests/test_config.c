/* SPDX-License-Identifier: Apache-2.0
 *
 * What is refused, and which groups a planted fault strikes.
 */
#include <string.h>

#include "../wal/plant.h"
#include "check.h"

#define RUN "run_id=00112233445566778899aabbccddeeff"

static const struct {
    const char *arguments[8];
    const char *reason; /* a part of it; NULL: accepted */
} cases[] = {
    {{RUN, "path=/x"}, NULL},
    {{RUN, "path=/x", "layout=raw", "offset=4096", "direct=1", "sync=o_dsync"}, NULL},
    {{RUN, "path=/x", "layout=segments", "segment=65536", "capacity=131072"}, NULL},
    {{RUN, "path=/x", "engine=io_uring", "depth=32", "streams=128"}, NULL},
    {{"path=/x"}, "run_id= is missing"},
    {{RUN}, "path= is missing"},
    {{RUN, "path=/x", "record=100"}, "not a multiple of 64"},
    {{RUN, "path=/x", "record=32"}, "record=32"},
    {{RUN, "path=/x", "record=2097152"}, "record=2097152"},
    {{RUN, "path=/x", "align=1024"}, "align=1024"},
    {{RUN, "path=/x", "capacity=4096"}, "no meaning for layout=append"},
    {{RUN, "path=/x", "layout=recycled"}, "wants capacity="},
    {{RUN, "path=/x", "layout=prealloc", "capacity=1024", "record=4096"}, "does not hold"},
    {{RUN, "path=/x", "offset=4096"}, "layout=raw only"},
    {{RUN, "path=/x", "layout=raw", "offset=100"}, "multiple of 512"},
    {{RUN, "path=/x", "layout=raw", "offset=512", "align=4096"}, "multiple of align"},
    {{RUN, "path=/x", "layout=segments"}, "wants segment="},
    {{RUN, "path=/x", "layout=segments", "segment=1000"}, "multiple of 4096"},
    {{RUN, "path=/x", "layout=segments", "segment=8192", "capacity=12288"}, "multiple of segment"},
    {{RUN, "path=/x", "segment=8192"}, "layout=segments only"},
    {{RUN, "path=/x", "layout=ring"}, "layout=ring"},
    {{RUN, "path=/x", "depth=4"}, "one write in flight"},
    {{RUN, "path=/x", "streams=129"}, "streams=129"},
    {{RUN, "path=/x", "streams=128", "batch=65536", "record=1048576"}, "more than 1 GiB"},
    {{RUN, "path=/x", "plant=early-ack", "sync=none"}, "every ack is early"},
    {{RUN, "path=/x", "plant=early-ack:3"}, "takes no number"},
    {{RUN, "path=/x", "plant=ack-ahead"}, "wants a number"},
    {{RUN, "path=/x", "plant=ack-ahead:200", "sync=none"}, "every ack is early"},
    {{RUN, "path=/x", "plant=ack-ahead:200", "sync=alternate"}, "a sync of its own"},
    {{RUN, "path=/x", "plant=ack-ahead:200", "pings=1"}, NULL},
    {{RUN, "path=/x", "pings=2"}, "pings=2"},
    {{RUN, "path=/x", "plant=skip-sync"}, "wants a number"},
    {{RUN, "path=/x", "plant=skip-sync:2", "sync=o_dsync"}, "nothing to skip"},
    {{RUN, "path=/x", "plant=ack-failed-sync", "sync=o_sync"}, "wants sync="},
    {{RUN, "path=/x", "plant=wrong-offset:1"}, "LSN 2 at least"},
    {{RUN, "path=/x", "plant=torn-write:3"}, "record=1024"},
    {{RUN, "path=/x", "plant=replay-old:3"}, "no older content"},
    {{RUN, "path=/x", "plant=replay-old:3", "layout=raw", "sync=alternate"}, "others write"},
    {{RUN, "path=/x", "plant=skip-sync:2", "sync=alternate"}, "nothing to skip"},
    {{RUN, "path=/x", "layout=segments", "segment=65536", "sync=alternate"}, "of one file"},
    {{RUN, "path=/x", "sync=alternate", "streams=8", "plant=early-ack"}, NULL},
    {{RUN, "path=/x", "plant=flip-bit:0"}, "the number is not"},
    {{RUN, "path=/x", "plant=flip"}, "not one of none"},
    {{RUN, "path=/x", "first_lsn=1099511627775", "records=2"}, "beyond the last LSN"},
};

static void test_refusals(void)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pc_problems problems = {0};
        struct wal_config config;

        wal_config_parse(&config, true, (char *const *)cases[i].arguments, &problems);
        if (!cases[i].reason)
            CHECK(problems.count == 0, "case %zu: %s", i, problems.text);
        else
            CHECK(problems.count == 1 && strstr(problems.text, cases[i].reason),
                  "case %zu: %u problems, '%s', not '%s'", i, problems.count, problems.text,
                  cases[i].reason);
    }
}

static void test_reader_keys(void)
{
    const char *arguments[] = {RUN, "path=/x", "sync=fsync", NULL};
    struct pc_problems problems = {0};
    struct wal_config config;

    wal_config_parse(&config, false, (char *const *)arguments, &problems);
    CHECK(problems.count == 1 && strstr(problems.text, "`wal write` only"), "%s", problems.text);
}

static void test_layouts(void)
{
    struct wal_config config = {.layout = WAL_SEGMENTS, .record = 192, .segment = 4096,
                                .capacity = 8192, .streams = 1, .batch = 1, .first_lsn = 1};
    struct wal_layout layout = wal_config_layout(&config, 0);
    struct pc_problems problems = {0};

    CHECK_EQUAL(layout.per_file, 21);
    CHECK_EQUAL(layout.slots, 42);
    config = (struct wal_config){.layout = WAL_RAW, .record = 576, .align = 512, .offset = 1024,
                                 .streams = 1, .batch = 1, .first_lsn = 1};
    layout = wal_config_layout(&config, 10000);
    CHECK_EQUAL(layout.stride, 1024);
    CHECK_EQUAL(layout.slots, 8); /* (10000 - 1024), in whole blocks of 4096 */
    wal_config_check_layout(&config, &layout, 4096, &problems);
    CHECK(problems.count == 2, "%s", problems.text); /* offset; the group and two blocks */
}

static void test_skipped_groups(void)
{
    struct wal_config config = {.plant = WAL_PLANT_SKIP_SYNC, .plant_arg = 3};
    static struct wal_committer committer;

    committer.config = &config;
    for (uint64_t group = 1; group <= 9; group++) {
        committer.planted.groups = group;
        CHECK_EQUAL(wal_plant_skips_sync(&committer), group % 3 == 0);
    }
    config.plant = WAL_PLANT_NONE;
    CHECK_EQUAL(wal_plant_skips_sync(&committer), false);
}

int main(void)
{
    test_refusals();
    test_reader_keys();
    test_layouts();
    test_skipped_groups();
    return check_status("config");
}
