/* SPDX-License-Identifier: Apache-2.0
 *
 * A disk for one test, without NBD.  The hook through which the disk sleeps runs without its
 * lock, so a test can let things happen in the midst of a request without any thread.
 */
#ifndef POWERCUT_CAPTURE_CORE_FIXTURE_H
#define POWERCUT_CAPTURE_CORE_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>

#include "disk.h"

#define CHECK(condition)                                                       \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);    \
            exit(1);                                                           \
        }                                                                      \
    } while (0)

enum { DISK_BYTES = 64 << 10, PAGE = 4096 };

extern struct disk *disk;
extern struct connection *one, *two;
extern const struct disk_config honest;

/* What happens while the next request of this thread sleeps. */
extern _Thread_local void (*during_sleep)(void);
/* How long the last request of this thread that slept was to do so. */
extern _Thread_local uint64_t slept_ns;

void make_directory(void);
void remove_directory(void);
/* A file in the directory; the last four stay valid. */
const char *path_of(const char *name);

/* A disk of DISK_BYTES times 'B', and connections to it, or to its first two parts. */
void start(struct disk_config config);
void finish(void);
int put(struct connection *connection, uint64_t offset, uint64_t count, char letter, bool fua);
struct cut_report cut(enum pclog_policy policy, uint64_t seed);
/* The letter in each of the first `sectors` sectors after a cut, '!' where they are mixed. */
const char *letters(int sectors);
const char *letters_of(const char *part, int sectors);

/* slow_test.c */
void test_slow(void);

/* stop_test.c */
void test_stops(void);

/* injected_test.c */
void test_injected(void);

/* parts_test.c */
void test_parts(void);

#endif
