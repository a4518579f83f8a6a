/* SPDX-License-Identifier: Apache-2.0
 *
 * How writes reach the kernel.  One thread uses an engine at a time.
 */
#ifndef POWERCUT_WAL_ENGINE_H
#define POWERCUT_WAL_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"

/* The first call that failed: -1 is returned, and this says which call on what. */
struct wal_failure {
    int error; /* errno; 0: nothing failed */
    char call[512];
};

/* Notes the first failure only; always returns -1. */
int wal_fail(struct wal_failure *failure, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds " on PATH" to the failure of a call that knows no names; always returns -1. */
int wal_fail_on(struct wal_failure *failure, const char *path);

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

int wal_engine_open(struct wal_engine *engine, enum wal_engine_kind kind, unsigned depth,
                    struct wal_failure *failure);

int wal_engine_open_libaio(struct wal_engine *engine, struct wal_failure *failure);
int wal_engine_open_io_uring(struct wal_engine *engine, struct wal_failure *failure);

/* Writes synchronously what is left of `write` after its first `done` bytes. */
int wal_write_rest(const struct wal_write *write, size_t done, int rwf,
                   struct wal_failure *failure);

/* fsync or fdatasync by system call. */
int wal_sync_call(struct wal_engine *engine, int fd, bool data_only, struct wal_failure *failure);

#endif
