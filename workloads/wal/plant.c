/* SPDX-License-Identifier: Apache-2.0 */
#include "plant.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ack.h"

static bool in_group(const struct wal_committer *c, const struct wal_group *group)
{
    uint64_t lsn = c->config->plant_arg;

    return lsn >= group->first_lsn && lsn - group->first_lsn < group->count;
}

static uint8_t *record_of(const struct wal_committer *c, const struct wal_group *group)
{
    return group->records + (c->config->plant_arg - group->first_lsn) * c->log.layout.stride;
}

/* What the slot of the planted record holds on the disk. */
static int read_slot(struct wal_committer *c, uint8_t *data)
{
    const struct wal_layout *layout = &c->log.layout;
    struct wal_spot spot = wal_spot(layout, wal_slot(layout, c->config->plant_arg));
    struct wal_file *file = wal_log_file(&c->log, spot.file, &c->failure);

    if (!file)
        return -1;
    return wal_log_read(&c->log, file->fd, spot.offset, data, layout->record, &c->failure);
}

/* Durably, whatever the sync mode: the fault is where the bytes are, not when. */
static int write_slot(struct wal_committer *c, uint64_t slot, const uint8_t *data)
{
    struct wal_spot spot = wal_spot(&c->log.layout, slot);
    struct wal_file *file = wal_log_file(&c->log, spot.file, &c->failure);

    if (!file)
        return -1;
    c->tail.valid = false; /* the block on the disk is no longer the one in memory */
    if (wal_log_patch(&c->log, file->fd, spot.offset, data, c->log.layout.record, &c->failure))
        return -1;
    return fdatasync(file->fd) ? wal_fail(&c->failure, errno, "fdatasync (plant)") : 0;
}

static int tear(struct wal_committer *c, const struct wal_group *group)
{
    const struct wal_layout *layout = &c->log.layout;
    uint64_t slot = wal_slot(layout, c->config->plant_arg);
    uint32_t phase = (uint32_t)(wal_position(layout, slot) % WAL_SECTOR);
    uint32_t sectors = (phase + layout->record + WAL_SECTOR - 1) / WAL_SECTOR;
    uint32_t keep = sectors / 2 * WAL_SECTOR - phase;

    if (read_slot(c, c->planted.record))
        return -1;
    memcpy(record_of(c, group) + keep, c->planted.record + keep, layout->record - keep);
    return 0;
}

int wal_plant_before_write(struct wal_committer *c, const struct wal_group *group)
{
    uint32_t record = c->log.layout.record;

    c->planted.groups++;
    if (!c->planted.record || !in_group(c, group))
        return 0;
    switch (c->config->plant) {
    case WAL_PLANT_FLIP_BIT:
        record_of(c, group)[record / 2] ^= 1u << 3;
        return 0;
    case WAL_PLANT_TORN_WRITE:
        return tear(c, group);
    case WAL_PLANT_WRONG_OFFSET:
        memcpy(c->planted.record, record_of(c, group), record);
        c->planted.armed = true;
        return read_slot(c, record_of(c, group));
    case WAL_PLANT_REPLAY_OLD:
        c->planted.armed = true;
        return read_slot(c, c->planted.record);
    default:
        return 0;
    }
}

int wal_plant_misplace(struct wal_committer *c)
{
    if (c->config->plant != WAL_PLANT_WRONG_OFFSET || !c->planted.armed)
        return 0;
    c->planted.armed = false;
    return write_slot(c, wal_slot(&c->log.layout, c->config->plant_arg - 1), c->planted.record);
}

bool wal_plant_acks_early(const struct wal_committer *c, const struct wal_group *group)
{
    uint64_t last = group->first_lsn + group->count - 1;

    if (c->config->plant == WAL_PLANT_ACK_AHEAD)
        return last / WAL_AHEAD_EVERY * WAL_AHEAD_EVERY >= group->first_lsn;
    return c->config->plant == WAL_PLANT_EARLY_ACK;
}

static void pause_us(uint64_t us)
{
    struct timespec pause = {
        .tv_sec = (time_t)(us / 1000000),
        .tv_nsec = (long)(us % 1000000) * 1000,
    };

    while (nanosleep(&pause, &pause) && errno == EINTR)
        ;
}

int wal_plant_after_write(struct wal_committer *c, const struct wal_group *group)
{
    if (wal_plant_acks_early(c, group)) {
        c->planted.early = true;
        if (wal_ack(c, group, &c->failure))
            return -1;
        int error = pc_outbox_flush(&c->outbox);

        if (error)
            return wal_fail(&c->failure, -error, "write to the channel");
        if (c->config->plant == WAL_PLANT_ACK_AHEAD)
            pause_us(c->config->plant_arg);
        return 0;
    }
    return wal_plant_misplace(c);
}

int wal_plant_after_ack(struct wal_committer *c)
{
    uint64_t slot = wal_slot(&c->log.layout, c->config->plant_arg);

    if (c->config->plant != WAL_PLANT_REPLAY_OLD || !c->planted.armed)
        return 0;
    c->planted.armed = false;
    int error = pc_outbox_flush(&c->outbox);

    if (error)
        return wal_fail(&c->failure, -error, "write to the channel");
    return write_slot(c, slot, c->planted.record);
}

bool wal_plant_skips_sync(const struct wal_committer *c)
{
    return c->config->plant == WAL_PLANT_SKIP_SYNC &&
           c->planted.groups % c->config->plant_arg == 0;
}
