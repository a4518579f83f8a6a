/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POWERCUT_WAL_ACK_H
#define POWERCUT_WAL_ACK_H

#include "committer.h"

/* Puts the ack of `group` into the outbox, and before that, if a dm-log-writes device was
 * named, as the mark "ack LSN" into its log. */
int wal_ack(struct wal_committer *committer, const struct wal_group *group,
            struct wal_failure *failure);

#endif
