/* SPDX-License-Identifier: Apache-2.0
 *
 * What a captured folder holds at first, into its log.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folder.h"

enum { STEP = 1 << 20, DEPTH_MAX = 64 };

static int log_folder(int fd, uint64_t number, unsigned depth);

static int log_range(int fd, const struct object *file, off_t begin, off_t end, char *bytes)
{
    int error = 0;
    while (!error && begin < end) {
        size_t wanted = end - begin < STEP ? (size_t)(end - begin) : STEP;
        ssize_t got = pread(fd, bytes, wanted, begin);
        if (got <= 0)
            return got ? errno : 0;
        struct request request = {.op = PCLOG_WRITE,
                                  .object = (uint32_t)file->number,
                                  .offset = (uint64_t)begin,
                                  .length = (uint64_t)got};
        error = request_done(&request, bytes, (uint64_t)got);
        begin += got;
    }
    return error;
}

static int log_contents(int fd, const struct object *file, off_t size)
{
    struct request request = {.op = (enum pclog_op)FOLDER_TRUNCATE,
                              .object = (uint32_t)file->number,
                              .length = (uint64_t)size};
    int error = size ? request_done(&request, NULL, 0) : 0;
    char *bytes = malloc(STEP);
    if (!bytes)
        return ENOMEM;
    off_t hole = 0;
    while (!error && hole < size) {
        off_t data = lseek(fd, hole, SEEK_DATA);
        if (data < 0) {
            error = errno == ENXIO ? 0 : errno;
            break;
        }
        hole = lseek(fd, data, SEEK_HOLE);
        error = hole < 0 ? errno : log_range(fd, file, data, hole, bytes);
    }
    free(bytes);
    return error;
}

/* A name that leads to an object which the log knows is one link more. */
static int log_name(const struct object *parent, const char *name, const struct object *object,
                    const struct stat *found, bool known)
{
    char names[NAME_MAX + 1 + PATH_MAX + 1];
    struct request request = {.op = (enum pclog_op)op_of_kind(found->st_mode),
                              .object = (uint32_t)parent->number,
                              .offset = object->number};
    size_t length = (size_t)snprintf(names, sizeof names, "%s", name);
    if (known) {
        request.op = (enum pclog_op)FOLDER_LINK;
    } else if (S_ISDIR(found->st_mode)) {
        request.op = (enum pclog_op)FOLDER_MKDIR;
    } else if (S_ISLNK(found->st_mode)) {
        request.op = (enum pclog_op)FOLDER_SYMLINK;
        ssize_t target = readlinkat(object->fd, "", names + length + 1, PATH_MAX);
        if (target < 0)
            return errno;
        length += 1 + (size_t)target;
    }
    request.length = length;
    return request_done(&request, names, length);
}

static int log_entry(int parent_fd, const struct object *parent, const char *name, unsigned depth)
{
    struct object *object = object_find(parent_fd, name, 0);
    struct stat found;
    if (!object || fstat(object->fd, &found))
        return errno;
    bool contents = S_ISREG(found.st_mode) || S_ISDIR(found.st_mode);
    if (!contents && !S_ISLNK(found.st_mode) && !op_of_kind(found.st_mode))
        return 0; /* a device */
    bool known = object->lookups > 1;
    int error = log_name(parent, name, object, &found, known);
    if (!error && !known)
        error = attributes_log_base(object);
    if (error || known || !contents)
        return error;
    char path[PROC_PATH_MAX];
    object_path(object, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    if (S_ISDIR(found.st_mode))
        return log_folder(fd, object->number, depth + 1);
    error = log_contents(fd, object, found.st_size);
    close(fd);
    return error;
}

/* Takes `fd`. */
static int log_folder(int fd, uint64_t number, unsigned depth)
{
    struct object parent = {.number = number};
    DIR *stream = depth < DEPTH_MAX ? fdopendir(fd) : NULL;
    if (!stream) {
        close(fd);
        return depth < DEPTH_MAX ? errno : ELOOP;
    }
    int error = 0;
    struct dirent *entry;
    while (!error && (errno = 0, entry = readdir(stream)))
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            error = log_entry(fd, &parent, entry->d_name, depth);
    if (!error)
        error = errno;
    closedir(stream);
    return error;
}

int folder_log_base(void)
{
    int fd = openat(folder_root()->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int error = fd < 0 ? errno : attributes_log_base(folder_root());
    if (!error)
        error = log_folder(fd, FOLDER_ROOT, 0);
    return error ? error : folder_event(FOLDER_BEGIN, NULL, 0);
}
