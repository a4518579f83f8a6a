/* SPDX-License-Identifier: Apache-2.0
 *
 * "key=value" arguments: one table row per key; every problem is collected, so
 * that a user sees all of them at once.
 */
#ifndef POWERCUT_KEYVAL_H
#define POWERCUT_KEYVAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is wrong with the arguments, "; " between the reasons. */
struct pc_problems {
    unsigned count;
    size_t used;
    char text[4096];
};

void pc_problem(struct pc_problems *problems, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

enum pc_value_kind {
    PC_VALUE_TEXT,   /* const char **: points into argv */
    PC_VALUE_NUMBER, /* uint64_t *: decimal, between min and max */
    PC_VALUE_CHOICE, /* int *: the index in `choices` */
    PC_VALUE_HEX16   /* uint8_t[16]: 32 hexadecimal digits */
};

struct pc_key {
    const char *name;
    enum pc_value_kind kind;
    void *target;
    uint64_t min, max;          /* PC_VALUE_NUMBER */
    const char *const *choices; /* PC_VALUE_CHOICE: NULL-terminated */
    bool *given;                /* set if the key occurs; may be NULL */
    const char *refusal;        /* if not NULL the key is known, but not welcome: why */
};

/* Parses a decimal number; false if it is none or out of range. */
bool pc_parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *value);

/* Parses NULL-terminated `argv` by `keys` (ended by a NULL name).  Problems are added. */
void pc_keyval_parse(char *const *argv, const struct pc_key *keys, struct pc_problems *problems);

#endif
