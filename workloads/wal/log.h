/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of a log that is written: creating them, finding them, making their
 * names durable.
 *
 * A file that the run creates is `fresh` until wal_log_settle() has synced it
 * and its directory; no record in it may be acknowledged before (fsync(2): a
 * file's fsync does not make its directory entry durable).
 */
#ifndef POWERCUT_WAL_LOG_H
#define POWERCUT_WAL_LOG_H

#include "config.h"
#include "engine.h"
#include "record.h"

#define WAL_BLOCK_MAX 65536u /* the largest O_DIRECT block we go along with */

/* A group commit spans two segments at most; a planted fault may look at the one before. */
#define WAL_FILES 3

struct wal_file {
    int fd; /* -1: none */
    uint64_t index;
    bool fresh;
};

struct wal_log {
    const struct wal_config *config;
    struct wal_layout layout;
    uint32_t unit;     /* writes are multiples of it: 1, or the O_DIRECT block */
    int directory;     /* that names the files; -1: raw */
    unsigned next_file;/* the entry of `files` that is replaced next */
    struct wal_file files[WAL_FILES];
    uint8_t *scratch;  /* for unaligned access under O_DIRECT */
};

/* Opens (first_lsn=1: makes) the log; pre-writes it if the layout says so, durably.
 * -1: `failure` or `problems` says why. */
int wal_log_open(struct wal_log *log, const struct wal_config *config,
                 struct pc_problems *problems, struct wal_failure *failure);

void wal_log_close(struct wal_log *log);

/* The open file of that index; NULL: `failure` says why. */
struct wal_file *wal_log_file(struct wal_log *log, uint64_t index, struct wal_failure *failure);

/* Makes the names of fresh files durable. */
int wal_log_settle(struct wal_log *log, struct wal_failure *failure);

/* Reads at any offset, zeroes past the end. */
int wal_log_read(struct wal_log *log, int fd, uint64_t offset, uint8_t *data, size_t length,
                 struct wal_failure *failure);

/* Writes at any offset, if need be by rewriting the blocks around.  For planted faults. */
int wal_log_patch(struct wal_log *log, int fd, uint64_t offset, const uint8_t *data,
                  size_t length, struct wal_failure *failure);

#endif
