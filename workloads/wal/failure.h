/* SPDX-License-Identifier: Apache-2.0
 *
 * What a function that returned -1 leaves behind.
 */
#ifndef POWERCUT_WAL_FAILURE_H
#define POWERCUT_WAL_FAILURE_H

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

#endif
