/* SPDX-License-Identifier: Apache-2.0
 *
 * What the threads of a writer share: for writer.c and alternate.c only.
 */
#ifndef POWERCUT_WAL_WRITER_STATE_H
#define POWERCUT_WAL_WRITER_STATE_H

#include <pthread.h>

#include "../common/latency.h"
#include "committer.h"

#define WAL_SNAPSHOT_NS 1000000000ull

struct wal_writer {
    const struct wal_config *config;
    struct wal_run run;
    uint64_t last_lsn;    /* the run ends with it */
    uint64_t deadline_ns; /* or then; UINT64_MAX: never */
    struct pc_latency latency;
    uint64_t snapshot_ns; /* when the histogram is due */
    pthread_mutex_t lock; /* guards the rest, but the committer, which is the leader's */
    pthread_cond_t changed;
    uint64_t next_lsn;
    uint64_t written_lsn; /* sync=alternate: completed, and waits for a flush */
    uint64_t durable_lsn;
    bool leading;
    bool failed;
    bool ended; /* sync=alternate: every stream has what it waited for */
    struct wal_failure flush_failure; /* of the flusher, which works beside the leader */
    struct wal_group groups[2];
    struct wal_group *open; /* the group that is being filled */
    struct wal_committer committer;
};

struct wal_stream {
    struct wal_writer *writer;
    uint32_t number;
    uint64_t prev_lsn; /* the last record it appended; 0: none */
    pthread_t thread;
};

/* Takes the open group, with its attempt in the outbox. */
struct wal_group *wal_writer_take(struct wal_writer *writer);

/* Puts the histogram into the outbox; -1: see `failure`. */
int wal_writer_send_latency(struct wal_writer *writer, struct wal_failure *failure);

#endif
