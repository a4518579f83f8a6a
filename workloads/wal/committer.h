/* SPDX-License-Identifier: Apache-2.0
 *
 * What a group commit works with: for commit.c, ack.c and plant.c, and for who owns one.
 */
#ifndef POWERCUT_WAL_COMMITTER_H
#define POWERCUT_WAL_COMMITTER_H

#include "../common/wire_out.h"
#include "../dmlog/dmlog.h"
#include "log.h"

/* Records of consecutive LSNs, `stride` bytes apart. */
struct wal_group {
    uint64_t first_lsn;
    uint64_t count;
    uint8_t *records;
    uint64_t *started_ns; /* when each append of the group began */
    unsigned appends;
};

struct wal_tail {
    bool valid;
    uint64_t file, offset;
    uint8_t *block;
};

struct wal_planted {
    uint64_t groups;   /* commits so far */
    uint8_t *record;   /* the record that is written elsewhere, or the older content */
    bool armed;        /* there is something to do after the write or the ack */
    bool early;        /* the ack was sent already */
};

struct wal_committer {
    const struct wal_config *config;
    struct wal_log log;
    struct wal_engine engine;
    struct pc_outbox outbox;
    struct wal_write *writes;
    size_t write_count;
    uint8_t *bounce; /* blocks that hold more than this group's records */
    size_t bounce_used;
    struct wal_tail tail;
    struct wal_planted planted;
    struct dmlog marks; /* open if the configuration names a dm-log-writes device */
    struct wal_failure failure;
};

#endif
