/* SPDX-License-Identifier: Apache-2.0
 *
 * plant=ack-ahead:US: the groups of every 100th record are acknowledged about US microseconds
 * before their sync returns.
 *
 * When a sync will return is known only afterwards.  So a thread of its own acknowledges
 * US before the instant at which the sync would return if it took as long as the last
 * one; if even the start of the sync is too late for that, the ack comes first and the sync
 * is held back.  How early the ack really was is said in a MARK "ahead LSN NS".
 */
#ifndef POWERCUT_WAL_AHEAD_H
#define POWERCUT_WAL_AHEAD_H

#include <stdbool.h>

#include "committer.h"

#define WAL_AHEAD_EVERY 100

/* True if `group` holds a record that the plant strikes. */
bool wal_ahead_strikes(const struct wal_committer *committer, const struct wal_group *group);

/* Calls `sync` for `group`, which the plant strikes, and acknowledges it meanwhile. */
int wal_ahead_sync(struct wal_committer *committer, const struct wal_group *group,
                   int (*sync)(struct wal_committer *committer));

#endif
