/* SPDX-License-Identifier: Apache-2.0
 *
 * How writes reach the kernel.  One thread uses an engine at a time.
 */
#ifndef POWERCUT_WAL_ENGINE_H
#define POWERCUT_WAL_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "failure.h"

struct wal_write {
    int fd;
    const uint8_t *data;
    size_t length;
    uint64_t offset;
};

struct wal_engine {
    unsigned depth; /* writes in flight */
    void *state;

    /* Returns 0 once every write has completed in full, in any order.  After an error
     * nothing is in flight any more.  `rwf`: RWF_DSYNC or 0. */
    int (*write)(struct wal_engine *engine, const struct wal_write *writes, size_t count, int rwf,
                 struct wal_failure *failure);

    /* fsync, or fdatasync if `data_only`. */
    int (*sync)(struct wal_engine *engine, int fd, bool data_only, struct wal_failure *failure);

    void (*close)(struct wal_engine *engine);
};

/* One for each kind; `depth` is set.  -1: see `failure`. */
int wal_engine_open_pwrite(struct wal_engine *engine);
int wal_engine_open_libaio(struct wal_engine *engine, struct wal_failure *failure);
int wal_engine_open_io_uring(struct wal_engine *engine, struct wal_failure *failure);

/* In engine_pwrite.c, for the other engines as well: writes synchronously what is left of `write` after its first `done` bytes. */
int wal_write_rest(const struct wal_write *write, size_t done, int rwf,
                   struct wal_failure *failure);

/* fsync or fdatasync by system call. */
int wal_sync_call(struct wal_engine *engine, int fd, bool data_only, struct wal_failure *failure);

#endif
