/* SPDX-License-Identifier: Apache-2.0
 *
 * The recovered file system as an archive, for a check that runs on the host.
 *
 * An entry is a struct pcu_entry, its path, `xattrs` times a struct pcu_xattr with name and value,
 * and `parts` times a struct pcu_part with its bytes; nothing is padded.  What lies between the parts of a file is zero.  Entries
 * come in the order of their names, so that two trees with the same content are the same bytes.
 *
 * A copy has one owner, and cannot have what only root gives: so the archive begins with `peculiar`,
 * a digest of all owners that are not those of the folder above, all flags (chattr(1)) and all
 * attributes but those of "user.", each with its path; 0 if there are none.
 *
 * A tree that an archive does not hold exactly (devices, sockets, very many hard links, files that
 * cannot be read) is refused: the check then runs here.
 */
#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stddef.h>
#include <string.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define BLOCK 4096u
#define BUFFER (1 << 20)
#define DIRECT_MIN (256 << 10) /* a shorter file is read as usual, with fewer calls */
#define NAMED_MAX 4096         /* files with several names that one archive holds */

/* Files with several names, and the first name of each. */
static struct {
    ino_t inode;
    char *name;
} named[NAMED_MAX];
static size_t named_count;

static uint64_t peculiar;

/* FNV-1a. */
static void mix(const void *data, size_t size)
{
    const uint8_t *bytes = data;
    size_t at;

    if (peculiar == 0)
        peculiar = 0xcbf29ce484222325u;
    for (at = 0; at < size; at++)
        peculiar = (peculiar ^ bytes[at]) * 0x100000001b3u;
}

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

/* The part that the archive ends with. */
struct writer {
    uint64_t header; /* where it stands, 0: there is none yet */
    struct pcu_part part;
    uint32_t parts;
};

/* Appends bytes of a file, to the last part if they follow it. */
static int put_block(struct writer *writer, uint64_t offset, const uint8_t *data, size_t size)
{
    struct pcu_part *part = &writer->part;

    if (writer->header == 0 || part->offset + part->length != offset) {
        writer->header = page->answer;
        writer->parts++;
        *part = (struct pcu_part){.offset = offset};
        if (put(part, sizeof *part) != 0)
            return -1;
    }
    if (put(data, size) != 0)
        return -1;
    part->length += size;
    memcpy(area + writer->header, part, sizeof *part);
    return 0;
}

/* Appends what is not zero, by blocks: where a file system keeps zeroes is not content. */
static int put_blocks(struct writer *writer, uint64_t offset, const uint8_t *data, size_t size)
{
    static const uint8_t zeroes[BLOCK];
    size_t at, length;

    for (at = 0; at < size; at += length) {
        length = size - at < BLOCK ? size - at : BLOCK;
        if (memcmp(data + at, zeroes, length) != 0 &&
            put_block(writer, offset + at, data + at, length) != 0)
            return -1;
    }
    return 0;
}

/* Reads what lies between `begin`, a multiple of BLOCK, and `end` into the archive. */
static int put_stretch(struct writer *writer, int fd, off_t begin, off_t end)
{
    static uint8_t buffer[BUFFER] __attribute__((aligned(BLOCK))); /* `area` is I/O memory */
    ssize_t got;
    size_t size;

    for (; begin < end; begin += got) {
        got = pread(fd, buffer, sizeof buffer, begin);
        if (got == 0)
            errno = EIO; /* it ends before its size */
        if (got <= 0)
            return -1;
        if (got > end - begin)
            got = end - begin;
        size = (size_t)got;
        if (got < end - begin && size % BLOCK != 0) /* only what is whole: the rest comes again */
            got = (ssize_t)(size -= size % BLOCK);
        if (got == 0) {
            errno = EIO;
            return -1;
        }
        if (put_blocks(writer, (uint64_t)begin, buffer, size) != 0)
            return -1;
    }
    return 0;
}

/* A large file past the page cache, which costs several times what reading costs. */
static int open_file(const char *path, off_t size)
{
    const int flags = O_RDONLY | O_CLOEXEC | O_NOATIME;
    int fd = -1;

    if (size >= DIRECT_MIN)
        fd = open(path, flags | O_DIRECT);
    return fd >= 0 ? fd : open(path, flags);
}

/* Reads a file that may have large holes. */
static int put_data(struct writer *writer, int fd, off_t size)
{
    off_t begin, end;

    for (end = 0; end < size;) {
        begin = lseek(fd, end, SEEK_DATA);
        if (begin < 0 && errno == ENXIO) /* only a hole follows */
            return 0;
        if (begin < 0 || (end = lseek(fd, begin, SEEK_HOLE)) < 0)
            return -1;
        begin -= begin % BLOCK;
        end += (BLOCK - end % BLOCK) % BLOCK; /* whole blocks, so that stretches do not overlap */
        end = end < size ? end : size;
        if (put_stretch(writer, fd, begin, end) != 0)
            return -1;
    }
    return 0;
}

/* Counts the parts into the archive, whose entry is there already, at `entry`. */
static int put_file(int fd, off_t size, uint64_t entry)
{
    struct writer writer = {0};

    /* A call of the system costs more than reading zeroes does. */
    if ((size <= BUFFER ? put_stretch(&writer, fd, 0, size) : put_data(&writer, fd, size)) != 0)
        return -1;
    memcpy(area + entry + offsetof(struct pcu_entry, parts), &writer.parts, sizeof writer.parts);
    return 0;
}

static int put_link(const char *path)
{
    char target[4096];
    ssize_t length = readlink(path, target, sizeof target);
    struct pcu_part part = {0, (uint64_t)length};

    return length < 0 || put(&part, sizeof part) != 0 ? -1 : put(target, (size_t)length);
}

/* The first name of a file with several; NULL if this is it, or there are too many. */
static const char *first_name(const struct stat *status, const char *name)
{
    size_t at;

    for (at = 0; at < named_count; at++)
        if (named[at].inode == status->st_ino)
            return named[at].name;
    errno = ENOTSUP;
    if (named_count == NAMED_MAX || (named[named_count].name = strdup(name)) == NULL)
        return NULL;
    named[named_count++].inode = status->st_ino;
    errno = 0;
    return NULL;
}

static void forget_names(void)
{
    while (named_count > 0)
        free(named[--named_count].name);
}

/* A further name of a file; its entry is there already. */
static int put_name(const char *first, uint64_t entry)
{
    static const uint32_t same = PCU_SAME_FILE;
    struct pcu_part part = {0, strlen(first)};

    memcpy(area + entry + offsetof(struct pcu_entry, parts), &same, sizeof same);
    return put(&part, sizeof part) != 0 ? -1 : put(first, part.length);
}

/* Appends the attributes that any program may set; counts them into the entry. */
static int put_xattrs(const char *path, const char *full, uint64_t entry)
{
    static char names[65536], value[65536]; /* XATTR_LIST_MAX, XATTR_SIZE_MAX */
    ssize_t length = llistxattr(path, names, sizeof names), size;
    struct pcu_xattr head;
    uint32_t count = 0;
    const char *name;

    if (length < 0)
        return errno == ENOTSUP ? 0 : -1; /* a file system without any */
    for (name = names; name < names + length; name += strlen(name) + 1) {
        size = lgetxattr(path, name, value, sizeof value);
        if (size < 0)
            return -1;
        if (strncmp(name, "user.", 5) != 0) {
            mix(full, strlen(full) + 1);
            mix(name, strlen(name) + 1);
            mix(value, (size_t)size);
            continue;
        }
        head = (struct pcu_xattr){(uint32_t)strlen(name), (uint32_t)size};
        if (put(&head, sizeof head) != 0 || put(name, head.name) != 0 ||
            put(value, head.value) != 0)
            return -1;
        count++;
    }
    memcpy(area + entry + offsetof(struct pcu_entry, xattrs), &count, sizeof count);
    return 0;
}

/* Owners and flags that a copy cannot have. */
static int mix_owner(const FTSENT *found, const char *path)
{
    const struct stat *status = found->fts_statp, *above = found->fts_parent->fts_statp;
    const uint32_t owner[] = {status->st_uid, status->st_gid};
    struct statx more;

    if (statx(AT_FDCWD, found->fts_accpath, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &more) != 0)
        return -1;
    more.stx_attributes &= more.stx_attributes_mask & ~(uint64_t)STATX_ATTR_MOUNT_ROOT;
    if (status->st_uid == above->st_uid && status->st_gid == above->st_gid && more.stx_attributes == 0)
        return 0;
    mix(path, strlen(path) + 1);
    mix(owner, sizeof owner);
    mix(&more.stx_attributes, sizeof more.stx_attributes);
    return 0;
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
        .access_s = status->st_atim.tv_sec,
        .access_ns = (uint32_t)status->st_atim.tv_nsec,
        .change_s = status->st_mtim.tv_sec,
        .change_ns = (uint32_t)status->st_mtim.tv_nsec,
    };
    uint64_t at = page->answer;
    const char *first;
    int fd, result;

    if (mix_owner(found, path) != 0 || put(&entry, sizeof entry) != 0 || put(path, entry.path) != 0)
        return -1;
    if (S_ISLNK(status->st_mode))
        return put_link(found->fts_accpath);
    if (S_ISREG(status->st_mode) && status->st_nlink > 1) {
        errno = 0;
        first = first_name(status, path);
        if (first != NULL)
            return put_name(first, at);
        if (errno != 0)
            return -1;
    }
    if (put_xattrs(found->fts_accpath, path, at) != 0)
        return -1;
    if (S_ISDIR(status->st_mode))
        return 0;
    if (!S_ISREG(status->st_mode)) {
        errno = ENOTSUP;
        return -1;
    }
    if (status->st_size == 0)
        return 0;
    fd = open_file(found->fts_accpath, status->st_size);
    if (fd < 0)
        return -1;
    result = put_file(fd, status->st_size, at);
    close(fd);
    return result;
}

int tree_put(void)
{
    char *roots[] = {plan.mount_point, NULL};
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
    size_t root = strlen(plan.mount_point);
    FTSENT *found;
    uint64_t begin = page->answer;
    int result;

    peculiar = 0;
    result = walk == NULL || put(&peculiar, sizeof peculiar) != 0 ? -1 : 0;
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
    if (result == 0)
        memcpy(area + begin, &peculiar, sizeof peculiar);
    if (walk != NULL)
        fts_close(walk);
    forget_names();
    return result;
}
