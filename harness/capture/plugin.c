/* SPDX-License-Identifier: Apache-2.0
 *
 * The capture disk as an nbdkit plugin: its life and its callbacks.
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
#include "settings.h"

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
    if (capture_config.control)
        unlink(capture_config.control);
    if (capture_config.directory)
        remove_directory(capture_config.directory);
    _exit(0);
}

static int capture_get_ready(void)
{
    /* A limit on file sizes must come back as EFBIG, not kill the disk. */
    signal(SIGXFSZ, SIG_IGN);
    struct control_config channel = {
        .socket = capture_config.control,
        .owner_fd = capture_config.owner_fd,
        .stop = stop_at_once,
    };
    int error = control_bind(&control, &channel);
    if (error) {
        nbdkit_error("control=%s, control-fd=%d: %s", channel.socket ? channel.socket : "(none)",
                     channel.owner_fd, strerror(error));
        return -1;
    }
    struct disk_config contract = {
        .base = capture_config.base,
        .log = capture_config.log,
        .contract = (capture_config.volatile_cache ? PCLOG_VOLATILE_CACHE : 0u) |
                    (capture_config.flush_honoured ? PCLOG_FLUSH_HONOURED : 0u) |
                    (capture_config.fua_honoured ? PCLOG_FUA_HONOURED : 0u) |
                    (capture_config.ordered ? PCLOG_ORDERED : 0u),
        .atomic_unit = capture_config.atomic_unit,
        .cache_size = capture_config.cache_size,
        .flush_latency_ns = capture_config.flush_latency_ns,
        .fua_latency_ns = capture_config.fua_latency_ns,
        .slow = capture_config.slow,
        .seed = capture_config.seed,
        .cell = capture_config.cell,
        .parts = capture_config.parts,
        .parts_count = capture_config.parts_count,
        .injections = &capture_config.injections,
        .sleep_ns = sleep_ns,
        .on_stopped = control_stopped,
        .context = control,
    };
    memcpy(contract.run_id, capture_config.run_id, sizeof contract.run_id);
    memcpy(contract.binding, capture_config.binding, sizeof contract.binding);
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
        nbdkit_error("log=%s: %s", capture_config.log, strerror(error));
    disk_destroy(disk);
    disk = NULL;
}

static void capture_unload(void)
{
    if (capture_config.directory)
        remove_directory(capture_config.directory);
    free(capture_config.base);
    free(capture_config.log);
    free(capture_config.control);
    free(capture_config.directory);
    free(capture_config.cell);
}

/* --- callbacks ------------------------------------------------------------------ */

static void *capture_open(int readonly)
{
    (void)readonly;
    struct connection *connection;
    const char *name = nbdkit_export_name();
    int error = disk_connect(disk, name ? name : "", &connection);
    if (error) {
        nbdkit_error("export %s: %s", name, strerror(error));
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
    return (int64_t)connection_size(handle);
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
    return capture_config.offer_flush && !connection_is_silent(handle);
}

static int capture_can_fua(void *handle)
{
    return capture_can_flush(handle) ? NBDKIT_FUA_NATIVE : NBDKIT_FUA_NONE;
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
    .config = settings_set,
    .config_complete = settings_complete,
    .config_help = SETTINGS_HELP,
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
