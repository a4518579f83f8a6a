/* SPDX-License-Identifier: Apache-2.0
 *
 * Deliberate faults of the workload, each of which a detector must see:
 *
 * early-ack           every group is acknowledged before the call that makes it durable
 * ack-ahead:US        of every 100th record, too, and US microseconds before that call begins
 * skip-sync:N         every N-th group is acknowledged without a sync
 * ack-failed-sync     a sync that fails is taken for one that did not
 * wrong-offset:LSN    the record lands in the slot of the record before it; its own slot
 *                     keeps what it held
 * torn-write:LSN      only the first half of the record's sectors is written
 * flip-bit:LSN        bit 3 of the byte in the middle of the record is inverted
 * replay-old:LSN      after the ack, the slot's content from before comes back
 */
#ifndef POWERCUT_WAL_PLANT_H
#define POWERCUT_WAL_PLANT_H

#include "committer.h"

/* Before the writes are planned: may change the group's records. */
int wal_plant_before_write(struct wal_committer *committer, const struct wal_group *group);

/* ack-ahead strikes the groups of every such record. */
#define WAL_AHEAD_EVERY 100

/* True if the group is to be acknowledged before the call that makes it durable. */
bool wal_plant_acks_early(const struct wal_committer *committer, const struct wal_group *group);

/* After the writes, before the sync. */
int wal_plant_after_write(struct wal_committer *committer, const struct wal_group *group);

/* The part of it that belongs to wrong-offset. */
int wal_plant_misplace(struct wal_committer *committer);

/* After the sync, with the ack in the outbox. */
int wal_plant_after_ack(struct wal_committer *committer);

/* True if this group's sync is to be left out. */
bool wal_plant_skips_sync(const struct wal_committer *committer);

#endif
