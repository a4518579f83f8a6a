/* SPDX-License-Identifier: Apache-2.0 */
#include "engine.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

int wal_fail(struct wal_failure *failure, int error, const char *format, ...)
{
    va_list args;

    if (failure->error)
        return -1;
    failure->error = error ? error : EIO;
    va_start(args, format);
    vsnprintf(failure->call, sizeof(failure->call), format, args);
    va_end(args);
    return -1;
}

int wal_fail_on(struct wal_failure *failure, const char *path)
{
    size_t used = strlen(failure->call);

    snprintf(failure->call + used, sizeof(failure->call) - used, " on %s", path);
    return -1;
}

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

int wal_engine_open(struct wal_engine *engine, enum wal_engine_kind kind, unsigned depth,
                    struct wal_failure *failure)
{
    *engine = (struct wal_engine){
        .depth = depth,
        .write = pwrite_all,
        .sync = wal_sync_call,
        .close = pwrite_close,
    };
    switch (kind) {
    case WAL_ENGINE_PWRITE:
        return 0;
    case WAL_ENGINE_LIBAIO:
        return wal_engine_open_libaio(engine, failure);
    case WAL_ENGINE_IO_URING:
        return wal_engine_open_io_uring(engine, failure);
    }
    return wal_fail(failure, EINVAL, "open an engine");
}
