/* SPDX-License-Identifier: Apache-2.0 */
#include "engines.h"

#include <errno.h>

int wal_engine_open(struct wal_engine *engine, enum wal_engine_kind kind, unsigned depth,
                    struct wal_failure *failure)
{
    *engine = (struct wal_engine){.depth = depth};
    switch (kind) {
    case WAL_ENGINE_PWRITE:
        return wal_engine_open_pwrite(engine);
    case WAL_ENGINE_LIBAIO:
        return wal_engine_open_libaio(engine, failure);
    case WAL_ENGINE_IO_URING:
        return wal_engine_open_io_uring(engine, failure);
    }
    return wal_fail(failure, EINVAL, "open an engine");
}
