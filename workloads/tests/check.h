/* SPDX-License-Identifier: Apache-2.0
 *
 * The least that a test needs: CHECK() that says what it compared, and a status.
 */
#ifndef POWERCUT_CHECK_H
#define POWERCUT_CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned check_failures;

#define CHECK(condition, ...)                                                                  \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition);                    \
            fprintf(stderr, __VA_ARGS__);                                                      \
            fputc('\n', stderr);                                                               \
            if (++check_failures > 20) {                                                       \
                fprintf(stderr, "too many failures\n");                                        \
                exit(1);                                                                       \
            }                                                                                  \
        }                                                                                      \
    } while (0)

#define CHECK_EQUAL(actual, expected)                                                          \
    do {                                                                                       \
        unsigned long long actual_ = (actual), expected_ = (expected);                         \
        CHECK(actual_ == expected_, "%s is %llu, not %llu", #actual, actual_, expected_);      \
    } while (0)

static inline int check_status(const char *name)
{
    printf("%s: %s\n", name, check_failures ? "FAILED" : "ok");
    return check_failures != 0;
}

/* xorshift64*: the same numbers in every run. */
static inline uint64_t check_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1dull;
}

#endif
