/* SPDX-License-Identifier: Apache-2.0 */
#include "writer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../common/clock.h"
#include "alternate.h"
#include "commit.h"
#include "pong.h"

/* Appends the stream's next batch to the open group; returns how many records. */
static uint64_t append(struct wal_writer *w, struct wal_stream *stream)
{
    struct wal_group *group = w->open;
    const struct wal_layout *layout = &w->committer.log.layout;
    uint64_t now = pc_now_ns(), count = 0;

    if (w->failed || now >= w->deadline_ns)
        return 0;
    while (count < w->config->batch && w->next_lsn <= w->last_lsn) {
        struct wal_identity identity = {w->next_lsn, stream->prev_lsn, stream->number};

        wal_record_build(group->records + group->count * layout->stride, layout, &w->run,
                         identity);
        stream->prev_lsn = w->next_lsn++;
        group->count++;
        count++;
    }
    if (count)
        group->started_ns[group->appends++] = now;
    return count;
}

static void account(struct wal_writer *w, const struct wal_group *group)
{
    uint64_t now = pc_now_ns();

    for (unsigned i = 0; i < group->appends; i++)
        pc_latency_add(&w->latency, now - group->started_ns[i]);
    w->durable_lsn = group->first_lsn + group->count - 1;
    if (now < w->snapshot_ns)
        return;
    w->snapshot_ns = now + WAL_SNAPSHOT_NS;
    wal_writer_send_latency(w, &w->committer.failure);
}

/* Commits groups until this stream has nothing more to append at once.  Called and left
 * with the lock held. */
static void lead(struct wal_writer *w, struct wal_stream *stream)
{
    struct wal_committer *c = &w->committer;
    bool more = true;

    w->leading = true;
    while (more && !w->failed) {
        struct wal_group *group = wal_writer_take(w);

        pthread_mutex_unlock(&w->lock);
        int failed = c->failure.error ? -1 : wal_commit(c, group);

        pthread_mutex_lock(&w->lock);
        if (failed) {
            w->failed = true;
            break;
        }
        account(w, group);
        more = w->config->think_us == 0 && append(w, stream) > 0;
        pthread_cond_broadcast(&w->changed);
    }
    /* Sent under the lock, so that the next leader's messages come after it. */
    int error = pc_outbox_flush(&c->outbox);

    if (error) {
        wal_fail(&c->failure, -error, "write to the channel");
        w->failed = true;
    }
    w->leading = false;
    pthread_cond_broadcast(&w->changed);
}

static bool alternate(const struct wal_writer *w)
{
    return w->config->sync == WAL_SYNC_ALTERNATE;
}

static void think(const struct wal_config *config)
{
    struct timespec pause = {
        .tv_sec = (time_t)(config->think_us / 1000000),
        .tv_nsec = (long)(config->think_us % 1000000) * 1000,
    };

    while (nanosleep(&pause, &pause) && errno == EINTR)
        ;
}

static void *run_stream(void *argument)
{
    struct wal_stream *stream = argument;
    struct wal_writer *w = stream->writer;

    pthread_mutex_lock(&w->lock);
    while (append(w, stream)) {
        uint64_t started_ns = pc_now_ns();

        while (!w->failed && w->durable_lsn < stream->prev_lsn) {
            if (w->leading || (alternate(w) && w->written_lsn >= stream->prev_lsn))
                pthread_cond_wait(&w->changed, &w->lock);
            else if (alternate(w))
                wal_alternate_lead(w);
            else
                lead(w, stream);
        }
        if (alternate(w) && !w->failed)
            pc_latency_add(&w->latency, pc_now_ns() - started_ns);
        if (w->config->think_us && !w->failed) {
            pthread_mutex_unlock(&w->lock);
            think(w->config);
            pthread_mutex_lock(&w->lock);
        }
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static int open_writer(struct wal_writer *w, struct pc_problems *problems)
{
    const struct wal_config *config = w->config;
    uint64_t group_max = config->streams * config->batch;
    struct wal_failure *failure = &w->committer.failure;

    if (wal_committer_open(&w->committer, config, group_max, problems))
        return -1;
    for (int i = 0; i < 2; i++) {
        struct wal_group *group = &w->groups[i];
        size_t bytes = group_max * w->committer.log.layout.stride;

        group->started_ns = calloc(config->streams, sizeof(*group->started_ns));
        if (!group->started_ns ||
            posix_memalign((void **)&group->records, WAL_BLOCK_MAX, bytes))
            return wal_fail(failure, ENOMEM, "malloc");
        memset(group->records, 0, bytes); /* the padding, which no append touches */
    }
    uint64_t last = wal_last_lsn(&w->committer.log.layout);

    w->last_lsn = config->records ? config->first_lsn + config->records - 1 : last;
    if (w->last_lsn > last)
        w->last_lsn = last;
    w->next_lsn = config->first_lsn;
    w->written_lsn = w->durable_lsn = config->first_lsn - 1;
    w->open = &w->groups[0];
    w->open->first_lsn = w->next_lsn;

    if (config->pings && wal_pong_start(w->committer.outbox.fd, failure))
        return -1;
    int error = pc_outbox_add(&w->committer.outbox, (struct pc_message){.type = PC_READY}, NULL,
                              0);

    if (!error)
        error = pc_outbox_flush(&w->committer.outbox);
    w->snapshot_ns = pc_now_ns() + WAL_SNAPSHOT_NS;
    w->deadline_ns = config->seconds ? pc_now_ns() + config->seconds * 1000000000ull : UINT64_MAX;
    return error ? wal_fail(failure, -error, "write to the channel") : 0;
}

/* False, with the failure noted, if there is no thread to be had. */
static bool start(struct wal_writer *w, pthread_t *thread, void *(*run)(void *), void *argument)
{
    int error = pthread_create(thread, NULL, run, argument);

    if (error) {
        pthread_mutex_lock(&w->lock);
        wal_fail(&w->flush_failure, error, "pthread_create");
        w->failed = true;
        pthread_cond_broadcast(&w->changed);
        pthread_mutex_unlock(&w->lock);
    }
    return !error;
}

static void run_streams(struct wal_writer *w)
{
    struct wal_stream *streams = calloc(w->config->streams, sizeof(*streams));
    uint32_t started = 0;

    for (; streams && started < w->config->streams; started++) {
        struct wal_stream *stream = &streams[started];

        *stream = (struct wal_stream){.writer = w, .number = started};
        if (!start(w, &stream->thread, run_stream, stream))
            break;
    }
    if (!streams)
        wal_fail(&w->committer.failure, ENOMEM, "malloc");
    for (uint32_t i = 0; i < started; i++)
        pthread_join(streams[i].thread, NULL);
    free(streams);
}

static void run_threads(struct wal_writer *w)
{
    pthread_t flusher;
    bool flushes = alternate(w);

    if (flushes && !start(w, &flusher, wal_alternate_flush, w))
        return;
    run_streams(w);
    if (!flushes)
        return;
    pthread_mutex_lock(&w->lock);
    w->ended = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(flusher, NULL);
}

static int report(struct wal_writer *w, const struct pc_problems *problems)
{
    struct wal_failure *failure = &w->committer.failure;

    if (!failure->error)
        failure = &w->flush_failure;
    if (problems->count) {
        pc_outbox_error(&w->committer.outbox, EINVAL, problems->text);
        fprintf(stderr, "wal: %s\n", problems->text);
        return 2;
    }
    if (failure->error) {
        pc_outbox_error(&w->committer.outbox, failure->error, failure->call);
        fprintf(stderr, "wal: %s: %s\n", failure->call, strerror(failure->error));
        return 1;
    }
    return 0;
}

int wal_write_run(const struct wal_config *config, int channel)
{
    static struct wal_writer writer; /* large, and one per process */
    struct wal_writer *w = &writer;
    struct pc_problems problems = {0};

    w->config = config;
    w->run = wal_run(config->run_id);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    pc_outbox_init(&w->committer.outbox, channel);
    if (open_writer(w, &problems) == 0) {
        run_threads(w);
        if (!w->committer.failure.error && !w->flush_failure.error) {
            wal_writer_send_latency(w, &w->committer.failure);
            int error = pc_outbox_flush(&w->committer.outbox);

            if (error)
                wal_fail(&w->committer.failure, -error, "write to the channel");
        }
    }
    int status = report(w, &problems);

    wal_committer_close(&w->committer);
    for (int i = 0; i < 2; i++) {
        free(w->groups[i].records);
        free(w->groups[i].started_ns);
    }
    return status;
}
