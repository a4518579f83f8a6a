/* SPDX-License-Identifier: Apache-2.0
 *
 * One group commit: records become writes, writes are submitted, and what the
 * sync mode asks for is done.
 *
 * Under O_DIRECT a write is made of whole blocks.  Records that begin or end
 * within a block are written with the rest of that block, as it was: the tail
 * block of the last commit is kept in memory, others are read.
 */
#ifndef POWERCUT_WAL_COMMIT_H
#define POWERCUT_WAL_COMMIT_H

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

/* Opens log and engine.  `group_max`: records in a commit.  -1: see `failure`, `problems`. */
int wal_committer_open(struct wal_committer *committer, const struct wal_config *config,
                       uint64_t group_max, struct pc_problems *problems);
void wal_committer_close(struct wal_committer *committer);

/* Sends the outbox (the group's attempt is in it), writes, syncs.  0: the group is durable
 * as far as the sync mode says, and the ack is in the outbox. */
int wal_commit(struct wal_committer *committer, const struct wal_group *group);

/* The first half of it, for who flushes by himself: writes only, and sends nothing. */
int wal_commit_write(struct wal_committer *committer, const struct wal_group *group);

/* Puts the ack of `group` into the outbox, and before that, if a dm-log-writes device was
 * named, as the mark "ack LSN" into its log. */
int wal_commit_ack(struct wal_committer *committer, const struct wal_group *group,
                   struct wal_failure *failure);

#endif
