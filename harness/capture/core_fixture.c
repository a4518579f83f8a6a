/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "core_fixture.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static char directory[512];
struct disk *disk;
struct connection *one, *two;

_Thread_local void (*during_sleep)(void);
_Thread_local uint64_t slept_ns;

static bool sleep_hook(uint64_t ns)
{
    slept_ns = ns;
    static _Thread_local unsigned idle;
    void (*action)(void) = during_sleep;
    during_sleep = NULL;
    CHECK(++idle < 1000000); /* it waits for what never comes */
    if (action) {
        idle = 0;
        action();
    }
    return true;
}

const char *path_of(const char *name)
{
    static char paths[4][640];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

void make_directory(void)
{
    const char *parent = getenv("TMPDIR");
    snprintf(directory, sizeof directory, "%s/powercut-core-XXXXXX", parent ? parent : "/tmp");
    CHECK(mkdtemp(directory));
}

static void remove_files(void)
{
    static const char *const names[] = {"base", "a.log", "a.data", "b.log", "b.data", "snapshot"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(path_of(names[i]));
}

void remove_directory(void)
{
    remove_files();
    CHECK(!rmdir(directory));
}

void start(struct disk_config config)
{
    remove_files();
    char base[DISK_BYTES], message[256] = "";
    memset(base, 'B', sizeof base);
    int fd = open(path_of("base"), O_WRONLY | O_CREAT | O_EXCL, 0600);
    CHECK(fd >= 0 && write(fd, base, sizeof base) == sizeof base && close(fd) == 0);
    config.base = path_of("base");
    config.log = path_of("a");
    config.sleep_ns = sleep_hook;
    if (!config.atomic_unit)
        config.atomic_unit = 512;
    int error = disk_open(&disk, &config, message, sizeof message);
    if (error)
        fprintf(stderr, "%s\n", message);
    CHECK(!error && disk_size(disk) == DISK_BYTES);
    bool parts = config.parts_count > 1;
    CHECK(!disk_connect(disk, parts ? config.parts[0].name : "", &one) &&
          !disk_connect(disk, parts ? config.parts[1].name : "", &two));
}

const struct disk_config honest = {
    .contract = PCLOG_VOLATILE_CACHE | PCLOG_FLUSH_HONOURED | PCLOG_FUA_HONOURED,
    .flush_latency_ns = 1,
    .fua_latency_ns = 1,
};

void finish(void)
{
    disk_disconnect(one);
    disk_disconnect(two);
    CHECK(!disk_close(disk));
    disk_destroy(disk);
    during_sleep = NULL;
}

int put(struct connection *connection, uint64_t offset, uint64_t count, char letter,
               bool fua)
{
    char *bytes = malloc(count);
    memset(bytes, letter, count);
    int error = disk_write(connection, PCLOG_WRITE, bytes, count, offset, fua);
    free(bytes);
    return error;
}

struct cut_report cut(enum pclog_policy policy, uint64_t seed)
{
    struct cut_report report;
    char message[256] = "";
    int error = disk_cut(disk, policy, seed, NULL, &report, message, sizeof message);
    if (error)
        fprintf(stderr, "%s\n", message);
    CHECK(!error);
    return report;
}

const char *letters(int sectors)
{
    return letters_of("", sectors);
}

const char *letters_of(const char *part, int sectors)
{
    static char text[DISK_BYTES / 512 + 1];
    char sector[512];
    struct connection *reader;
    CHECK(!disk_connect(disk, part, &reader));
    for (int i = 0; i < sectors; i++) {
        CHECK(!disk_read(reader, sector, 512, (uint64_t)i * 512));
        text[i] = sector[0] ? sector[0] : '0';
        for (int byte = 1; byte < 512; byte++)
            if (sector[byte] != sector[0])
                text[i] = '!';
    }
    text[sectors] = 0;
    disk_disconnect(reader);
    return text;
}
