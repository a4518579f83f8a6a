/* SPDX-License-Identifier: Apache-2.0
 *
 * Which files a check has read: by the kernel's own note of it, the time of the last access; and
 * the symbolic links beside them, with where they lead to.
 *
 * Before the check each file's access is dated to 1970, and every file system is mounted so that a
 * read dates it anew (strictatime), whatever the scenario's options say.  A mapping counts as a
 * read, and so does direct I/O, but on btrfs, which does not date it.  What a check opens with O_NOATIME is refused, as to anybody who
 * does not own the file (dated.c).
 *
 * Of files that are gone after the check nothing is known; they count as read.  What cannot be
 * listed leaves no answer at all: then nothing is known of any file.
 */
#include "reads.h"

#include "../../workloads/common/crc32c.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

struct seen {
    struct pcu_read is;
    char *path;
    char *target; /* of a symbolic link */
};

static struct seen *files;
static size_t count, room, prefix; /* `prefix`: bytes of a path before what is told of it */

static void forget(void)
{
    while (count > 0)
        count--, free(files[count].path), free(files[count].target);
    free(files);
    files = NULL;
    room = 0;
}

static uint64_t in_ns(struct timespec time)
{
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int note(const FTSENT *found)
{
    const struct timespec never[] = {{0, 0}, {0, UTIME_OMIT}};
    const struct stat *status = found->fts_statp;
    struct seen *grown;

    if (count == room) {
        room = room == 0 ? 256 : 2 * room;
        grown = realloc(files, room * sizeof *files);
        if (grown == NULL)
            return -1;
        files = grown;
    }
    files[count].path = strdup(found->fts_path);
    if (files[count].path == NULL)
        return -1;
    files[count].target = NULL;
    files[count++].is = (struct pcu_read){
        .size = S_ISREG(status->st_mode) ? (uint64_t)status->st_size : 0,
        .modified_ns = in_ns(status->st_mtim),
        .changed_ns = in_ns(status->st_ctim),
        .path = (uint32_t)(strlen(found->fts_path) - prefix),
    };
    return utimensat(AT_FDCWD, found->fts_accpath, never, AT_SYMLINK_NOFOLLOW);
}

static int note_link(const FTSENT *found)
{
    char target[PATH_MAX];
    ssize_t length = readlink(found->fts_accpath, target, sizeof target);

    if (length < 0 || note(found) != 0)
        return -1;
    files[count - 1].target = strndup(target, (size_t)length);
    files[count - 1].is.target = (uint32_t)length;
    return files[count - 1].target == NULL ? -1 : 0;
}

int reads_date(const char *path)
{
    struct statvfs now; /* its flags are those of mount(2) */
    unsigned long kept = MS_RDONLY | MS_NODEV | MS_NOSUID | MS_NOEXEC;

    if (statvfs(path, &now) != 0)
        return -1;
    kept &= now.f_flag;
    return mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | MS_STRICTATIME | kept, NULL);
}

int reads_begin(const char *root)
{
    char *roots[] = {(char *)root, NULL};
    FTS *walk;
    FTSENT *found;
    int result;

    forget();
    prefix = strlen(root) + 1;
    walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    result = walk == NULL ? -1 : 0;
    while (result == 0 && (errno = 0, found = fts_read(walk)) != NULL) {
        if (found->fts_info == FTS_DNR || found->fts_info == FTS_ERR || found->fts_info == FTS_NS)
            result = -1;
        else if (found->fts_info == FTS_F)
            result = note(found);
        else if (found->fts_info == FTS_SL || found->fts_info == FTS_SLNONE)
            result = note_link(found);
    }
    if (errno != 0)
        result = -1;
    if (walk != NULL)
        fts_close(walk);
    return result;
}

static bool is_unread(const char *path)
{
    struct stat status;

    return lstat(path, &status) == 0 && S_ISREG(status.st_mode) && in_ns(status.st_atim) == 0;
}

/* Its pages are in memory or on a disk in memory; 0 as well if it cannot be read. */
static uint32_t crc_of(const struct seen *file)
{
    static uint8_t buffer[1 << 16];
    uint32_t crc = 0;
    ssize_t got = -1;
    int fd = file->is.size == 0 ? -1 : open(file->path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return 0;
    while ((got = read(fd, buffer, sizeof buffer)) > 0)
        crc = pc_crc32c(crc, buffer, (size_t)got);
    close(fd);
    return got < 0 ? 0 : crc;
}

size_t reads_put(uint8_t *to, size_t space, bool crcs)
{
    struct pcu_reads head = {count};
    size_t at = sizeof head, index;

    if (space < at)
        return 0;
    memcpy(to, &head, at);
    for (index = 0; index < count; index++) {
        struct seen *file = &files[index];

        if (space - at < sizeof file->is + file->is.path + file->is.target)
            return 0; /* half of it is not known, so nothing is */
        file->is.unread = is_unread(file->path);
        file->is.crc = crcs ? crc_of(file) : 0;
        memcpy(to + at, &file->is, sizeof file->is);
        memcpy(to + at + sizeof file->is, file->path + prefix, file->is.path);
        at += sizeof file->is + file->is.path;
        if (file->target != NULL)
            memcpy(to + at, file->target, file->is.target);
        at += file->is.target;
    }
    forget();
    return at;
}
