/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#define POSITION_MAX ((uint64_t)1 << 62)

static const char *const layouts[] = {"append",   "prealloc", "prewritten", "recycled",
                                      "segments", "raw",      NULL};
static const char *const syncs[] = {"none",   "fsync",     "fdatasync", "o_dsync",
                                    "o_sync", "rwf_dsync", "alternate", NULL};
static const char *const engines[] = {"pwrite", "libaio", "io_uring", NULL};

static const struct {
    const char *name;
    enum wal_plant_kind kind;
    bool argument;
} plants[] = {
    {"none", WAL_PLANT_NONE, false},
    {"early-ack", WAL_PLANT_EARLY_ACK, false},
    {"ack-ahead", WAL_PLANT_ACK_AHEAD, true},
    {"skip-sync", WAL_PLANT_SKIP_SYNC, true},
    {"ack-failed-sync", WAL_PLANT_ACK_FAILED_SYNC, false},
    {"wrong-offset", WAL_PLANT_WRONG_OFFSET, true},
    {"torn-write", WAL_PLANT_TORN_WRITE, true},
    {"flip-bit", WAL_PLANT_FLIP_BIT, true},
    {"replay-old", WAL_PLANT_REPLAY_OLD, true},
};

static void parse_plant(struct wal_config *config, const char *text, struct pc_problems *problems)
{
    size_t length = strcspn(text, ":");
    bool argument = text[length] == ':';

    for (size_t i = 0; i < sizeof(plants) / sizeof(plants[0]); i++) {
        if (strncmp(plants[i].name, text, length) != 0 || plants[i].name[length])
            continue;
        config->plant = plants[i].kind;
        if (argument != plants[i].argument)
            pc_problem(problems, "plant=%s: %s", text,
                       argument ? "takes no number" : "wants a number after a colon");
        else if (argument && !pc_parse_number(text + length + 1, 1, WAL_LSN_MAX,
                                              &config->plant_arg))
            pc_problem(problems, "plant=%.64s: the number is not one from 1 to %llu", text,
                       (unsigned long long)WAL_LSN_MAX);
        return;
    }
    pc_problem(problems, "plant=%.64s: not one of none, early-ack, ack-ahead:US, skip-sync:N, "
               "ack-failed-sync, wrong-offset:LSN, torn-write:LSN, flip-bit:LSN, replay-old:LSN", text);
}

static void check_sizes(const struct wal_config *c, struct pc_problems *problems)
{
    bool bounded = c->layout == WAL_PREALLOC || c->layout == WAL_PREWRITTEN ||
                   c->layout == WAL_RECYCLED;
    uint64_t align = c->align ? c->align : 1;
    uint64_t stride = (c->record + align - 1) / align * align;

    if (c->record % WAL_CHUNK)
        pc_problem(problems, "record=%" PRIu64 ": not a multiple of %u", c->record, WAL_CHUNK);
    if (c->align != 0 && c->align != 512 && c->align != 4096)
        pc_problem(problems, "align=%" PRIu64 ": not one of 0 (packed), 512, 4096", c->align);
    if (c->layout == WAL_APPEND && c->capacity)
        pc_problem(problems, "capacity= has no meaning for layout=append, which only grows");
    if (bounded && !c->capacity)
        pc_problem(problems, "layout=%s wants capacity=BYTES", layouts[c->layout]);
    if (c->capacity && c->capacity < stride)
        pc_problem(problems, "capacity=%" PRIu64 " does not hold one record of %" PRIu64 " bytes",
                   c->capacity, stride);
    if (c->offset && c->layout != WAL_RAW)
        pc_problem(problems, "offset= has a meaning for layout=raw only");
    if (c->offset % WAL_SECTOR)
        pc_problem(problems, "offset=%" PRIu64 ": not a multiple of 512", c->offset);
    if (c->align && c->offset % c->align)
        pc_problem(problems, "offset=%" PRIu64 ": not a multiple of align", c->offset);
    if (c->layout != WAL_SEGMENTS) {
        if (c->segment)
            pc_problem(problems, "segment= has a meaning for layout=segments only");
        return;
    }
    if (!c->segment)
        pc_problem(problems, "layout=segments wants segment=BYTES");
    else if (c->segment < stride || c->segment % 4096)
        pc_problem(problems, "segment=%" PRIu64 ": not a multiple of 4096 that holds a record of "
                   "%" PRIu64 " bytes", c->segment, stride);
    else if (c->capacity % c->segment)
        pc_problem(problems, "capacity=%" PRIu64 ": not a multiple of segment=%" PRIu64,
                   c->capacity, c->segment);
}

static void check_plant(const struct wal_config *c, struct pc_problems *problems)
{
    bool sync_call = c->sync == WAL_SYNC_FSYNC || c->sync == WAL_SYNC_FDATASYNC;

    switch (c->plant) {
    case WAL_PLANT_NONE:
    case WAL_PLANT_FLIP_BIT:
        break;
    case WAL_PLANT_EARLY_ACK:
    case WAL_PLANT_ACK_AHEAD:
        if (c->sync == WAL_SYNC_NONE)
            pc_problem(problems, "plant=%s: with sync=none every ack is early",
                       c->plant == WAL_PLANT_EARLY_ACK ? "early-ack" : "ack-ahead");
        else if (c->plant == WAL_PLANT_ACK_AHEAD && c->sync == WAL_SYNC_ALTERNATE)
            pc_problem(problems, "plant=ack-ahead wants another sync than alternate: "
                       "there, no group has a sync of its own");
        break;
    case WAL_PLANT_SKIP_SYNC:
        if (!sync_call && c->sync != WAL_SYNC_RWF_DSYNC)
            pc_problem(problems, "plant=skip-sync wants sync=fsync, fdatasync or rwf_dsync: "
                       "there is nothing to skip otherwise");
        break;
    case WAL_PLANT_ACK_FAILED_SYNC:
        if (!sync_call)
            pc_problem(problems, "plant=ack-failed-sync wants sync=fsync or fdatasync");
        break;
    case WAL_PLANT_WRONG_OFFSET:
        if (c->plant_arg < 2 || c->plant_arg <= c->first_lsn)
            pc_problem(problems, "plant=wrong-offset: the record before it must be of this run "
                       "(LSN %" PRIu64 " at least)", c->first_lsn + 1);
        break;
    case WAL_PLANT_TORN_WRITE:
        if (c->record < 2 * WAL_SECTOR)
            pc_problem(problems, "plant=torn-write wants record=1024 at least: "
                       "a record within one sector does not tear");
        break;
    case WAL_PLANT_REPLAY_OLD:
        if (c->layout != WAL_PREWRITTEN && c->layout != WAL_RECYCLED && c->layout != WAL_RAW)
            pc_problem(problems, "plant=replay-old wants layout=prewritten, recycled or raw: "
                       "elsewhere a slot has no older content");
        else if (c->sync == WAL_SYNC_ALTERNATE)
            pc_problem(problems, "plant=replay-old wants another sync than alternate: "
                       "while the old content goes back, others write");
        break;
    }
}

static void check_write(const struct wal_config *c, struct pc_problems *problems)
{
    if (c->depth > 1 && c->engine == WAL_ENGINE_PWRITE)
        pc_problem(problems, "depth=%" PRIu64 ": engine=pwrite has one write in flight; "
                   "take libaio or io_uring", c->depth);
    if (c->streams * c->batch * c->record > (uint64_t)1 << 30)
        pc_problem(problems, "streams * batch * record: a group commit of more than 1 GiB");
    if (c->records && c->first_lsn + c->records - 1 > WAL_LSN_MAX)
        pc_problem(problems, "first_lsn + records is beyond the last LSN, 2^40 - 1");
    if (c->sync == WAL_SYNC_ALTERNATE && c->layout == WAL_SEGMENTS)
        pc_problem(problems, "sync=alternate wants a log of one file: a flush goes on while the "
                   "next segment is opened");
    check_plant(c, problems);
}

void wal_config_parse(struct wal_config *config, bool write, char *const *argv,
                      struct pc_problems *problems)
{
    struct wal_config *c = config;
    const char *plant = NULL;
    const char *no = write ? NULL : "is for `wal write` only";
    bool has_run_id = false, has_path = false;

    *c = (struct wal_config){
        .record = 512, .channel = "fd:1", .sync = WAL_SYNC_FDATASYNC,
        .streams = 1, .batch = 1, .depth = 1, .first_lsn = 1,
    };
    const struct pc_key keys[] = {
        {"run_id", PC_VALUE_HEX16, c->run_id, 0, 0, NULL, &has_run_id, NULL},
        {"layout", PC_VALUE_CHOICE, &c->layout, 0, 0, layouts, NULL, NULL},
        {"path", PC_VALUE_TEXT, &c->path, 0, 0, NULL, &has_path, NULL},
        {"record", PC_VALUE_NUMBER, &c->record, WAL_RECORD_MIN, WAL_RECORD_MAX, NULL, NULL, NULL},
        {"align", PC_VALUE_NUMBER, &c->align, 0, 4096, NULL, NULL, NULL},
        {"capacity", PC_VALUE_NUMBER, &c->capacity, 0, POSITION_MAX, NULL, NULL, NULL},
        {"segment", PC_VALUE_NUMBER, &c->segment, 0, POSITION_MAX, NULL, NULL, NULL},
        {"offset", PC_VALUE_NUMBER, &c->offset, 0, POSITION_MAX, NULL, NULL, NULL},
        {"channel", PC_VALUE_TEXT, &c->channel, 0, 0, NULL, NULL, NULL},
        {"sync", PC_VALUE_CHOICE, &c->sync, 0, 0, syncs, NULL, no},
        {"direct", PC_VALUE_NUMBER, &c->direct, 0, 1, NULL, NULL, no},
        {"engine", PC_VALUE_CHOICE, &c->engine, 0, 0, engines, NULL, no},
        {"streams", PC_VALUE_NUMBER, &c->streams, 1, WAL_STREAMS_MAX, NULL, NULL, no},
        {"batch", PC_VALUE_NUMBER, &c->batch, 1, 65536, NULL, NULL, no},
        {"depth", PC_VALUE_NUMBER, &c->depth, 1, 1024, NULL, NULL, no},
        {"records", PC_VALUE_NUMBER, &c->records, 0, WAL_LSN_MAX, NULL, NULL, no},
        {"seconds", PC_VALUE_NUMBER, &c->seconds, 0, 1u << 30, NULL, NULL, no},
        {"think_us", PC_VALUE_NUMBER, &c->think_us, 0, 1u << 30, NULL, NULL, no},
        {"first_lsn", PC_VALUE_NUMBER, &c->first_lsn, 1, WAL_LSN_MAX, NULL, NULL, no},
        {"plant", PC_VALUE_TEXT, &plant, 0, 0, NULL, NULL, no},
        {"pings", PC_VALUE_NUMBER, &c->pings, 0, 1, NULL, NULL, no},
        {"dmlog", PC_VALUE_TEXT, &c->dmlog, 0, 0, NULL, NULL, no},
        {0},
    };

    pc_keyval_parse(argv, keys, problems);
    if (!has_run_id)
        pc_problem(problems, "run_id= is missing");
    if (!has_path)
        pc_problem(problems, "path= is missing");
    if (plant)
        parse_plant(c, plant, problems);
    check_sizes(c, problems);
    if (write)
        check_write(c, problems);
}

struct wal_layout wal_config_layout(const struct wal_config *config, uint64_t device_bytes)
{
    uint64_t align = config->align ? config->align : 1;
    uint64_t stride = (config->record + align - 1) / align * align;
    uint64_t capacity = config->capacity;
    struct wal_layout layout = {
        .kind = (enum wal_layout_kind)config->layout,
        .record = (uint32_t)config->record,
        .stride = (uint32_t)stride,
        .offset = config->offset,
    };

    if (config->layout == WAL_RAW && !capacity && device_bytes > config->offset)
        capacity = (device_bytes - config->offset) / 4096 * 4096;
    if (config->layout == WAL_SEGMENTS) {
        layout.segment = config->segment;
        layout.per_file = config->segment / stride;
        layout.slots = capacity / config->segment * layout.per_file;
    } else {
        layout.slots = capacity / stride;
    }
    return layout;
}

void wal_config_check_layout(const struct wal_config *config, const struct wal_layout *layout,
                             uint32_t unit, struct pc_problems *problems)
{
    uint64_t group = config->streams * config->batch;
    uint64_t bytes = layout->slots * layout->stride;

    if (layout->kind == WAL_RAW && !layout->slots)
        pc_problem(problems, "the device holds no record: it ends before offset=%" PRIu64
                   " plus one record", config->offset);
    if (layout->slots && !wal_wraps(layout) && config->first_lsn > layout->slots)
        pc_problem(problems, "first_lsn=%" PRIu64 " is beyond the %" PRIu64 " slots of the log",
                   config->first_lsn, layout->slots);
    if (layout->per_file && group > layout->per_file)
        pc_problem(problems, "streams * batch = %" PRIu64 " records a commit do not fit into a "
                   "segment of %" PRIu64, group, layout->per_file);
    /* Going round, a commit must not meet its own first block. */
    if (layout->slots && group * layout->stride + (unit > 1 ? 2 * unit : 0) > bytes)
        pc_problem(problems, "streams * batch = %" PRIu64 " records a commit do not fit into the "
                   "%" PRIu64 " slots of the log%s", group, layout->slots,
                   unit > 1 ? " (with O_DIRECT: and two blocks)" : "");
    if (unit > 1 && config->capacity % unit)
        pc_problem(problems, "capacity=%" PRIu64 ": with direct=1 a multiple of %u, the block of "
                   "this file, is needed", config->capacity, unit);
    if (unit > 1 && config->offset % unit)
        pc_problem(problems, "offset=%" PRIu64 ": with direct=1 a multiple of %u, the block of "
                   "this device, is needed", config->offset, unit);
}

int wal_channel_open(const char *channel)
{
    uint64_t number;

    if (strncmp(channel, "fd:", 3) != 0) {
        /* A device node that is not there must not become a file in RAM. */
        int create = strncmp(channel, "/dev/", 5) == 0 ? 0 : O_CREAT | O_APPEND;
        int fd = open(channel, O_WRONLY | O_CLOEXEC | create, 0644);

        return fd < 0 ? -errno : fd;
    }
    if (!pc_parse_number(channel + 3, 0, INT32_MAX, &number))
        return -EINVAL;
    return fcntl((int)number, F_GETFD) < 0 ? -errno : (int)number;
}
