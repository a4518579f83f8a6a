/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>

#include "engine.h"

/* Waits for one completion and returns its result in `result`. */
static int reap(struct io_uring *ring, int *result, const struct wal_write **write,
                struct wal_failure *failure)
{
    struct io_uring_cqe *cqe;
    int error;

    do {
        error = io_uring_wait_cqe(ring, &cqe);
    } while (error == -EINTR);
    if (error)
        return wal_fail(failure, -error, "io_uring_enter (wait)");
    *result = cqe->res;
    *write = io_uring_cqe_get_data(cqe);
    io_uring_cqe_seen(ring, cqe);
    return 0;
}

static int submit(struct io_uring *ring, unsigned count, struct wal_failure *failure)
{
    while (count) {
        int n = io_uring_submit(ring);

        if (n == -EINTR || n == -EAGAIN || n == -EBUSY)
            continue;
        if (n <= 0)
            return wal_fail(failure, n < 0 ? -n : EIO, "io_uring_enter (submit)");
        count -= (unsigned)n < count ? (unsigned)n : count;
    }
    return 0;
}

static int uring_write(struct wal_engine *engine, const struct wal_write *writes, size_t count,
                       int rwf, struct wal_failure *failure)
{
    struct io_uring *ring = engine->state;
    size_t next = 0;
    unsigned in_flight = 0;
    int failed = 0;

    while ((next < count && !failed) || in_flight) {
        unsigned queued = 0;

        while (!failed && next < count && in_flight + queued < engine->depth) {
            const struct wal_write *write = &writes[next++];
            struct io_uring_sqe *sqe = io_uring_get_sqe(ring); /* the ring has depth entries */

            io_uring_prep_write(sqe, write->fd, write->data, (unsigned)write->length,
                                write->offset);
            sqe->rw_flags = rwf;
            io_uring_sqe_set_data(sqe, (void *)write);
            queued++;
        }
        if (submit(ring, queued, failure))
            return -1; /* the ring is unusable; the caller gives up and exits */
        in_flight += queued;

        const struct wal_write *write;
        int result;

        if (reap(ring, &result, &write, failure))
            return -1;
        in_flight--;
        if (result <= 0)
            failed = wal_fail(failure, result < 0 ? -result : EIO, "io_uring write");
        else if (wal_write_rest(write, (size_t)result, rwf, failure))
            failed = -1;
    }
    return failed;
}

static int uring_sync(struct wal_engine *engine, int fd, bool data_only,
                      struct wal_failure *failure)
{
    struct io_uring *ring = engine->state;
    struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
    const struct wal_write *write;
    int result;

    io_uring_prep_fsync(sqe, fd, data_only ? IORING_FSYNC_DATASYNC : 0);
    io_uring_sqe_set_data(sqe, NULL);
    if (submit(ring, 1, failure) || reap(ring, &result, &write, failure))
        return -1;
    if (result < 0)
        return wal_fail(failure, -result, data_only ? "io_uring fdatasync" : "io_uring fsync");
    return 0;
}

static void uring_close(struct wal_engine *engine)
{
    io_uring_queue_exit(engine->state);
    free(engine->state);
}

int wal_engine_open_io_uring(struct wal_engine *engine, struct wal_failure *failure)
{
    struct io_uring *ring = calloc(1, sizeof(*ring));

    if (!ring)
        return wal_fail(failure, ENOMEM, "malloc");
    int error = io_uring_queue_init(engine->depth, ring, 0);

    if (error) {
        free(ring);
        return wal_fail(failure, -error, "io_uring_setup");
    }
    engine->state = ring;
    engine->write = uring_write;
    engine->sync = uring_sync;
    engine->close = uring_close;
    return 0;
}
