/* SPDX-License-Identifier: Apache-2.0
 *
 * `wal write`: streams append, one of them leads a group commit for all.
 *
 * A stream appends its batch to the open group under the lock, which allots the
 * LSNs.  If nobody leads, it takes the group and commits it; meanwhile others
 * fill the next one and wait.  The leader goes on with that group as long as it
 * has something of its own to append, so that an ack and the next attempt leave
 * with one write().
 */
#ifndef POWERCUT_WAL_WRITER_H
#define POWERCUT_WAL_WRITER_H

#include "config.h"

/* Returns the exit status: 0; 1 after an error, which was sent; 2 if refused. */
int wal_write_run(const struct wal_config *config, int channel);

#endif
