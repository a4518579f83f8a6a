/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a disk, its connections, and what may be asked of it besides requests.
 */
#define _GNU_SOURCE
#include "disk_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fail(int error, char *message, size_t space, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, space, format, arguments);
    va_end(arguments);
    return error;
}

/* --- life ---------------------------------------------------------------- */

int disk_start_log(struct disk *disk, const char *prefix, struct log *log)
{
    struct pclog_header header = {
        .kind = disk->config.parts_count ? PCLOG_DISKS : PCLOG_DISK,
        .disk_size = disk->size,
        .atomic_unit = disk->config.atomic_unit,
        .contract = disk->config.contract,
        .cache_size = disk->config.cache_size,
        .flush_latency_ns = disk->config.flush_latency_ns,
        .fua_latency_ns = disk->config.fua_latency_ns,
        .seed = disk->config.seed,
    };
    memcpy(header.run_id, disk->config.run_id, sizeof header.run_id);
    memcpy(header.binding, disk->config.binding, sizeof header.binding);
    if (disk->config.cell)
        memcpy(header.cell, disk->config.cell, strnlen(disk->config.cell, sizeof header.cell));
    if (prefix) {
        char *copy = strdup(prefix);
        char *directory = copy ? strdup(dirname(copy)) : NULL;
        free(copy);
        if (!directory)
            return ENOMEM;
        free(disk->directory);
        disk->directory = directory;
    }
    return log_create(log, prefix, disk->directory ? disk->directory : P_tmpdir, &header);
}

static int open_base(struct disk *disk, const char *path, char *message, size_t space)
{
    disk->store.base_fd = open(path, O_RDONLY | O_CLOEXEC);
    off_t size = disk->store.base_fd < 0 ? -1 : lseek(disk->store.base_fd, 0, SEEK_END);
    if (size < 0)
        return fail(errno, message, space, "base=%s: %s", path, strerror(errno));
    if (size == 0 || size % SECTOR)
        return fail(EINVAL, message, space,
                    "base=%s: its size, %" PRId64 " bytes, is not a multiple of 512 above 0", path,
                    (int64_t)size);
    disk->size = disk->store.size = (uint64_t)size;
    return 0;
}

/* Whole sectors of the disk, each of one part at most, in the order in which they lie. */
static int check_parts(const struct disk *disk, char *message, size_t space)
{
    uint64_t free_from = 0;
    for (size_t i = 0; i < disk->config.parts_count; i++) {
        const struct disk_part *part = &disk->config.parts[i];
        if (!part->length || part->offset % SECTOR || part->length % SECTOR ||
            part->offset < free_from || part->offset > disk->size ||
            part->length > disk->size - part->offset)
            return fail(EINVAL, message, space,
                        "part=%s: not whole sectors of the disk behind those of the part before",
                        part->name);
        free_from = part->offset + part->length;
    }
    return 0;
}

static int open_parts(struct disk *disk, char *message, size_t space)
{
    const struct disk_config *config = &disk->config;
    int error = open_base(disk, config->base, message, space);
    if (error)
        return error;
    error = check_parts(disk, message, space);
    if (error)
        return error;
    error = view_create(&disk->current, disk->size / SECTOR);
    if (!error)
        error = view_create(&disk->medium, disk->size / SECTOR);
    if (error)
        return fail(error, message, space, "base=%s: no memory for the tables of its sectors: %s",
                    config->base, strerror(error));
    error = disk_start_log(disk, config->log, &disk->log);
    if (error)
        return fail(error, message, space, "log=%s: %s", config->log ? config->log : "(none)",
                    strerror(error));
    disk->first_unit = 1;
    error = store_add_segment(&disk->store, disk->first_unit, disk->log.data_fd);
    return error ? fail(error, message, space, "%s", strerror(error)) : 0;
}

int disk_open(struct disk **result, const struct disk_config *config, char *message, size_t space)
{
    struct disk *disk = calloc(1, sizeof *disk);
    if (!disk)
        return fail(ENOMEM, message, space, "%s", strerror(ENOMEM));
    disk->config = *config;
    if (config->injections)
        disk->injections = *config->injections;
    disk->injections.seed = config->seed;
    disk->generation = 1;
    disk->store.base_fd = -1;
    disk->log.event_fd = disk->log.data_fd = -1;
    disk->in_flight.next = disk->in_flight.previous = &disk->in_flight;
    disk->cache.space = 1024;
    disk->cache.items = calloc(disk->cache.space, sizeof *disk->cache.items);
    pthread_mutex_init(&disk->lock, NULL);
    int error = disk->cache.items ? open_parts(disk, message, space)
                                  : fail(ENOMEM, message, space, "%s", strerror(ENOMEM));
    if (error) {
        disk->closed = true;
        disk_destroy(disk);
        return error;
    }
    *result = disk;
    return 0;
}

uint64_t disk_size(const struct disk *disk)
{
    return disk->size;
}

int disk_close(struct disk *disk)
{
    pthread_mutex_lock(&disk->lock);
    int error = 0;
    if (!disk->closed) {
        disk->closed = true;
        error = log_end(&disk->log, disk->counts.requests);
        int settled = log_settle(&disk->log);
        error = error ? error : settled;
    }
    pthread_mutex_unlock(&disk->lock);
    return error;
}

void disk_destroy(struct disk *disk)
{
    disk_close(disk);
    while (disk->in_flight.next != &disk->in_flight) {
        struct in_flight *request = disk->in_flight.next;
        disk->in_flight.next = request->next;
        free(request);
    }
    store_close(&disk->store);
    view_destroy(&disk->current);
    view_destroy(&disk->medium);
    free(disk->cache.items);
    free(disk->directory);
    pthread_mutex_destroy(&disk->lock);
    free(disk);
}

/* --- connections ---------------------------------------------------------- */

uint64_t disk_part_bit(const struct disk *disk, const char *name)
{
    for (size_t i = 0; i < disk->config.parts_count; i++)
        if (!strcmp(disk->config.parts[i].name, name))
            return (uint64_t)1 << i;
    return 0;
}

static struct disk_part part_of(const struct disk *disk, uint64_t bit)
{
    if (bit)
        return disk->config.parts[__builtin_ctzll(bit)];
    return (struct disk_part){
        .length = disk->size,
        .flush_honoured = disk->config.contract & PCLOG_FLUSH_HONOURED,
        .fua_honoured = disk->config.contract & PCLOG_FUA_HONOURED,
    };
}

uint64_t connection_size(const struct connection *connection)
{
    return connection->part.length;
}

bool connection_is_silent(const struct connection *connection)
{
    return connection->part.silent;
}

int disk_connect(struct disk *disk, const char *name, struct connection **result)
{
    uint64_t bit = disk_part_bit(disk, name);
    if (disk->config.parts_count && !bit)
        return ENOENT;
    struct connection *connection = malloc(sizeof *connection);
    if (!connection)
        return ENOMEM;
    pthread_mutex_lock(&disk->lock);
    int error = disk->closed ? EIO : 0;
    if (!error) {
        disk->counts.connections++;
        *connection = (struct connection){.disk = disk,
                                          .part = part_of(disk, bit),
                                          .bit = bit,
                                          .generation = disk->generation,
                                          .number = (uint32_t)disk->counts.connections};
        struct pclog_event event = {.type = PCLOG_CONNECT, .connection = connection->number};
        if (log_admit(&disk->log, 2, 0) == 0) { /* a full log still may be read through */
            log_event(&disk->log, &event);
        }
    }
    pthread_mutex_unlock(&disk->lock);
    if (error)
        free(connection);
    else
        *result = connection;
    return error;
}

void disk_disconnect(struct connection *connection)
{
    struct disk *disk = connection->disk;
    pthread_mutex_lock(&disk->lock);
    if (powered(connection) && log_admit(&disk->log, 1, 0) == 0) {
        struct pclog_event event = {.type = PCLOG_DISCONNECT, .connection = connection->number};
        log_event(&disk->log, &event);
    }
    pthread_mutex_unlock(&disk->lock);
    free(connection);
}

/* --- control ---------------------------------------------------------------- */

void disk_set_latency(struct disk *disk, uint64_t flush_ns, uint64_t fua_ns)
{
    pthread_mutex_lock(&disk->lock);
    disk->config.flush_latency_ns = flush_ns;
    disk->config.fua_latency_ns = fua_ns;
    pthread_mutex_unlock(&disk->lock);
}

int disk_mark(struct disk *disk, const char *name)
{
    pthread_mutex_lock(&disk->lock);
    int error = disk->closed ? EIO : log_admit(&disk->log, 1, strlen(name));
    if (!error)
        error = log_mark(&disk->log, name);
    pthread_mutex_unlock(&disk->lock);
    return error;
}

int disk_inject(struct disk *disk)
{
    static const char mark[] = "injecting errors";
    pthread_mutex_lock(&disk->lock);
    struct injections *injections = &disk->injections;
    int error = disk->closed ? EIO : injections->armed ? EALREADY : 0;
    if (!error)
        error = log_admit(&disk->log, 1, sizeof mark);
    if (!error)
        error = log_mark(&disk->log, mark);
    if (!error) {
        injections->armed = true;
        injections->armed_ns = disk->log.last_ns;
        for (unsigned i = 0; i < injections->count; i++)
            if (injections->list[i].on == ON_READ)
                disk->reads_injected = true;
    }
    pthread_mutex_unlock(&disk->lock);
    return error;
}

void disk_statistics(struct disk *disk, struct disk_statistics *statistics)
{
    pthread_mutex_lock(&disk->lock);
    *statistics = disk->counts;
    statistics->log_error = disk->log.failure;
    statistics->stopped = disk->motion != RUNNING;
    pthread_mutex_unlock(&disk->lock);
}

int disk_snapshot(struct disk *disk, const char *path)
{
    struct runs runs;
    pthread_mutex_lock(&disk->lock);
    int error = view_runs(&disk->medium, &runs);
    pthread_mutex_unlock(&disk->lock);
    if (error)
        return error;
    error = store_write_image(&disk->store, &runs, path);
    free(runs.items);
    return error;
}
