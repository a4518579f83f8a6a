/* SPDX-License-Identifier: Apache-2.0
 *
 * The capture disk as an nbdkit plugin: configuration and callbacks.
 */
#define _GNU_SOURCE
#define NBDKIT_API_VERSION 2
#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

#include <errno.h>
#include <nbdkit-plugin.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control.h"
#include "disk.h"

/* --- configuration --------------------------------------------------------- */

static struct {
    char *base, *log, *control, *directory, *cell;
    uint8_t run_id[16], binding[32];
    uint64_t seed;
    bool volatile_cache, offer_flush, flush_honoured, fua_honoured, ordered;
    uint32_t atomic_unit;
    uint64_t cache_size, flush_latency_ns, fua_latency_ns;
    int owner_fd;
} config = {
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
    return set_hex(key, value, field, sizeof config.run_id);
}

static int set_binding(const char *key, const char *value, void *field)
{
    return set_hex(key, value, field, sizeof config.binding);
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

static const struct setting {
    const char *key;
    int (*set)(const char *key, const char *value, void *field);
    void *field;
} settings[] = {
    {"base", set_path, &config.base},
    {"log", set_path, &config.log},
    {"control", set_path, &config.control},
    {"control-fd", set_fd, &config.owner_fd},
    {"directory", set_path, &config.directory},
    {"run-id", set_run_id, config.run_id},
    {"binding", set_binding, config.binding},
    {"seed", set_seed, &config.seed},
    {"cell", set_text, &config.cell},
    {"volatile-cache", set_on_off, &config.volatile_cache},
    {"offer-flush", set_on_off, &config.offer_flush},
    {"flush", set_honoured, &config.flush_honoured},
    {"fua", set_honoured, &config.fua_honoured},
    {"ordered", set_on_off, &config.ordered},
    {"atomic-unit", set_atomic_unit, &config.atomic_unit},
    {"cache-size", set_size, &config.cache_size},
    {"flush-latency-ns", set_latency, &config.flush_latency_ns},
    {"fua-latency-ns", set_latency, &config.fua_latency_ns},
};

#define HELP                                                                       \
    "base=FILE           (required) What the disk holds at first; never modified.\n" \
    "log=PREFIX          Record into PREFIX.log and PREFIX.data, which must be new.\n" \
    "run-id=HEX  binding=HEX  seed=N  cell=TEXT  Whose log it is, for its header.\n" \
    "control=SOCKET      Listen there for control commands.\n"                      \
    "control-fd=N        Inherited control connection; its end ends the disk.\n"    \
    "directory=DIR       Removed, with the sockets in it, when the disk ends.\n"    \
    "volatile-cache=on|off  flush=honoured|ignored  fua=honoured|ignored\n"         \
    "offer-flush=on|off  off: the client is told that there is no flush.\n"         \
    "ordered=on|off      Recorded promise; the cache destages in order anyway.\n"   \
    "atomic-unit=N       Bytes that never tear: 1, or 512 to 65536 (512).\n"        \
    "cache-size=SIZE     A fuller cache destages its oldest writes; 0: unlimited.\n" \
    "flush-latency-ns=N  fua-latency-ns=N  How long a flush and a FUA write take (0)."

static int capture_config(const char *key, const char *value)
{
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (!strcmp(key, settings[i].key))
            return settings[i].set(key, value, settings[i].field);
    nbdkit_error("%s=%s: no such parameter", key, value);
    return -1;
}

static int capture_config_complete(void)
{
    if (!config.base) {
        nbdkit_error("base=FILE is missing");
        return -1;
    }
    return 0;
}

/* --- life -------------------------------------------------------------------- */

static struct disk *disk;
static struct control *control;

static bool sleep_ns(uint64_t ns)
{
    return nbdkit_nanosleep((unsigned)(ns / 1000000000), (unsigned)(ns % 1000000000)) == 0;
}

/* The directory of sockets is our starter's, who may have been killed. */
static void remove_directory(const char *directory)
{
    static const char *const names[] = {"nbd", "control"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path;
        if (asprintf(&path, "%s/%s", directory, names[i]) < 0)
            return;
        unlink(path);
        free(path);
    }
    rmdir(directory);
}

/* A server that is asked to shut down waits for its clients to leave, who may stay for
 * ever.  The log is closed and nothing else is worth keeping, so nobody is waited for. */
static void stop_at_once(void)
{
    if (config.control)
        unlink(config.control);
    if (config.directory)
        remove_directory(config.directory);
    _exit(0);
}

static int capture_get_ready(void)
{
    /* A limit on file sizes must come back as EFBIG, not kill the disk. */
    signal(SIGXFSZ, SIG_IGN);
    struct control_config wanted = {
        .socket = config.control, .owner_fd = config.owner_fd, .stop = stop_at_once};
    int error = control_bind(&control, &wanted);
    if (error) {
        nbdkit_error("control=%s, control-fd=%d: %s", config.control ? config.control : "(none)",
                     config.owner_fd, strerror(error));
        return -1;
    }
    struct disk_config contract = {
        .base = config.base,
        .log = config.log,
        .contract = (config.volatile_cache ? PCLOG_VOLATILE_CACHE : 0u) |
                    (config.flush_honoured ? PCLOG_FLUSH_HONOURED : 0u) |
                    (config.fua_honoured ? PCLOG_FUA_HONOURED : 0u) |
                    (config.ordered ? PCLOG_ORDERED : 0u),
        .atomic_unit = config.atomic_unit,
        .cache_size = config.cache_size,
        .flush_latency_ns = config.flush_latency_ns,
        .fua_latency_ns = config.fua_latency_ns,
        .seed = config.seed,
        .cell = config.cell,
        .sleep_ns = sleep_ns,
        .on_stopped = control_stopped,
        .context = control,
    };
    memcpy(contract.run_id, config.run_id, sizeof contract.run_id);
    memcpy(contract.binding, config.binding, sizeof contract.binding);
    char message[4096];
    if (disk_open(&disk, &contract, message, sizeof message)) {
        nbdkit_error("%s", message);
        return -1;
    }
    return 0;
}

static int capture_after_fork(void)
{
    int error = control_start(control, disk);
    if (error)
        nbdkit_error("control thread: %s", strerror(error));
    return error ? -1 : 0;
}

static void capture_cleanup(void)
{
    control_stop(control);
    control = NULL;
    int error = disk_close(disk);
    if (error)
        nbdkit_error("log=%s: %s", config.log, strerror(error));
    disk_destroy(disk);
    disk = NULL;
}

static void capture_unload(void)
{
    if (config.directory)
        remove_directory(config.directory);
    free(config.base);
    free(config.log);
    free(config.control);
    free(config.directory);
    free(config.cell);
}

/* --- callbacks ------------------------------------------------------------------ */

static void *capture_open(int readonly)
{
    (void)readonly;
    struct connection *connection;
    int error = disk_connect(disk, &connection);
    if (error) {
        nbdkit_error("%s", strerror(error));
        return NULL;
    }
    return connection;
}

static void capture_close(void *handle)
{
    disk_disconnect(handle);
}

static int64_t capture_get_size(void *handle)
{
    (void)handle;
    return (int64_t)disk_size(disk);
}

static int answer_yes(void *handle)
{
    (void)handle;
    return 1;
}

/* QEMU sends flushes and FUA to an NBD server that offers them, even under cache=unsafe;
 * where it must drop the guest's flushes as it does on a file, the disk offers neither. */
static int capture_can_flush(void *handle)
{
    (void)handle;
    return config.offer_flush;
}

static int capture_can_fua(void *handle)
{
    (void)handle;
    return config.offer_flush ? NBDKIT_FUA_NATIVE : NBDKIT_FUA_NONE;
}

static int capture_block_size(void *handle, uint32_t *minimum, uint32_t *preferred,
                              uint32_t *maximum)
{
    (void)handle;
    *minimum = 512;
    *preferred = 4096;
    *maximum = UINT32_MAX; /* the server's own limit applies */
    return 0;
}

static int result(int error)
{
    if (!error)
        return 0;
    errno = error;
    return -1;
}

static int capture_pread(void *handle, void *buffer, uint32_t count, uint64_t offset,
                         uint32_t flags)
{
    (void)flags;
    return result(disk_read(handle, buffer, count, offset));
}

static int capture_pwrite(void *handle, const void *buffer, uint32_t count, uint64_t offset,
                          uint32_t flags)
{
    return result(
        disk_write(handle, PCLOG_WRITE, buffer, count, offset, flags & NBDKIT_FLAG_FUA));
}

static int capture_zero(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
    return result(disk_write(handle, PCLOG_ZERO, NULL, count, offset, flags & NBDKIT_FLAG_FUA));
}

static int capture_trim(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
    return result(disk_write(handle, PCLOG_DISCARD, NULL, count, offset, flags & NBDKIT_FLAG_FUA));
}

static int capture_flush(void *handle, uint32_t flags)
{
    (void)flags;
    return result(disk_flush(handle));
}

static struct nbdkit_plugin plugin = {
    .name = "capture",
    .longname = "powercut capture disk",
    .description = "A disk with a volatile cache that records every request and can lose power.",
    .errno_is_preserved = 1,
    .config = capture_config,
    .config_complete = capture_config_complete,
    .config_help = HELP,
    .get_ready = capture_get_ready,
    .after_fork = capture_after_fork,
    .cleanup = capture_cleanup,
    .unload = capture_unload,
    .open = capture_open,
    .close = capture_close,
    .get_size = capture_get_size,
    .can_write = answer_yes,
    .can_flush = capture_can_flush,
    .can_trim = answer_yes,
    .can_zero = answer_yes,
    .can_fast_zero = answer_yes,
    .can_fua = capture_can_fua,
    .can_multi_conn = answer_yes,
    .block_size = capture_block_size,
    .pread = capture_pread,
    .pwrite = capture_pwrite,
    .zero = capture_zero,
    .trim = capture_trim,
    .flush = capture_flush,
};

NBDKIT_REGISTER_PLUGIN(plugin)
