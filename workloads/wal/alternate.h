/* SPDX-License-Identifier: Apache-2.0
 *
 * Alternate write-through: the streams' writes and the flushes overlap.  A group is written
 * while the flush of the group before still runs; one flush at a time covers all that has
 * completed before it began.
 */
#ifndef POWERCUT_WAL_ALTERNATE_H
#define POWERCUT_WAL_ALTERNATE_H

#include "writer_state.h"

/* The leader writes the open group, and leaves its flush to the
 * flusher; called and left with the lock held. */
void wal_alternate_lead(struct wal_writer *writer);

/* The flusher, a thread: flushes and acknowledges, until `ended` or `failed`. */
void *wal_alternate_flush(void *writer);

#endif
