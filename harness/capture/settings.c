/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#define NBDKIT_API_VERSION 2

#include "settings.h"

#include <errno.h>
#include <inttypes.h>
#include <nbdkit-plugin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct capture_config capture_config = {
    .volatile_cache = true,
    .offer_flush = true,
    .flush_honoured = true,
    .fua_honoured = true,
    .atomic_unit = 512,
    .owner_fd = -1,
};

static int set_path(const char *key, const char *value, void *field)
{
    (void)key;
    char **path = field;
    free(*path);
    *path = nbdkit_absolute_path(value);
    return *path ? 0 : -1;
}

static int set_choice(const char *key, const char *value, bool *field, const char *yes,
                      const char *no)
{
    if (strcmp(value, yes) && strcmp(value, no)) {
        nbdkit_error("%s=%s: must be %s or %s", key, value, yes, no);
        return -1;
    }
    *field = !strcmp(value, yes);
    return 0;
}

static int set_on_off(const char *key, const char *value, void *field)
{
    return set_choice(key, value, field, "on", "off");
}

static int set_honoured(const char *key, const char *value, void *field)
{
    return set_choice(key, value, field, "honoured", "ignored");
}

static int set_size(const char *key, const char *value, void *field)
{
    int64_t size = nbdkit_parse_size(value);
    if (size < 0) {
        nbdkit_error("%s=%s: must be a size in bytes", key, value);
        return -1;
    }
    *(uint64_t *)field = (uint64_t)size;
    return 0;
}

static int set_latency(const char *key, const char *value, void *field)
{
    int64_t ns;
    if (nbdkit_parse_int64_t(key, value, &ns) < 0)
        return -1;
    if (ns < 0 || ns > 60000000000) {
        nbdkit_error("%s=%s: must be nanoseconds from 0 to 60000000000", key, value);
        return -1;
    }
    *(uint64_t *)field = (uint64_t)ns;
    return 0;
}

static int set_atomic_unit(const char *key, const char *value, void *field)
{
    uint32_t unit;
    if (nbdkit_parse_uint32_t(key, value, &unit) < 0)
        return -1;
    if (unit != 1 && (unit < 512 || unit > 65536 || (unit & (unit - 1)))) {
        nbdkit_error("%s=%s: must be 1 (no unit), or a power of two from 512 to 65536", key, value);
        return -1;
    }
    *(uint32_t *)field = unit;
    return 0;
}

static int set_hex(const char *key, const char *value, uint8_t *bytes, size_t count)
{
    size_t digits = strspn(value, "0123456789abcdefABCDEF");
    if (digits != 2 * count || value[digits]) {
        nbdkit_error("%s=%s: must be %zu hexadecimal digits", key, value, 2 * count);
        return -1;
    }
    for (size_t i = 0; i < count; i++) {
        char pair[3] = {value[2 * i], value[2 * i + 1], 0};
        bytes[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return 0;
}

static int set_run_id(const char *key, const char *value, void *field)
{
    return set_hex(key, value, field, sizeof capture_config.run_id);
}

static int set_binding(const char *key, const char *value, void *field)
{
    return set_hex(key, value, field, sizeof capture_config.binding);
}

static int set_seed(const char *key, const char *value, void *field)
{
    return nbdkit_parse_uint64_t(key, value, field);
}

static int set_text(const char *key, const char *value, void *field)
{
    char *copy = strdup(value);
    if (!copy) {
        nbdkit_error("%s: %s", key, strerror(errno));
        return -1;
    }
    free(*(char **)field);
    *(char **)field = copy;
    return 0;
}

static int set_fd(const char *key, const char *value, void *field)
{
    return nbdkit_parse_int(key, value, field);
}

static bool honours(const char *word, bool *honoured)
{
    *honoured = !strcmp(word, "honoured");
    return *honoured || !strcmp(word, "ignored");
}

/* NAME:OFFSET:LENGTH:FLUSH:FUA, numbers in bytes; with :silent its clients are told of no flush. */
static int set_part(const char *key, const char *value, void *field)
{
    struct disk_part *parts = field, part = {0};
    char flush[9], fua[9];
    int end = 0;
    if (capture_config.parts_count == PARTS_MAX) {
        nbdkit_error("%s=%s: more than %d", key, value, PARTS_MAX);
        return -1;
    }
    if (sscanf(value, "%31[a-z0-9-]:%" SCNu64 ":%" SCNu64 ":%8[a-z]:%8[a-z]%n", part.name,
               &part.offset, &part.length, flush, fua, &end) != 5 ||
        (value[end] && strcmp(value + end, ":silent")) || !honours(flush, &part.flush_honoured) ||
        !honours(fua, &part.fua_honoured)) {
        nbdkit_error("%s=%s: must be NAME:OFFSET:LENGTH:FLUSH:FUA[:silent]", key, value);
        return -1;
    }
    part.silent = value[end] != '\0';
    parts[capture_config.parts_count++] = part;
    return 0;
}

static int set_error(const char *key, const char *value, void *field)
{
    if (injection_parse(value, field))
        return 0;
    nbdkit_error("%s=%s: must be ON:WHEN:VALUE:ERROR:TIMES:THEN[:SECTOR:SECTORS], up to %d times",
                 key, value, INJECTIONS_MAX);
    return -1;
}

static const struct setting {
    const char *key;
    int (*set)(const char *key, const char *value, void *field);
    void *field;
} settings[] = {
    {"base", set_path, &capture_config.base},
    {"log", set_path, &capture_config.log},
    {"control", set_path, &capture_config.control},
    {"control-fd", set_fd, &capture_config.owner_fd},
    {"directory", set_path, &capture_config.directory},
    {"run-id", set_run_id, capture_config.run_id},
    {"binding", set_binding, capture_config.binding},
    {"seed", set_seed, &capture_config.seed},
    {"cell", set_text, &capture_config.cell},
    {"part", set_part, capture_config.parts},
    {"error", set_error, &capture_config.injections},
    {"volatile-cache", set_on_off, &capture_config.volatile_cache},
    {"offer-flush", set_on_off, &capture_config.offer_flush},
    {"flush", set_honoured, &capture_config.flush_honoured},
    {"fua", set_honoured, &capture_config.fua_honoured},
    {"ordered", set_on_off, &capture_config.ordered},
    {"atomic-unit", set_atomic_unit, &capture_config.atomic_unit},
    {"cache-size", set_size, &capture_config.cache_size},
    {"flush-latency-ns", set_latency, &capture_config.flush_latency_ns},
    {"fua-latency-ns", set_latency, &capture_config.fua_latency_ns},
    {"slow", set_on_off, &capture_config.slow},
};

int settings_set(const char *key, const char *value)
{
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (!strcmp(key, settings[i].key))
            return settings[i].set(key, value, settings[i].field);
    nbdkit_error("%s=%s: no such parameter", key, value);
    return -1;
}

int settings_complete(void)
{
    if (!capture_config.base) {
        nbdkit_error("base=FILE is missing");
        return -1;
    }
    return 0;
}
