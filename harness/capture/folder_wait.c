/* SPDX-License-Identifier: Apache-2.0
 *
 * A captured folder's syncs take time, as a disk's do: else a program that acknowledges before
 * another thread's sync is done would never be caught at it.
 *
 * How long is drawn from the seed for each in turn: half of them take 0.2 to 1 ms, three in eight
 * 1 to 4 ms, the others 4 to 10 ms, and one in fifty up to 500 ms (slow.h).  Requests wait beside each
 * other, and no thread of FUSE waits.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "folder.h"
#include "log.h"
#include "slow.h"
#include "survive.h"

struct waiting {
    struct request request;
    uint64_t due_ns;
    void (*done)(void *argument, int error);
    void *argument;
    struct waiting *next; /* due later, or as soon */
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct waiting *first;
    uint64_t seed;
    _Atomic uint64_t count; /* of those that took time */
} latency = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const uint64_t US = 1000;

static uint64_t latency_ns(void)
{
    uint64_t seed = latency.seed, number = latency.count++, slow = slow_sync_ns(seed, number);
    uint64_t kind = survive_draw(seed, 2 * number) % 8, part = survive_draw(seed, 2 * number + 1);
    if (slow)
        return slow;
    if (kind < 4)
        return (200 + part % 800) * US;
    if (kind < 7)
        return (1000 + part % 3000) * US;
    return (4000 + part % 6000) * US;
}

static void wait_until(uint64_t due_ns)
{
    struct timespec until = {.tv_sec = (time_t)(due_ns / 1000000000u),
                             .tv_nsec = (long)(due_ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        continue;
}

void request_sleep(void)
{
    wait_until(monotonic_ns() + latency_ns());
}

void request_finish(const struct request *request, void (*done)(void *, int), void *argument)
{
    struct waiting *waiting = malloc(sizeof *waiting);
    if (!waiting) {
        done(argument, request_complete(request, 0));
        return;
    }
    *waiting = (struct waiting){
        .request = *request,
        .due_ns = monotonic_ns() + latency_ns(),
        .done = done,
        .argument = argument,
    };
    pthread_mutex_lock(&latency.lock);
    struct waiting **at = &latency.first;
    while (*at && (*at)->due_ns <= waiting->due_ns)
        at = &(*at)->next;
    waiting->next = *at;
    *at = waiting;
    pthread_cond_signal(&latency.changed);
    pthread_mutex_unlock(&latency.lock);
}

static void *finish(void *nothing)
{
    (void)nothing;
    pthread_mutex_lock(&latency.lock);
    for (;;) {
        struct waiting *first = latency.first;
        if (!first) {
            pthread_cond_wait(&latency.changed, &latency.lock);
        } else if (first->due_ns > monotonic_ns()) {
            struct timespec until = {.tv_sec = (time_t)(first->due_ns / 1000000000u),
                                     .tv_nsec = (long)(first->due_ns % 1000000000u)};
            pthread_cond_timedwait(&latency.changed, &latency.lock, &until);
        } else {
            latency.first = first->next;
            pthread_mutex_unlock(&latency.lock);
            first->done(first->argument, request_complete(&first->request, 0));
            free(first);
            pthread_mutex_lock(&latency.lock);
        }
    }
    return NULL;
}

int latency_start(uint64_t seed)
{
    pthread_t thread;
    pthread_condattr_t attributes;
    latency.seed = seed;
    int error = pthread_condattr_init(&attributes);
    if (!error)
        error = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    if (!error)
        error = pthread_cond_init(&latency.changed, &attributes);
    return error ? error : pthread_create(&thread, NULL, finish, NULL);
}
