/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <libaio.h>
#include <stdlib.h>

#include "engine.h"

struct aio {
    io_context_t context;
    struct iocb *free_list[1024]; /* as many as config.c allows in flight */
    struct iocb iocbs[1024];
    const struct wal_write *write_of[1024];
    unsigned free_count;
};

static int submit(struct aio *aio, const struct wal_write *write, int rwf,
                  struct wal_failure *failure)
{
    struct iocb *iocb = aio->free_list[aio->free_count - 1];

    io_prep_pwrite(iocb, write->fd, (void *)write->data, write->length, (long long)write->offset);
    iocb->aio_rw_flags = rwf;
    aio->write_of[iocb - aio->iocbs] = write;
    for (;;) {
        int n = io_submit(aio->context, 1, &iocb);

        if (n == 1)
            break;
        if (n != -EINTR && n != -EAGAIN)
            return wal_fail(failure, n < 0 ? -n : EIO, "io_submit");
    }
    aio->free_count--;
    return 0;
}

/* Waits for at least one completion. */
static int reap(struct aio *aio, int rwf, struct wal_failure *failure)
{
    struct io_event events[64];
    int n, failed = 0;

    do {
        n = io_getevents(aio->context, 1, 64, events, NULL);
    } while (n == -EINTR);
    if (n < 0)
        return wal_fail(failure, -n, "io_getevents");
    for (int i = 0; i < n; i++) {
        const struct wal_write *write = aio->write_of[events[i].obj - aio->iocbs];
        long result = (long)events[i].res;

        aio->free_list[aio->free_count++] = events[i].obj;
        if (result <= 0)
            failed = wal_fail(failure, result < 0 ? (int)-result : EIO, "io_submit (write)");
        else if (wal_write_rest(write, (size_t)result, rwf, failure))
            failed = -1;
    }
    return failed;
}

static int aio_write(struct wal_engine *engine, const struct wal_write *writes, size_t count,
                     int rwf, struct wal_failure *failure)
{
    struct aio *aio = engine->state;
    size_t next = 0;
    int failed = 0;

    while (next < count || aio->free_count < engine->depth) {
        if (!failed && next < count && aio->free_count) {
            failed = submit(aio, &writes[next++], rwf, failure);
            continue;
        }
        if (aio->free_count == engine->depth)
            break;
        /* Also after an error: the buffers stay ours only when nothing is in flight. */
        unsigned before = aio->free_count;

        if (reap(aio, rwf, failure)) {
            failed = -1;
            if (aio->free_count == before)
                break; /* io_getevents itself failed: there is nothing to wait with */
        }
    }
    return failed;
}

static void aio_close(struct wal_engine *engine)
{
    struct aio *aio = engine->state;

    io_destroy(aio->context);
    free(aio);
}

int wal_engine_open_libaio(struct wal_engine *engine, struct wal_failure *failure)
{
    struct aio *aio = calloc(1, sizeof(*aio));

    if (!aio)
        return wal_fail(failure, ENOMEM, "malloc");
    int error = io_setup((int)engine->depth, &aio->context);

    if (error) {
        free(aio);
        return wal_fail(failure, -error, "io_setup");
    }
    for (unsigned i = 0; i < engine->depth; i++)
        aio->free_list[aio->free_count++] = &aio->iocbs[i];
    engine->state = aio;
    engine->write = aio_write;
    engine->sync = wal_sync_call;
    engine->close = aio_close;
    return 0;
}
