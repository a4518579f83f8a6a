/* SPDX-License-Identifier: Apache-2.0
 *
 * powercut-growing-file DIR SOCKET: a file, DIR/disk, that grows on the disk which is served by NBD
 * on SOCKET (growing.h).  A file system of FUSE, which mounts itself over DIR.
 *
 * A write is at the disk before it returns, and so is the change of size that it makes, after it.
 * fsync and fdatasync are a flush, which covers both.  The file never gets shorter: what a
 * truncation took away could come back in a crash state that no file system leaves.
 *
 * Disks have sectors: bytes that share one with others are written together with these, as by
 * the host's page cache.
 */
#define _GNU_SOURCE
#define FUSE_USE_VERSION 35
#define _FILE_OFFSET_BITS 64
#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <limits.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "growing.h"

enum { FILE_INO = 2, STEP = 1 << 20 };

#define NAME "disk"
#define ZERO_MAX (1u << 30)
#define KNOWN_FOR 3600.0 /* seconds: all changes come through here */

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER; /* readers: whole sectors, below `size` */
static uint64_t size, capacity;
static unsigned used; /* sectors of the table */

/* --- the table ---------------------------------------------------------------------- */

static int grow(uint64_t new_size)
{
    if (new_size <= size)
        return 0;
    if (new_size > capacity || used == GROWING_SIZES)
        return ENOSPC;
    struct growing_size entry = {.magic = GROWING_MAGIC, .size = new_size, .inverse = ~new_size};
    uint64_t at = capacity + (uint64_t)used * GROWING_SECTOR;
    int error = nbd_request(NBD_WRITE, at, sizeof entry, &entry);
    if (!error) {
        size = new_size;
        used++;
    }
    return error;
}

static int zero(uint64_t begin, uint64_t end)
{
    int error = 0;
    while (!error && begin < end) {
        uint32_t length = end - begin < ZERO_MAX ? (uint32_t)(end - begin) : ZERO_MAX;
        error = nbd_request(NBD_WRITE_ZEROES, begin, length, NULL);
        begin += length;
    }
    return error;
}

/* After a power cut there may be bytes beyond the end: a file system shows none of them later. */
static int open_disk(void)
{
    uint64_t whole = nbd_size();
    struct growing_size *table = malloc(STEP);
    int error = whole <= GROWING_TABLE ? EINVAL : table ? 0 : ENOMEM;
    capacity = whole - GROWING_TABLE;
    for (uint64_t at = 0; !error && at < GROWING_TABLE; at += STEP) {
        error = nbd_request(NBD_READ, capacity + at, STEP, table);
        for (unsigned i = 0; !error && i < STEP / GROWING_SECTOR; i++) {
            if (!table[i].magic && !table[i].size && !table[i].inverse)
                continue;
            used = (unsigned)(at / GROWING_SECTOR) + i + 1;
            if (table[i].magic == GROWING_MAGIC && table[i].size == ~table[i].inverse &&
                table[i].size > size)
                size = table[i].size;
        }
    }
    free(table);
    if (!error && (!size || size > capacity))
        error = EINVAL;
    uint64_t rest = (size + GROWING_SECTOR - 1) / GROWING_SECTOR * GROWING_SECTOR;
    return error || used == 1 ? error : zero(rest, capacity);
}

/* --- bytes that are not whole sectors ------------------------------------------------- */

static uint64_t sector_of(uint64_t offset)
{
    return offset / GROWING_SECTOR * GROWING_SECTOR;
}

static uint64_t sectors_to(uint64_t end)
{
    return sector_of(end + GROWING_SECTOR - 1);
}

static bool is_whole(uint64_t offset, uint64_t length)
{
    return !(offset % GROWING_SECTOR) && !(length % GROWING_SECTOR);
}

static int write_parts(uint64_t offset, uint64_t length, const char *bytes)
{
    uint64_t begin = sector_of(offset), end = sectors_to(offset + length);
    char *sectors = malloc(end - begin);
    if (!sectors)
        return ENOMEM;
    int error = nbd_request(NBD_READ, begin, GROWING_SECTOR, sectors);
    if (!error && end - begin > GROWING_SECTOR)
        error = nbd_request(NBD_READ, end - GROWING_SECTOR, GROWING_SECTOR,
                            sectors + (end - begin) - GROWING_SECTOR);
    if (!error) {
        if (bytes)
            memcpy(sectors + (offset - begin), bytes, length);
        else
            memset(sectors + (offset - begin), 0, length);
        error = nbd_request(NBD_WRITE, begin, (uint32_t)(end - begin), sectors);
    }
    free(sectors);
    return error;
}

static int write_at(uint64_t offset, uint64_t length, const char *bytes)
{
    if (offset + length > capacity)
        return ENOSPC;
    bool alone = !is_whole(offset, length);
    pthread_rwlock_rdlock(&lock);
    if (alone || offset + length > size) {
        alone = true;
        pthread_rwlock_unlock(&lock);
        pthread_rwlock_wrlock(&lock);
    }
    int error = is_whole(offset, length)
                    ? nbd_request(NBD_WRITE, offset, (uint32_t)length, (void *)(uintptr_t)bytes)
                    : write_parts(offset, length, bytes);
    if (!error && alone)
        error = grow(offset + length);
    pthread_rwlock_unlock(&lock);
    return error;
}

/* Zeroes over a range below the end of the file. */
static int zero_range(uint64_t begin, uint64_t end)
{
    uint64_t first = sectors_to(begin), last = sector_of(end);
    if (first >= last)
        return write_parts(begin, end - begin, NULL);
    int error = begin < first ? write_parts(begin, first - begin, NULL) : 0;
    if (!error)
        error = zero(first, last);
    return error || last == end ? error : write_parts(last, end - last, NULL);
}

/* --- requests of FUSE ----------------------------------------------------------------- */

static struct stat attributes(fuse_ino_t ino)
{
    struct stat found = {.st_ino = ino, .st_mode = S_IFDIR | 0755, .st_nlink = 2};
    if (ino == FILE_INO) {
        found.st_mode = S_IFREG | 0666;
        found.st_nlink = 1;
        found.st_blksize = 4096;
        pthread_rwlock_rdlock(&lock);
        found.st_size = (off_t)size;
        pthread_rwlock_unlock(&lock);
        found.st_blocks = (found.st_size + 511) / 512;
    }
    return found;
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    struct fuse_entry_param entry = {.ino = FILE_INO, .entry_timeout = KNOWN_FOR};
    if (parent != FUSE_ROOT_ID || strcmp(name, NAME)) {
        fuse_reply_err(req, ENOENT);
        return;
    }
    entry.attr = attributes(FILE_INO);
    fuse_reply_entry(req, &entry);
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)fi;
    struct stat found = attributes(ino);
    fuse_reply_attr(req, &found, 0);
}

static void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *wanted, int what,
                       struct fuse_file_info *fi)
{
    int error = 0;
    if (what & FUSE_SET_ATTR_SIZE) {
        pthread_rwlock_wrlock(&lock);
        error = (uint64_t)wanted->st_size < size ? EOPNOTSUPP : grow((uint64_t)wanted->st_size);
        pthread_rwlock_unlock(&lock);
    }
    if (error)
        fuse_reply_err(req, error);
    else
        op_getattr(req, ino, fi);
}

static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    fi->keep_cache = 1;
    if (ino == FILE_INO)
        fuse_reply_open(req, fi);
    else
        fuse_reply_err(req, EISDIR);
}

static void op_read(fuse_req_t req, fuse_ino_t ino, size_t wanted, off_t offset,
                    struct fuse_file_info *fi)
{
    (void)ino;
    (void)fi;
    uint64_t begin = sector_of((uint64_t)offset), end = (uint64_t)offset + wanted;
    pthread_rwlock_rdlock(&lock);
    end = end < size ? end : size;
    pthread_rwlock_unlock(&lock);
    if (end <= (uint64_t)offset) {
        fuse_reply_buf(req, NULL, 0);
        return;
    }
    char *bytes = malloc(sectors_to(end) - begin);
    int error = !bytes ? ENOMEM
                       : nbd_request(NBD_READ, begin, (uint32_t)(sectors_to(end) - begin), bytes);
    if (error)
        fuse_reply_err(req, error);
    else
        fuse_reply_buf(req, bytes + ((uint64_t)offset - begin), end - (uint64_t)offset);
    free(bytes);
}

static void op_write(fuse_req_t req, fuse_ino_t ino, const char *bytes, size_t length, off_t offset,
                     struct fuse_file_info *fi)
{
    (void)ino;
    int error = write_at((uint64_t)offset, length, bytes);
    if (!error && fi->flags & (O_SYNC | O_DSYNC))
        error = nbd_request(NBD_FLUSH, 0, 0, NULL);
    if (error)
        fuse_reply_err(req, error);
    else
        fuse_reply_write(req, length);
}

static void op_fsync(fuse_req_t req, fuse_ino_t ino, int data_only, struct fuse_file_info *fi)
{
    (void)ino;
    (void)data_only;
    (void)fi;
    fuse_reply_err(req, nbd_request(NBD_FLUSH, 0, 0, NULL));
}

static void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
                         struct fuse_file_info *fi)
{
    (void)ino;
    (void)fi;
    uint64_t begin = (uint64_t)offset, end = begin + (uint64_t)length;
    int error = end > capacity ? ENOSPC : 0;
    if (mode & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))
        error = EOPNOTSUPP;
    pthread_rwlock_wrlock(&lock);
    if (!error && mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE) && begin < size)
        error = zero_range(begin, end < size ? end : size);
    if (!error && !(mode & FALLOC_FL_KEEP_SIZE))
        error = grow(end);
    pthread_rwlock_unlock(&lock);
    fuse_reply_err(req, error);
}

static void on_init(void *context, struct fuse_conn_info *connection)
{
    (void)context;
    connection->want &= ~(unsigned)(FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_WRITEBACK_CACHE);
}

static int fail(const char *what, int error)
{
    fprintf(stderr, "powercut-growing-file: %s: %s\n", what, strerror(error));
    return 1;
}

static bool has_all_users(void)
{
    unsigned inside, outside, count = 0;
    FILE *map = fopen("/proc/self/uid_map", "re");
    if (!map)
        return false;
    bool all = fscanf(map, "%u %u %u", &inside, &outside, &count) == 3 && count == UINT_MAX;
    fclose(map);
    return all;
}

int main(int argc, char **argv)
{
    static const struct fuse_lowlevel_ops operations = {
        .init = on_init,
        .lookup = op_lookup,
        .getattr = op_getattr,
        .setattr = op_setattr,
        .open = op_open,
        .read = op_read,
        .write = op_write,
        .fsync = op_fsync,
        .fallocate = op_fallocate,
    };
    if (argc != 3)
        return fail("usage: powercut-growing-file DIR SOCKET", EINVAL);
    signal(SIGPIPE, SIG_IGN);
    nbd_server(argv[2]);
    int error = open_disk();
    if (error)
        return fail(argv[2], error);
    struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
    /* In a namespace of users `allow_other` means those in it: our user outside would be refused. */
    const char *options = has_all_users() ? "-odefault_permissions,allow_other,fsname=powercut"
                                          : "-odefault_permissions,fsname=powercut";
    if (fuse_opt_add_arg(&args, argv[0]) || fuse_opt_add_arg(&args, options))
        return fail("arguments", ENOMEM);
    struct fuse_session *session = fuse_session_new(&args, &operations, sizeof operations, NULL);
    if (!session || fuse_session_mount(session, argv[1]))
        return fail(argv[1], errno ? errno : EIO);
    struct fuse_loop_config config = {.max_idle_threads = 10};
    return fuse_session_loop_mt(session, &config) ? 1 : 0;
}
