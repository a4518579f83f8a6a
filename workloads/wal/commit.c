/* SPDX-License-Identifier: Apache-2.0 */
#include "commit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "ack.h"
#include "engines.h"
#include "plant.h"

#ifndef RWF_DSYNC
#define RWF_DSYNC 0x2
#endif

static uint64_t round_down(uint64_t value, uint64_t unit)
{
    return value / unit * unit;
}

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

int wal_committer_open(struct wal_committer *c, const struct wal_config *config,
                       uint64_t group_max, struct pc_problems *problems)
{
    c->config = config;
    c->marks.control = -1;
    if (config->dmlog && dmlog_open(&c->marks, config->dmlog))
        return wal_fail(&c->failure, errno, "open the dm-log-writes device");
    if (wal_log_open(&c->log, config, problems, &c->failure) ||
        wal_engine_open(&c->engine, (enum wal_engine_kind)config->engine, (unsigned)config->depth,
                        &c->failure))
        return -1;

    uint64_t bytes = group_max * c->log.layout.stride + 4 * (uint64_t)c->log.unit;

    /* a group falls into two runs at most, each of which may add one write */
    c->writes = calloc(group_max + 2, sizeof(*c->writes));
    c->planted.record = config->plant == WAL_PLANT_NONE ? NULL : malloc(config->record);
    if (!c->writes || (config->plant != WAL_PLANT_NONE && !c->planted.record) ||
        posix_memalign((void **)&c->tail.block, WAL_BLOCK_MAX, WAL_BLOCK_MAX) ||
        (c->log.unit > 1 && posix_memalign((void **)&c->bounce, WAL_BLOCK_MAX, bytes)))
        return wal_fail(&c->failure, ENOMEM, "malloc");
    return 0;
}

void wal_committer_close(struct wal_committer *c)
{
    if (c->engine.close)
        c->engine.close(&c->engine);
    wal_log_close(&c->log);
    free(c->writes);
    free(c->bounce);
    free(c->tail.block);
    free(c->planted.record);
    if (c->marks.control >= 0)
        dmlog_close(&c->marks);
}

/* The block at `offset` as it is on the disk, or will be. */
static int load_block(struct wal_committer *c, struct wal_spot at, int fd, uint8_t *block)
{
    if (c->tail.valid && c->tail.file == at.file && c->tail.offset == at.offset) {
        memcpy(block, c->tail.block, c->log.unit);
        return 0;
    }
    return wal_log_read(&c->log, fd, at.offset, block, c->log.unit, &c->failure);
}

/* Puts `length` bytes at `spot` into whole blocks; returns their start, or NULL. */
static const uint8_t *surround(struct wal_committer *c, struct wal_spot spot, int fd,
                               const uint8_t *records, uint64_t length)
{
    uint64_t unit = c->log.unit;
    uint64_t low = round_down(spot.offset, unit), high = round_up(spot.offset + length, unit);
    struct wal_spot head = {spot.file, low}, last = {spot.file, high - unit};
    uint8_t *image = c->bounce + c->bounce_used;

    c->bounce_used += high - low;
    if (low != spot.offset && load_block(c, head, fd, image))
        return NULL;
    if (high != spot.offset + length && (last.offset != low || low == spot.offset) &&
        load_block(c, last, fd, image + (last.offset - low)))
        return NULL;
    memcpy(image + (spot.offset - low), records, length);
    memcpy(c->tail.block, image + (last.offset - low), unit);
    c->tail.valid = true;
    c->tail.file = last.file;
    c->tail.offset = last.offset;
    return image;
}

/* Writes for `count` records in consecutive slots of one file: one write, or, if several
 * may be in flight, one for each record (whole blocks that end with it). */
static int plan_run(struct wal_committer *c, uint64_t slot, uint64_t count,
                    const uint8_t *records)
{
    uint32_t stride = c->log.layout.stride;
    uint64_t unit = c->log.unit, length = count * stride;
    struct wal_spot spot = wal_spot(&c->log.layout, slot);
    struct wal_file *file = wal_log_file(&c->log, spot.file, &c->failure);

    if (!file)
        return -1;
    uint64_t low = round_down(spot.offset, unit), high = round_up(spot.offset + length, unit);
    const uint8_t *data = records;

    if (low != spot.offset || high != spot.offset + length || (uintptr_t)records % unit)
        data = surround(c, spot, file->fd, records, length);
    if (!data)
        return -1;
    uint64_t at = low;

    for (uint64_t i = c->config->depth > 1 ? 1 : count; i <= count; i++) {
        uint64_t end = i == count ? high : round_up(spot.offset + i * stride, unit);

        if (end > at)
            c->writes[c->write_count++] =
                (struct wal_write){file->fd, data + (at - low), end - at, at};
        at = end;
    }
    return 0;
}

static int plan(struct wal_committer *c, const struct wal_group *group)
{
    const struct wal_layout *layout = &c->log.layout;
    uint64_t done = 0;

    c->write_count = 0;
    c->bounce_used = 0;
    while (done < group->count) {
        uint64_t slot = wal_slot(layout, group->first_lsn + done);
        uint64_t run = wal_contiguous(layout, slot);

        if (run > group->count - done)
            run = group->count - done;
        if (plan_run(c, slot, run, group->records + done * layout->stride))
            return -1;
        done += run;
    }
    return 0;
}

/* One sync call for each file that the group wrote to. */
static int sync_files(struct wal_committer *c)
{
    bool data_only = c->config->sync == WAL_SYNC_FDATASYNC;

    if (c->config->sync != WAL_SYNC_FSYNC && c->config->sync != WAL_SYNC_FDATASYNC)
        return 0; /* the writes were durable by themselves, or nobody asked */
    for (size_t i = 0; i < c->write_count; i++) {
        if (i && c->writes[i].fd == c->writes[i - 1].fd)
            continue;
        if (!c->engine.sync(&c->engine, c->writes[i].fd, data_only, &c->failure))
            continue;
        if (c->config->plant != WAL_PLANT_ACK_FAILED_SYNC)
            return wal_fail_on(&c->failure, c->config->path);
        c->failure.error = 0;
    }
    return 0;
}

int wal_commit_write(struct wal_committer *c, const struct wal_group *group)
{
    if (wal_plant_before_write(c, group) || plan(c, group))
        return -1;
    if (c->engine.write(&c->engine, c->writes, c->write_count, 0, &c->failure))
        return wal_fail_on(&c->failure, c->config->path);
    return wal_plant_misplace(c);
}

int wal_commit(struct wal_committer *c, const struct wal_group *group)
{
    bool durable_writes = c->config->sync > WAL_SYNC_FDATASYNC;
    bool early = wal_plant_acks_early(c, group);

    c->planted.early = false;
    /* First of all: the ack of the group before waits in it, too. */
    int error = pc_outbox_flush(&c->outbox);

    if (error)
        return wal_fail(&c->failure, -error, "write to the channel");
    if (wal_plant_before_write(c, group) || plan(c, group))
        return -1;
    bool skip = wal_plant_skips_sync(c);
    int rwf = c->config->sync == WAL_SYNC_RWF_DSYNC && !skip ? RWF_DSYNC : 0;

    if (early && durable_writes && wal_plant_after_write(c, group))
        return -1;
    if (c->engine.write(&c->engine, c->writes, c->write_count, rwf, &c->failure))
        return wal_fail_on(&c->failure, c->config->path);
    if (!(early && durable_writes) && wal_plant_after_write(c, group))
        return -1;
    if (c->config->sync != WAL_SYNC_NONE && !skip) {
        if (sync_files(c) || wal_log_settle(&c->log, &c->failure))
            return -1;
    }
    if (!c->planted.early && wal_ack(c, group, &c->failure))
        return -1;
    return wal_plant_after_ack(c);
}
