/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the files of the mounted file system lie on its disk.
 *
 * An entry for each file and folder, with its path and its extents (share.h).  The kernel says
 * them (FIEMAP, Documentation/filesystems/fiemap.rst): in bytes of the device, but for btrfs, which
 * says them in an address space of its own that its chunk tree maps to the device
 * (include/uapi/linux/btrfs_tree.h, BTRFS_CHUNK_ITEM_KEY).  What lies in an inode, is packed or has
 * no place yet is left out.
 */
#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXTENTS 256 /* that are asked for at once */
#define CHUNKS 1024
#define STRIPES 2 /* copies of a chunk on one device */
#define NOWHERE                                                                               \
    (FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DELALLOC | FIEMAP_EXTENT_ENCODED |                 \
     FIEMAP_EXTENT_DATA_INLINE | FIEMAP_EXTENT_DATA_TAIL)

/* A stretch of btrfs's own addresses, and where its copies lie. */
struct chunk {
    uint64_t begin, length;
    uint64_t stripes[STRIPES];
    unsigned count;
};
static struct chunk chunks[CHUNKS];
static unsigned chunk_count;
static bool mapped; /* by chunks */

static int put(const void *data, size_t size)
{
    if (page->capacity - page->answer < size) {
        errno = ENOSPC;
        return -1;
    }
    memcpy(area + page->answer, data, size);
    page->answer += size;
    return 0;
}

static void take_chunk(const struct btrfs_ioctl_search_header *header, const void *item)
{
    const struct btrfs_chunk *found = item;
    const struct btrfs_stripe *stripe = &found->stripe;
    struct chunk *chunk = &chunks[chunk_count];
    uint64_t spread = BTRFS_BLOCK_GROUP_RAID0 | BTRFS_BLOCK_GROUP_RAID10 |
                      BTRFS_BLOCK_GROUP_RAID56_MASK;

    if (chunk_count == CHUNKS || (found->type & spread) != 0)
        return;
    chunk->begin = header->offset;
    chunk->length = found->length;
    for (; chunk->count < STRIPES && chunk->count < found->num_stripes; chunk->count++)
        chunk->stripes[chunk->count] = stripe[chunk->count].offset;
    chunk_count++;
}

static int read_chunks(void)
{
    static char room[1 << 16];
    struct btrfs_ioctl_search_args_v2 *search = (void *)room;
    int fd = open(plan.mount_point, O_RDONLY | O_CLOEXEC), result;
    const char *at;
    uint32_t number;

    mapped = true;
    chunk_count = 0;
    memset(chunks, 0, sizeof chunks);
    memset(search, 0, sizeof *search);
    search->key = (struct btrfs_ioctl_search_key){
        .tree_id = BTRFS_CHUNK_TREE_OBJECTID,
        .min_objectid = BTRFS_FIRST_CHUNK_TREE_OBJECTID,
        .max_objectid = BTRFS_FIRST_CHUNK_TREE_OBJECTID,
        .min_type = BTRFS_CHUNK_ITEM_KEY,
        .max_type = BTRFS_CHUNK_ITEM_KEY,
        .max_offset = UINT64_MAX,
        .max_transid = UINT64_MAX,
        .nr_items = UINT32_MAX,
    };
    search->buf_size = sizeof room - sizeof *search;
    result = fd < 0 ? -1 : ioctl(fd, BTRFS_IOC_TREE_SEARCH_V2, search);
    at = (const char *)search->buf;
    for (number = 0; result == 0 && number < search->key.nr_items; number++) {
        struct btrfs_ioctl_search_header header;

        memcpy(&header, at, sizeof header);
        at += sizeof header;
        take_chunk(&header, at);
        at += header.len;
    }
    if (fd >= 0)
        close(fd);
    return result;
}

/* Puts what of an extent lies in `chunk`, once for each copy. */
static int put_copies(const struct fiemap_extent *extent, const struct chunk *chunk, uint32_t *count)
{
    uint64_t end = extent->fe_physical + extent->fe_length, stop = chunk->begin + chunk->length;
    uint64_t first = extent->fe_physical > chunk->begin ? extent->fe_physical : chunk->begin;
    uint64_t last = end < stop ? end : stop;
    unsigned copy;

    for (copy = 0; first < last && copy < chunk->count; copy++, (*count)++) {
        struct pcu_extent place = {
            .disk = chunk->stripes[copy] + first - chunk->begin,
            .file = extent->fe_logical + first - extent->fe_physical,
            .length = last - first,
        };

        if (put(&place, sizeof place) != 0)
            return -1;
    }
    return 0;
}

static uint64_t begin; /* of the disk on which the file lies that is looked at */

static int put_extent(const struct fiemap_extent *extent, uint32_t *count)
{
    struct pcu_extent place = {begin + extent->fe_physical, extent->fe_logical, extent->fe_length};
    unsigned index;

    if ((extent->fe_flags & NOWHERE) != 0)
        return 0;
    if (!mapped) {
        (*count)++;
        return put(&place, sizeof place);
    }
    for (index = 0; index < chunk_count; index++)
        if (put_copies(extent, &chunks[index], count) != 0)
            return -1;
    return 0;
}

static int put_extents(int fd, uint32_t *count)
{
    static char room[sizeof(struct fiemap) + EXTENTS * sizeof(struct fiemap_extent)];
    struct fiemap *map = (void *)room;
    uint64_t from = 0;
    uint32_t index;

    for (;;) {
        memset(map, 0, sizeof *map);
        map->fm_start = from;
        map->fm_length = FIEMAP_MAX_OFFSET - from;
        map->fm_extent_count = EXTENTS;
        if (ioctl(fd, FS_IOC_FIEMAP, map) != 0)
            return errno == EOPNOTSUPP || errno == ENOTTY ? 0 : -1;
        for (index = 0; index < map->fm_mapped_extents; index++)
            if (put_extent(&map->fm_extents[index], count) != 0)
                return -1;
        if (index == 0 || (map->fm_extents[index - 1].fe_flags & FIEMAP_EXTENT_LAST) != 0)
            return 0;
        from = map->fm_extents[index - 1].fe_logical + map->fm_extents[index - 1].fe_length;
    }
}

static int put_file(const FTSENT *found, size_t root)
{
    const char *path = found->fts_path + root;
    struct pcu_file file = {.mode = found->fts_statp->st_mode, .path = (uint32_t)strlen(path)};
    uint64_t at = page->answer;
    int64_t begins;
    int fd, result;

    if (!S_ISREG(file.mode) && !S_ISDIR(file.mode))
        return 0;
    if (put(&file, sizeof file) != 0 || put(path, file.path) != 0)
        return -1;
    fd = open(found->fts_accpath, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOATIME);
    if (fd < 0)
        return -1;
    begins = disks_begin(found->fts_statp->st_dev, fd);
    begin = (uint64_t)begins;
    result = begins < 0 ? 0 : put_extents(fd, &file.extents);
    close(fd);
    memcpy(area + at, &file, sizeof file);
    return result;
}

int files_put(void)
{
    char *roots[] = {plan.mount_point, NULL};
    bool btrfs = strcmp(plan.filesystem, "btrfs") == 0;
    int result = btrfs ? read_chunks() : 0;
    FTS *walk = result == 0 ? fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL) : NULL;
    size_t root = strlen(plan.mount_point);
    FTSENT *found;

    if (walk == NULL)
        result = -1;
    while (result == 0 && (errno = 0, found = fts_read(walk)) != NULL) {
        if (found->fts_info == FTS_DP)
            continue;
        if (found->fts_info == FTS_DNR || found->fts_info == FTS_ERR ||
            found->fts_info == FTS_NS) {
            errno = found->fts_errno;
            result = -1;
        } else {
            result = put_file(found, found->fts_level == 0 ? root : root + 1);
        }
    }
    if (result != 0 || errno != 0) {
        page->answer = 0;
        result = fail(PCU_STEP_READ, "where the files lie");
    }
    if (walk != NULL)
        fts_close(walk);
    return result;
}
