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

#include "committer.h"

/* Opens log and engine.  `group_max`: records in a commit.  -1: see `failure`, `problems`. */
int wal_committer_open(struct wal_committer *committer, const struct wal_config *config,
                       uint64_t group_max, struct pc_problems *problems);
void wal_committer_close(struct wal_committer *committer);

/* Sends the outbox (the group's attempt is in it), writes, syncs.  0: the group is durable
 * as far as the sync mode says, and the ack is in the outbox. */
int wal_commit(struct wal_committer *committer, const struct wal_group *group);

/* The first half of it, for who flushes by himself: writes only, and sends nothing. */
int wal_commit_write(struct wal_committer *committer, const struct wal_group *group);

#endif
