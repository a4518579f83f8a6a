/* SPDX-License-Identifier: Apache-2.0
 *
 * `wal read`: classifies every slot that could hold a record and reports extents.
 * It says what it sees; which records had to be there is judged elsewhere.
 */
#ifndef POWERCUT_WAL_READER_H
#define POWERCUT_WAL_READER_H

#include "classify.h"
#include "config.h"
#include "failure.h"

/* Takes the findings of a scan in the order of the slots.  Returns 0, or -errno to stop. */
struct wal_sink {
    int (*extent)(void *target, const struct pc_extent *extent);
    int (*fact)(void *target, const char *fact);
    void *target;
};

/* Scans the log that `config` describes.  -1: `failure` or `problems` says why, and the
 * findings are incomplete. */
int wal_scan(const struct wal_config *config, const struct wal_sink *sink,
             struct pc_problems *problems, struct wal_failure *failure);

/* Scans and sends FACTs and EXTENTs.  Returns the exit status: 0; 1 after an error, which
 * was sent; 2 if refused. */
int wal_read_run(const struct wal_config *config, int channel);

#endif
