/* SPDX-License-Identifier: Apache-2.0
 *
 * The classifier against slots whose making is known: every subset of sectors, a tear at
 * every byte, every inverted bit, records in the wrong place.
 */
#include <string.h>

#include "../wal/classify.h"
#include "check.h"

#define SLOT 5u
#define RECORD_MAX 4096u

static const uint8_t run_id[16] = {0xde, 0xad, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
static const uint8_t other_id[16] = {0xca, 0xfe};

enum older { OLDER_ZERO, OLDER_PREWRITTEN, OLDER_RUN, OLDER_SAME_RUN, OLDER_KINDS };

/* One case: a record `fresh` of this run over something `older`. */
struct bed {
    struct wal_classifier classifier;
    struct wal_layout layout;
    uint64_t lsn; /* of the fresh record */
    unsigned phase, sectors;
    uint8_t fresh[RECORD_MAX], older[RECORD_MAX];
    struct pc_extent older_is;
};

static struct wal_layout bed_layout(uint32_t record, uint32_t stride)
{
    return (struct wal_layout){
        .kind = WAL_RECYCLED, .record = record, .stride = stride, .slots = 16};
}

static void bed_open(struct bed *bed, uint32_t record, uint32_t stride, enum older older)
{
    struct wal_run run = wal_run(run_id), other = wal_run(other_id);
    struct wal_run before = wal_prewrite_run(run_id);
    struct wal_layout other_layout = bed_layout(record, stride);

    memset(bed, 0, sizeof(*bed));
    other_layout.kind = WAL_RAW;
    bed->layout = bed_layout(record, stride);
    CHECK(wal_classifier_open(&bed->classifier, &bed->layout, run_id), "memory");
    bed->phase = SLOT * stride % 512;
    bed->sectors = (bed->phase + record + 511) / 512;
    bed->lsn = SLOT + 1 + 2 * 16;
    wal_record_build(bed->fresh, &bed->layout, &run, (struct wal_identity){bed->lsn, 30, 2});
    bed->older_is = (struct pc_extent){SLOT, 1, 0, PC_SLOT_ABSENT, 0};
    switch (older) {
    case OLDER_PREWRITTEN:
        wal_record_prewritten(bed->older, &bed->layout, &before, SLOT);
        bed->older_is = (struct pc_extent){SLOT, 1, SLOT + 1, PC_SLOT_STALE, 0};
        break;
    case OLDER_RUN:
        wal_record_build(bed->older, &other_layout, &other,
                         (struct wal_identity){SLOT + 1 + 16, 7, 9});
        bed->older_is = (struct pc_extent){SLOT, 1, SLOT + 1 + 16, PC_SLOT_STALE, 1};
        wal_classifier_learn(&bed->classifier, bed->older, record);
        break;
    case OLDER_SAME_RUN:
        wal_record_build(bed->older, &bed->layout, &run,
                         (struct wal_identity){bed->lsn - 16, 14, 1});
        bed->older_is = (struct pc_extent){SLOT, 1, bed->lsn - 16, PC_SLOT_INTACT, 0};
        break;
    default:
        break;
    }
}

static void check_extent(struct pc_extent found, struct pc_extent wanted, const char *what,
                         unsigned number, const struct bed *bed, int older)
{
    CHECK(memcmp(&found, &wanted, sizeof(found)) == 0,
          "%s %u, record %u stride %u older %d: state %u lsn %llu detail %u, not %u %llu %u", what,
          number, bed->layout.record, bed->layout.stride, older, found.state,
          (unsigned long long)found.lsn, found.detail, wanted.state,
          (unsigned long long)wanted.lsn, wanted.detail);
}

/* What has to be found if `right` sectors are the fresh record's and the rest is older. */
static struct pc_extent mixed(const struct bed *bed, unsigned right)
{
    if (right == 0)
        return bed->older_is;
    if (right == bed->sectors)
        return (struct pc_extent){SLOT, 1, bed->lsn, PC_SLOT_INTACT, 0};
    return (struct pc_extent){SLOT, 1, bed->lsn, PC_SLOT_TORN, right};
}

/* Start and end of a sector's part of the record. */
static unsigned part(const struct bed *bed, unsigned sector)
{
    unsigned start = sector * 512 > bed->phase ? sector * 512 - bed->phase : 0;

    return start < bed->layout.record ? start : bed->layout.record;
}

static void test_subsets(uint32_t record, uint32_t stride, enum older older)
{
    static struct bed bed;
    uint8_t slot[RECORD_MAX];

    bed_open(&bed, record, stride, older);
    for (unsigned mask = 0; mask < 1u << bed.sectors; mask++) {
        for (unsigned sector = 0; sector < bed.sectors; sector++) {
            unsigned from = part(&bed, sector), to = part(&bed, sector + 1);
            const uint8_t *source = mask >> sector & 1 ? bed.fresh : bed.older;

            memcpy(slot + from, source + from, to - from);
        }
        check_extent(wal_classify(&bed.classifier, SLOT, slot),
                     mixed(&bed, (unsigned)__builtin_popcount(mask)), "subset", mask, &bed, older);
    }
    wal_classifier_close(&bed.classifier);
}

/* The first `cut` bytes are fresh and the rest is older, or the other way round. */
static void test_tears(uint32_t record, uint32_t stride, enum older older, bool fresh_first)
{
    static struct bed bed;
    uint8_t slot[RECORD_MAX];

    bed_open(&bed, record, stride, older);
    const uint8_t *head = fresh_first ? bed.fresh : bed.older;
    const uint8_t *tail = fresh_first ? bed.older : bed.fresh;

    for (unsigned cut = 1; cut < record; cut++) {
        unsigned in_sector = (bed.phase + cut) % 512;
        unsigned before = in_sector < cut ? in_sector : cut; /* bytes of the sector's first part */
        unsigned after = 512 - in_sector < record - cut ? 512 - in_sector : record - cut;
        struct pc_extent found;

        memcpy(slot, head, cut);
        memcpy(slot + cut, tail + cut, record - cut);
        found = wal_classify(&bed.classifier, SLOT, slot);
        if (memcmp(slot, bed.fresh, record) == 0 || memcmp(slot, bed.older, record) == 0) {
            bool is_fresh = memcmp(slot, bed.fresh, record) == 0;

            check_extent(found, mixed(&bed, is_fresh ? bed.sectors : 0), "tear", cut, &bed, older);
        } else if (cut < 64 && (!fresh_first || cut <= 8 || older >= OLDER_RUN)) {
            /* Half a header, where no checksum holds, may be no more than damage to the rest. */
            CHECK(found.state != PC_SLOT_INTACT && found.state != PC_SLOT_ABSENT,
                  "tear at %u: state %u", cut, found.state);
        } else if (in_sector == 0 || (before >= 8 && after >= 8)) {
            CHECK(found.state == PC_SLOT_TORN && found.lsn == bed.lsn,
                  "tear at %u, record %u stride %u older %d, fresh first %d: state %u lsn %llu", cut,
                  record, stride, older, fresh_first, found.state, (unsigned long long)found.lsn);
        } else {
            CHECK(found.state == PC_SLOT_TORN || found.state == PC_SLOT_CORRUPT,
                  "tear at %u: state %u", cut, found.state);
        }
    }
    wal_classifier_close(&bed.classifier);
}

static void test_flips(uint32_t record, uint32_t stride, enum older older)
{
    static struct bed bed;

    bed_open(&bed, record, stride, older);
    for (unsigned bit = 0; bit < 8 * record; bit++) {
        struct pc_extent wanted = {SLOT, 1, bed.lsn, PC_SLOT_CORRUPT, bit / 8};

        bed.fresh[bit / 8] ^= 1u << bit % 8;
        check_extent(wal_classify(&bed.classifier, SLOT, bed.fresh), wanted, "bit", bit, &bed,
                     older);
        bed.fresh[bit / 8] ^= 1u << bit % 8;
    }
    wal_classifier_close(&bed.classifier);
}

/* Damage of more than a bit: `length` bytes inverted, anywhere. */
static void test_damage(uint32_t record, uint32_t stride)
{
    static struct bed bed;
    uint8_t slot[RECORD_MAX];
    uint64_t state = 99;

    bed_open(&bed, record, stride, OLDER_PREWRITTEN);
    for (unsigned i = 0; i < 20000; i++) {
        unsigned length = 1 + (unsigned)(check_random(&state) % 48);
        unsigned at = (unsigned)(check_random(&state) % (record - length));
        struct pc_extent wanted = {SLOT, 1, bed.lsn, PC_SLOT_CORRUPT, at};

        memcpy(slot, bed.fresh, record);
        for (unsigned k = 0; k < length; k++)
            slot[at + k] ^= (uint8_t)(1 + check_random(&state) % 255);
        struct pc_extent found = wal_classify(&bed.classifier, SLOT, slot);

        /* In the header, fields that cannot be known otherwise hide where it begins. */
        if (at < 64)
            wanted.detail = found.detail;
        if (at < 64 && record <= 128) /* nothing else names the record */
            wanted.lsn = found.lsn;
        check_extent(found, wanted, "damage", i, &bed, 0);
    }
    for (unsigned i = 0; i < 2000; i++) {
        for (unsigned k = 0; k < record; k++)
            slot[k] = (uint8_t)check_random(&state);
        CHECK_EQUAL(wal_classify(&bed.classifier, SLOT, slot).state, PC_SLOT_CORRUPT);
    }
    wal_classifier_close(&bed.classifier);
}

static void test_misdirected(uint32_t record, uint32_t stride)
{
    static struct bed bed;
    struct wal_run run = wal_run(run_id);
    uint8_t slot[2 * RECORD_MAX] = {0};

    bed_open(&bed, record, stride, OLDER_ZERO);
    wal_record_build(slot, &bed.layout, &run, (struct wal_identity){9, 8, 0});
    check_extent(wal_classify(&bed.classifier, SLOT, slot),
                 (struct pc_extent){SLOT, 1, 9, PC_SLOT_MISDIRECTED, 0}, "whole", 0, &bed, 0);
    /* its own slot's record, but not where it belongs: a sector or a chunk off */
    for (unsigned shift = 64; shift < record; shift += shift < 512 ? 64 : 512) {
        memset(slot, 0, sizeof(slot));
        memcpy(slot + shift, bed.fresh, record);
        check_extent(wal_classify(&bed.classifier, SLOT, slot),
                     (struct pc_extent){SLOT, 1, bed.lsn, PC_SLOT_MISDIRECTED, 0}, "shifted",
                     shift, &bed, 0);
        check_extent(wal_classify(&bed.classifier, SLOT, slot + 2 * shift > slot + record
                                                             ? slot + shift + 64
                                                             : slot + 2 * shift),
                     (struct pc_extent){SLOT, 1, bed.lsn, PC_SLOT_MISDIRECTED, 0}, "cut off",
                     shift, &bed, 0);
    }
    wal_classifier_close(&bed.classifier);
}

/* A good checksum does not make right what this run cannot have written. */
static void test_forged(void)
{
    static struct bed bed;
    struct wal_run run = wal_run(run_id);
    uint8_t slot[RECORD_MAX];

    bed_open(&bed, 1024, 1024, OLDER_ZERO);
    struct wal_layout raw = bed.layout;

    raw.kind = WAL_RAW; /* which begins with generation 0 */
    wal_record_build(slot, &raw, &run, (struct wal_identity){bed.lsn, 3, 0});
    check_extent(wal_classify(&bed.classifier, SLOT, slot),
                 (struct pc_extent){SLOT, 1, bed.lsn, PC_SLOT_CORRUPT, 6}, "generation", 0, &bed,
                 0);
    wal_classifier_close(&bed.classifier);
}

int main(void)
{
    static const struct {
        uint32_t record, stride;
    } shapes[] = {{64, 64},     {64, 512},   {128, 128},   {192, 192},   {512, 512},
                  {576, 576},   {960, 960},  {1024, 4096}, {1600, 1600}, {4096, 4096}};

    for (unsigned i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        uint32_t record = shapes[i].record, stride = shapes[i].stride;

        for (int older = 0; older < OLDER_KINDS; older++) {
            test_subsets(record, stride, (enum older)older);
            if (record < 4096) {
                test_tears(record, stride, (enum older)older, true);
                test_tears(record, stride, (enum older)older, false);
                test_flips(record, stride, (enum older)older);
            }
        }
        test_damage(record, stride);
        test_misdirected(record, stride);
    }
    test_forged();
    return check_status("classify");
}
