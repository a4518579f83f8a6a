/* SPDX-License-Identifier: Apache-2.0 */
#include "ahead.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "../common/clock.h"
#include "ack.h"

struct ahead {
    struct wal_committer *committer;
    const struct wal_group *group;
    uint64_t due_ns; /* when the ack is to be made */
    uint64_t acked_ns;
    struct wal_failure failure; /* of the thread */
};

bool wal_ahead_strikes(const struct wal_committer *c, const struct wal_group *group)
{
    uint64_t last = group->first_lsn + group->count - 1;

    return c->config->plant == WAL_PLANT_ACK_AHEAD &&
           last / WAL_AHEAD_EVERY * WAL_AHEAD_EVERY >= group->first_lsn;
}

static void wait_until(uint64_t instant_ns)
{
    struct timespec until = {
        .tv_sec = (time_t)(instant_ns / 1000000000u),
        .tv_nsec = (long)(instant_ns % 1000000000u),
    };

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

/* Nobody else touches the outbox meanwhile: the committer waits for its sync. */
static int acknowledge(struct ahead *ahead)
{
    ahead->acked_ns = pc_now_ns();
    if (wal_ack(ahead->committer, ahead->group, &ahead->failure))
        return -1;
    int error = pc_outbox_flush(&ahead->committer->outbox);

    return error ? wal_fail(&ahead->failure, -error, "write to the channel") : 0;
}

static void *acknowledge_when_due(void *argument)
{
    struct ahead *ahead = argument;

    wait_until(ahead->due_ns);
    acknowledge(ahead);
    return NULL;
}

static int say(struct wal_committer *c, const struct wal_group *group, int64_t lead_ns)
{
    char text[64];
    int length = snprintf(text, sizeof(text), "ahead %" PRIu64 " %" PRId64,
                          group->first_lsn + group->count - 1, lead_ns);
    int error = pc_outbox_add(&c->outbox, (struct pc_message){.type = PC_MARK}, text,
                              (uint32_t)length);

    return error ? wal_fail(&c->failure, -error, "write to the channel") : 0;
}

int wal_ahead_sync(struct wal_committer *c, const struct wal_group *group,
                   int (*sync)(struct wal_committer *committer))
{
    uint64_t lead_ns = c->config->plant_arg * 1000, usual_ns = c->planted.sync_ns;
    struct ahead ahead = {.committer = c, .group = group};
    pthread_t thread;
    bool threaded = usual_ns > lead_ns;

    c->planted.early = true;
    if (threaded) {
        ahead.due_ns = pc_now_ns() + usual_ns - lead_ns;
        int error = pthread_create(&thread, NULL, acknowledge_when_due, &ahead);

        if (error)
            return wal_fail(&c->failure, error, "pthread_create");
    } else {
        if (acknowledge(&ahead)) {
            c->failure = ahead.failure;
            return -1;
        }
        wait_until(ahead.acked_ns + lead_ns - usual_ns);
    }
    int failed = sync(c);
    uint64_t returned_ns = pc_now_ns();

    if (threaded)
        pthread_join(thread, NULL);
    if (failed || say(c, group, (int64_t)(returned_ns - ahead.acked_ns)))
        return -1;
    if (ahead.failure.error)
        c->failure = ahead.failure;
    return ahead.failure.error ? -1 : 0;
}
