/* SPDX-License-Identifier: Apache-2.0 */
#include "alternate.h"

#include "../common/clock.h"
#include "ack.h"
#include "commit.h"

static int send_now(struct wal_writer *w, struct wal_failure *failure)
{
    int error = pc_outbox_flush(&w->committer.outbox);

    return error ? wal_fail(failure, -error, "write to the channel") : 0;
}

/* All messages are sent under the lock: the flusher has some, too. */
void wal_alternate_lead(struct wal_writer *w)
{
    struct wal_committer *c = &w->committer;

    w->leading = true;
    struct wal_group *group = wal_writer_take(w);
    int failed = c->failure.error ? -1 : send_now(w, &c->failure);

    pthread_mutex_unlock(&w->lock);
    if (!failed)
        failed = wal_commit_write(c, group);
    pthread_mutex_lock(&w->lock);
    if (failed)
        w->failed = true;
    else
        w->written_lsn = group->first_lsn + group->count - 1;
    w->leading = false;
    pthread_cond_broadcast(&w->changed);
}

/* Acknowledges every record up to `lsn`. */
static int acknowledge(struct wal_writer *w, uint64_t lsn)
{
    struct wal_group group = {.first_lsn = w->durable_lsn + 1, .count = lsn - w->durable_lsn};

    if (wal_ack(&w->committer, &group, &w->flush_failure))
        return -1;
    uint64_t now = pc_now_ns();

    if (now >= w->snapshot_ns) {
        w->snapshot_ns = now + WAL_SNAPSHOT_NS;
        if (wal_writer_send_latency(w, &w->flush_failure))
            return -1;
    }
    return send_now(w, &w->flush_failure);
}

/* One flush at a time, for all writes that completed before it began; those that complete
 * while it runs wait for the next, as the disk may not have covered them. */
void *wal_alternate_flush(void *argument)
{
    struct wal_writer *w = argument;
    struct wal_log *log = &w->committer.log;

    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (!w->failed && !w->ended && w->written_lsn == w->durable_lsn)
            pthread_cond_wait(&w->changed, &w->lock);
        if (w->failed || w->written_lsn == w->durable_lsn)
            break;
        uint64_t covered = w->written_lsn;

        pthread_mutex_unlock(&w->lock);
        int failed = wal_sync_call(NULL, log->files[0].fd, true, &w->flush_failure);

        if (failed)
            wal_fail_on(&w->flush_failure, w->config->path);
        else
            failed = wal_log_settle(log, &w->flush_failure);
        pthread_mutex_lock(&w->lock);
        if (w->config->plant == WAL_PLANT_EARLY_ACK)
            covered = w->written_lsn; /* the fault: what came during the flush is no part of it */
        if (failed || acknowledge(w, covered))
            w->failed = true;
        else
            w->durable_lsn = covered;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}
