/* SPDX-License-Identifier: Apache-2.0
 *
 * The recovered file system as an archive, for a check that runs on the host.
 *
 * An entry is a struct pcu_entry, its path, and `parts` times a struct pcu_part with its bytes;
 * nothing is padded.  What lies between the parts of a file is zero.  Entries
 * come in the order of their names, so that two trees with the same content are the same bytes.
 * A tree that an archive does not hold exactly (devices, sockets, hard links, files that cannot be
 * read) is refused: the check then runs here.
 */
#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int by_name(const FTSENT **left, const FTSENT **right)
{
    return strcmp((*left)->fts_name, (*right)->fts_name);
}

static void *room(size_t size)
{
    void *at = area + page->answer;

    if (page->capacity - page->answer < size) {
        errno = ENOSPC;
        return NULL;
    }
    page->answer += size;
    return at;
}

static int put(const void *data, size_t size)
{
    void *at = room(size);

    if (at == NULL)
        return -1;
    memcpy(at, data, size);
    return 0;
}

/* Reads one part of a file into the archive. */
static int put_part(int fd, off_t begin, off_t end)
{
    struct pcu_part part = {(uint64_t)begin, (uint64_t)(end - begin)};
    uint8_t *at;
    ssize_t got;

    if (put(&part, sizeof part) != 0 || (at = room(part.length)) == NULL)
        return -1;
    for (; begin < end; begin += got, at += got) {
        got = pread(fd, at, (size_t)(end - begin), begin);
        if (got == 0)
            errno = EIO; /* it ends before its size */
        if (got <= 0)
            return -1;
    }
    return 0;
}

/* Counts the parts into the archive, whose entry is there already, at `entry`. */
static int put_file(int fd, off_t size, uint64_t entry)
{
    uint32_t parts = 0;
    off_t begin, end;

    for (end = 0; end < size; parts++) {
        begin = lseek(fd, end, SEEK_DATA);
        if (begin < 0 && errno == ENXIO) /* only a hole follows */
            break;
        if (begin < 0 || (end = lseek(fd, begin, SEEK_HOLE)) < 0)
            return -1;
        if (put_part(fd, begin, end < size ? end : size) != 0)
            return -1;
    }
    memcpy(area + entry + offsetof(struct pcu_entry, parts), &parts, sizeof parts);
    return 0;
}

static int put_link(const char *path)
{
    char target[4096];
    ssize_t length = readlink(path, target, sizeof target);
    struct pcu_part part = {0, (uint64_t)length};

    return length < 0 || put(&part, sizeof part) != 0 ? -1 : put(target, (size_t)length);
}

static int put_entry(const FTSENT *found, size_t root)
{
    const struct stat *status = found->fts_statp;
    const char *path = found->fts_path + root;
    struct pcu_entry entry = {
        .mode = status->st_mode,
        .path = (uint32_t)strlen(path),
        .size = S_ISREG(status->st_mode) ? (uint64_t)status->st_size : 0,
        .parts = S_ISLNK(status->st_mode) ? 1 : 0,
    };
    uint64_t at = page->answer;
    int fd, result;

    if (put(&entry, sizeof entry) != 0 || put(path, entry.path) != 0)
        return -1;
    if (S_ISDIR(status->st_mode))
        return 0;
    if (S_ISLNK(status->st_mode))
        return put_link(found->fts_accpath);
    if (!S_ISREG(status->st_mode) || status->st_nlink != 1) {
        errno = ENOTSUP;
        return -1;
    }
    fd = open(found->fts_accpath, O_RDONLY | O_CLOEXEC | O_NOATIME);
    if (fd < 0)
        return -1;
    result = put_file(fd, status->st_size, at);
    close(fd);
    return result;
}

int tree_put(void)
{
    char *roots[] = {plan.mount_point, NULL};
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, by_name);
    size_t root = strlen(plan.mount_point);
    FTSENT *found;
    int result = walk == NULL ? -1 : 0;

    while (result == 0 && (errno = 0, found = fts_read(walk)) != NULL) {
        if (found->fts_info == FTS_DP || found->fts_level == 0)
            continue;
        if (found->fts_info == FTS_DNR || found->fts_info == FTS_ERR ||
            found->fts_info == FTS_NS) {
            errno = found->fts_errno;
            result = -1;
        } else {
            result = put_entry(found, root + 1);
        }
    }
    if (result != 0 || errno != 0) {
        page->answer = 0;
        result = fail(PCU_STEP_READ, "the files as an archive");
    }
    if (walk != NULL)
        fts_close(walk);
    return result;
}
