/* SPDX-License-Identifier: Apache-2.0
 *
 * Which files a check has read: by the kernel's own note of it, the time of the last access.
 *
 * Before the check each file's access is dated to 1970, and every file system is mounted so that a
 * read dates it anew (strictatime), whatever the scenario's options say.  A mapping counts as a
 * read, and so does direct I/O, but on btrfs, which does not date it.  What a check opens with O_NOATIME is refused, as to anybody who
 * does not own the file (dated.c).
 *
 * Of files that are gone after the check nothing is known; they count as read.  What cannot be
 * listed leaves no answer at all: then nothing is known of any file.
 */
#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct seen {
    struct pcu_read is;
    char *path;
};

static struct seen *files;
static size_t count, room;

static void forget(void)
{
    while (count > 0)
        free(files[--count].path);
    free(files);
    files = NULL;
    room = 0;
}

static uint64_t in_ns(struct timespec time)
{
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int note(const FTSENT *found, size_t root)
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
    files[count++].is = (struct pcu_read){
        .size = (uint64_t)status->st_size,
        .modified_ns = in_ns(status->st_mtim),
        .changed_ns = in_ns(status->st_ctim),
        .path = (uint32_t)(strlen(found->fts_path) - root),
    };
    return utimensat(AT_FDCWD, found->fts_accpath, never, AT_SYMLINK_NOFOLLOW);
}

int reads_begin(void)
{
    char *roots[] = {plan.mount_point, NULL};
    size_t root = strlen(plan.mount_point) + 1;
    FTS *walk;
    FTSENT *found;
    int result;

    forget();
    walk = disks_date_reads() == 0 ? fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL) : NULL;
    result = walk == NULL ? -1 : 0;
    while (result == 0 && (errno = 0, found = fts_read(walk)) != NULL) {
        if (found->fts_info == FTS_DNR || found->fts_info == FTS_ERR || found->fts_info == FTS_NS)
            result = -1;
        else if (found->fts_info == FTS_F)
            result = note(found, root);
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

void reads_put(void)
{
    uint64_t at = page->answer, index;
    struct pcu_reads head = {count};
    size_t root = strlen(plan.mount_point) + 1;

    if (page->capacity - at < sizeof head)
        return;
    memcpy(area + at, &head, sizeof head);
    at += sizeof head;
    for (index = 0; index < count; index++) {
        struct seen *file = &files[index];

        if (page->capacity - at < sizeof file->is + file->is.path)
            return; /* half of it is not known, so nothing is */
        file->is.unread = is_unread(file->path);
        memcpy(area + at, &file->is, sizeof file->is);
        memcpy(area + at + sizeof file->is, file->path + root, file->is.path);
        at += sizeof file->is + file->is.path;
    }
    page->after_answer = at - page->answer;
    forget();
}
