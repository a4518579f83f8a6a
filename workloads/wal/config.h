/* SPDX-License-Identifier: Apache-2.0
 *
 * What the command line asks for.  Everything that cannot work is refused here,
 * before anything is opened, and all reasons are given at once.
 */
#ifndef POWERCUT_WAL_CONFIG_H
#define POWERCUT_WAL_CONFIG_H

#include "../common/keyval.h"
#include "layout.h"

enum wal_sync {
    WAL_SYNC_NONE,
    WAL_SYNC_FSYNC,
    WAL_SYNC_FDATASYNC,
    WAL_SYNC_O_DSYNC,
    WAL_SYNC_O_SYNC,
    WAL_SYNC_RWF_DSYNC,
    WAL_SYNC_ALTERNATE
};

enum wal_engine_kind { WAL_ENGINE_PWRITE, WAL_ENGINE_LIBAIO, WAL_ENGINE_IO_URING };

/* Deliberate faults, so that it can be shown that they are caught.  See plant.h. */
enum wal_plant_kind {
    WAL_PLANT_NONE,
    WAL_PLANT_EARLY_ACK,
    WAL_PLANT_ACK_AHEAD,
    WAL_PLANT_SKIP_SYNC,
    WAL_PLANT_ACK_FAILED_SYNC,
    WAL_PLANT_WRONG_OFFSET,
    WAL_PLANT_TORN_WRITE,
    WAL_PLANT_FLIP_BIT,
    WAL_PLANT_REPLAY_OLD
};

struct wal_config {
    /* both verbs */
    uint8_t run_id[16];
    int layout; /* enum wal_layout_kind */
    const char *path;
    uint64_t record;
    uint64_t align;
    uint64_t capacity; /* bytes; 0: not given */
    uint64_t segment;
    uint64_t offset;
    const char *channel;
    /* write */
    int sync; /* enum wal_sync */
    uint64_t direct;
    int engine; /* enum wal_engine_kind */
    uint64_t streams;
    uint64_t batch;
    uint64_t depth;
    uint64_t records;
    uint64_t seconds;
    uint64_t think_us;
    uint64_t first_lsn;
    enum wal_plant_kind plant;
    uint64_t plant_arg;
    uint64_t pings;    /* 1: the channel can be read, and a PING on it is answered */
    const char *dmlog; /* the dm-log-writes device that gets a mark for each ack, or NULL */
};

/* Fills in `config` from NULL-terminated `argv`; `problems` gets what is wrong. */
void wal_config_parse(struct wal_config *config, bool write, char *const *argv,
                      struct pc_problems *problems);

/* The layout that `config` describes.  `device_bytes`: size of the raw device, which is
 * its capacity if none is given. */
struct wal_layout wal_config_layout(const struct wal_config *config, uint64_t device_bytes);

/* What only the opened log can tell: `unit` is the smallest piece that the file takes
 * in a write (1 without O_DIRECT). */
void wal_config_check_layout(const struct wal_config *config, const struct wal_layout *layout,
                             uint32_t unit, struct pc_problems *problems);

/* Opens what channel= names; -errno if it cannot. */
int wal_channel_open(const char *channel);

#endif
