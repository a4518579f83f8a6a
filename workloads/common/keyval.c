/* SPDX-License-Identifier: Apache-2.0 */
#include "keyval.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEYS_MAX 64

void pc_problem(struct pc_problems *problems, const char *format, ...)
{
    size_t room = sizeof(problems->text) - problems->used;
    char line[512];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    int n = snprintf(problems->text + problems->used, room, "%s%s",
                     problems->count ? "; " : "", line);

    if (n > 0)
        problems->used += (size_t)n < room ? (size_t)n : room - 1;
    problems->count++;
}

bool pc_parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *value)
{
    char *end;

    if (*text < '0' || *text > '9') /* strtoull would take signs and blanks */
        return false;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);

    if (errno || *end || number < min || number > max)
        return false;
    *value = number;
    return true;
}

static bool parse_choice(const char *text, const char *const *choices, int *value)
{
    for (int i = 0; choices[i]; i++) {
        if (strcmp(choices[i], text) == 0) {
            *value = i;
            return true;
        }
    }
    return false;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static bool parse_hex16(const char *text, uint8_t value[16])
{
    if (strlen(text) != 32)
        return false;
    for (int i = 0; i < 16; i++) {
        int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        value[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static void list_choices(const char *const *choices, char *out, size_t room)
{
    size_t used = 0;

    out[0] = 0;
    for (int i = 0; choices[i] && used < room; i++)
        used += (size_t)snprintf(out + used, room - used, "%s%s", i ? ", " : "", choices[i]);
}

static void parse_value(const struct pc_key *key, const char *text, struct pc_problems *problems)
{
    char list[256];

    switch (key->kind) {
    case PC_VALUE_TEXT:
        if (!*text)
            pc_problem(problems, "%s= is empty", key->name);
        *(const char **)key->target = text;
        break;
    case PC_VALUE_NUMBER:
        if (!pc_parse_number(text, key->min, key->max, key->target))
            pc_problem(problems, "%s=%.64s: not a whole number from %" PRIu64 " to %" PRIu64,
                       key->name, text, key->min, key->max);
        break;
    case PC_VALUE_CHOICE:
        list_choices(key->choices, list, sizeof(list));
        if (!parse_choice(text, key->choices, key->target))
            pc_problem(problems, "%s=%.64s: not one of %s", key->name, text, list);
        break;
    case PC_VALUE_HEX16:
        if (!parse_hex16(text, key->target))
            pc_problem(problems, "%s=%.64s: not 32 hexadecimal digits", key->name, text);
        break;
    }
}

void pc_keyval_parse(char *const *argv, const struct pc_key *keys, struct pc_problems *problems)
{
    bool seen[KEYS_MAX] = {false};

    for (; *argv; argv++) {
        const char *equals = strchr(*argv, '=');
        size_t length = equals ? (size_t)(equals - *argv) : 0;
        size_t row = 0;

        if (!equals) {
            pc_problem(problems, "'%.64s': not of the form key=value", *argv);
            continue;
        }
        while (keys[row].name && (strncmp(keys[row].name, *argv, length) != 0 ||
                                  keys[row].name[length] != 0))
            row++;
        if (!keys[row].name) {
            pc_problem(problems, "no such key: '%.*s'", (int)(length < 64 ? length : 64), *argv);
        } else if (keys[row].refusal) {
            pc_problem(problems, "%s: %s", keys[row].name, keys[row].refusal);
        } else if (row < KEYS_MAX && seen[row]) {
            pc_problem(problems, "%s is given twice", keys[row].name);
        } else {
            parse_value(&keys[row], equals + 1, problems);
            if (row < KEYS_MAX)
                seen[row] = true;
            if (keys[row].given)
                *keys[row].given = true;
        }
    }
}
