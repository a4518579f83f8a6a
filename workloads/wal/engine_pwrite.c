/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine of plain system calls, and the calls that other engines borrow from it.
 */
#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#include "engine.h"

int wal_write_rest(const struct wal_write *write, size_t done, int rwf, struct wal_failure *failure)
{
    while (done < write->length) {
        struct iovec rest = {(void *)(write->data + done), write->length - done};
        off_t offset = (off_t)(write->offset + done);
        ssize_t n = rwf ? pwritev2(write->fd, &rest, 1, offset, rwf)
                        : pwrite(write->fd, rest.iov_base, rest.iov_len, offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return wal_fail(failure, n < 0 ? errno : EIO, rwf ? "pwritev2" : "pwrite");
        done += (size_t)n;
    }
    return 0;
}

int wal_sync_call(struct wal_engine *engine, int fd, bool data_only, struct wal_failure *failure)
{
    (void)engine;
    if ((data_only ? fdatasync(fd) : fsync(fd)) != 0)
        return wal_fail(failure, errno, data_only ? "fdatasync" : "fsync");
    return 0;
}

static int pwrite_all(struct wal_engine *engine, const struct wal_write *writes, size_t count,
                      int rwf, struct wal_failure *failure)
{
    (void)engine;
    for (size_t i = 0; i < count; i++) {
        if (wal_write_rest(&writes[i], 0, rwf, failure))
            return -1;
    }
    return 0;
}

static void pwrite_close(struct wal_engine *engine)
{
    (void)engine;
}

int wal_engine_open_pwrite(struct wal_engine *engine)
{
    engine->write = pwrite_all;
    engine->sync = wal_sync_call;
    engine->close = pwrite_close;
    return 0;
}
