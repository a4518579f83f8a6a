/* SPDX-License-Identifier: Apache-2.0
 *
 * A captured folder's requests of FUSE that concern names.
 *
 * One that changes names is carried out first and logged when it has succeeded, both under one
 * lock: so the log has them in the order in which they happened, and none that was refused.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "folder.h"
#include "folder_press.h"

/* Two names and the NULs behind them. */
struct names {
    char bytes[2 * (NAME_MAX + 1) + PATH_MAX];
    uint64_t length;
};

static void join(struct names *names, const char *first, const char *second)
{
    int length = snprintf(names->bytes, sizeof names->bytes, "%s", first);
    if (second)
        length += 1 + snprintf(names->bytes + length + 1, sizeof names->bytes - (size_t)length - 1,
                               "%s", second);
    names->length = (uint64_t)length;
}

static bool is_lines(const struct object *parent, const char *name)
{
    return parent == folder_root() && !strcmp(name, FOLDER_LINES_NAME);
}

int attributes_of(const struct object *object, struct stat *found)
{
    if (object == folder_lines()) {
        *found = (struct stat){.st_mode = S_IFREG | 0666, .st_nlink = 1, .st_ino = ~0ul};
        return 0;
    }
    return object_stat(object, found);
}

/* `object` was found, and the kernel's reference to it counted. */
static int entry_of(struct object *object, struct fuse_entry_param *entry)
{
    *entry = (struct fuse_entry_param){
        .ino = object_ino(object), .attr_timeout = ATTRIBUTES_TIMEOUT_S,
        .entry_timeout = ATTRIBUTES_TIMEOUT_S};
    return attributes_of(object, &entry->attr);
}

static void reply_entry(fuse_req_t req, struct object *object, int error)
{
    struct fuse_entry_param entry;
    if (!error)
        error = entry_of(object, &entry);
    if (error)
        fuse_reply_err(req, error);
    else
        fuse_reply_entry(req, &entry);
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    if (is_lines(object_of(parent), name)) {
        reply_entry(req, folder_lines(), 0);
        return;
    }
    names_lock();
    struct object *object = object_find(object_of(parent)->fd, name, 0);
    int error = object ? 0 : errno;
    names_unlock();
    reply_entry(req, object, error);
}

static void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t lookups)
{
    object_forget(object_of(ino), lookups);
    fuse_reply_none(req);
}

static void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
    for (size_t i = 0; i < count; i++)
        object_forget(object_of(forgets[i].ino), forgets[i].nlookup);
    fuse_reply_none(req);
}

static void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
    char target[PATH_MAX + 1];
    ssize_t length = readlinkat(object_of(ino)->fd, "", target, sizeof target - 1);
    if (length < 0) {
        fuse_reply_err(req, errno);
        return;
    }
    target[length] = '\0';
    fuse_reply_readlink(req, target);
}

/* With the lock of names: logs that `name` was made, and finds what it leads to. */
static int made(fuse_req_t req, struct object *parent, const char *name, const char *target,
                enum folder_op op, struct object **object)
{
    const struct fuse_ctx *caller = fuse_req_ctx(req);
    uint64_t number = object_new_number();
    struct request request = {
        .op = (enum pclog_op)op, .object = (uint32_t)parent->number, .offset = number};
    struct names names;
    join(&names, name, target);
    request.length = names.length;
    *object = object_find(parent->fd, name, number);
    int error = *object ? request_done(&request, names.bytes, names.length) : errno;
    return error ? error : attributes_log_made(*object, caller->uid, caller->gid);
}

static void op_mkdir(fuse_req_t req, fuse_ino_t ino, const char *name, mode_t mode)
{
    struct object *parent = object_of(ino), *object = NULL;
    names_lock();
    int error = mkdirat(parent->fd, name, mode) ? errno : 0;
    if (!error)
        error = made(req, parent, name, NULL, FOLDER_MKDIR, &object);
    names_unlock();
    reply_entry(req, object, error);
}

static void op_symlink(fuse_req_t req, const char *target, fuse_ino_t ino, const char *name)
{
    struct object *parent = object_of(ino), *object = NULL;
    names_lock();
    int error = symlinkat(target, parent->fd, name) ? errno : 0;
    if (!error)
        error = made(req, parent, name, target, FOLDER_SYMLINK, &object);
    names_unlock();
    reply_entry(req, object, error);
}

static void op_create(fuse_req_t req, fuse_ino_t ino, const char *name, mode_t mode,
                      struct fuse_file_info *fi)
{
    struct object *parent = object_of(ino), *object = NULL;
    struct fuse_entry_param entry;
    int flags = (fi->flags & O_ACCMODE) | O_CREAT | O_EXCL | O_CLOEXEC;
    names_lock();
    int fd = is_lines(parent, name) ? -1 : openat(parent->fd, name, flags, mode);
    int error = fd < 0 ? errno : made(req, parent, name, NULL, FOLDER_CREATE, &object);
    names_unlock();
    if (!error)
        error = entry_of(object, &entry);
    if (error) {
        if (fd >= 0)
            close(fd);
        fuse_reply_err(req, error);
        return;
    }
    fi->fh = (uint64_t)fd;
    fi->keep_cache = 1;
    if ((fi->flags & O_ACCMODE) != O_RDONLY)
        press_opened(object);
    if (fuse_reply_create(req, &entry, fi))
        close(fd);
}

/* What the log calls an object that has no contents but those of a file; 0 for a device, which no state
 * may have. */
enum folder_op op_of_kind(mode_t mode)
{
    if (S_ISREG(mode))
        return FOLDER_CREATE;
    if (S_ISFIFO(mode))
        return FOLDER_PIPE;
    return S_ISSOCK(mode) ? FOLDER_SOCKET : (enum folder_op)0;
}

static void op_mknod(fuse_req_t req, fuse_ino_t ino, const char *name, mode_t mode, dev_t device)
{
    (void)device;
    struct object *parent = object_of(ino), *object = NULL;
    enum folder_op op = op_of_kind(mode);
    names_lock();
    int error = !op ? EPERM : mknodat(parent->fd, name, mode, 0) ? errno : 0;
    if (!error)
        error = made(req, parent, name, NULL, op, &object);
    names_unlock();
    reply_entry(req, object, error);
}

static void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t new_parent, const char *name)
{
    struct object *object = object_of(ino), *parent = object_of(new_parent), *found = NULL;
    struct request request = {.op = (enum pclog_op)FOLDER_LINK,
                              .object = (uint32_t)parent->number,
                              .offset = object->number,
                              .length = strlen(name)};
    char path[PROC_PATH_MAX];
    object_path(object, path);
    names_lock();
    int error = linkat(AT_FDCWD, path, parent->fd, name, AT_SYMLINK_FOLLOW) ? errno : 0;
    if (!error)
        error = request_done(&request, name, request.length);
    if (!error && !(found = object_find(parent->fd, name, 0)))
        error = errno;
    names_unlock();
    reply_entry(req, found, error);
}

static void removed(fuse_req_t req, fuse_ino_t ino, const char *name, enum folder_op op, int flags)
{
    struct object *parent = object_of(ino);
    struct request request = {.op = (enum pclog_op)op,
                              .object = (uint32_t)parent->number,
                              .length = strlen(name)};
    names_lock();
    int error = unlinkat(parent->fd, name, flags) ? errno : 0;
    if (!error)
        error = request_done(&request, name, request.length);
    names_unlock();
    fuse_reply_err(req, error);
}

static void op_unlink(fuse_req_t req, fuse_ino_t ino, const char *name)
{
    removed(req, ino, name, FOLDER_UNLINK, 0);
}

static void op_rmdir(fuse_req_t req, fuse_ino_t ino, const char *name)
{
    removed(req, ino, name, FOLDER_RMDIR, AT_REMOVEDIR);
}

static void op_rename(fuse_req_t req, fuse_ino_t ino, const char *name, fuse_ino_t new_ino,
                      const char *new_name, unsigned flags)
{
    struct object *parent = object_of(ino), *new_parent = object_of(new_ino);
    struct names names;
    join(&names, name, new_name);
    struct request request = {.op = (enum pclog_op)FOLDER_RENAME,
                              .object = (uint32_t)parent->number,
                              .offset = new_parent->number,
                              .length = names.length,
                              .flags = flags & RENAME_EXCHANGE ? FOLDER_EXCHANGE : 0};
    int error = flags & ~(unsigned)(RENAME_EXCHANGE | RENAME_NOREPLACE) ? EINVAL : 0;
    names_lock();
    if (!error && renameat2(parent->fd, name, new_parent->fd, new_name, flags))
        error = errno;
    if (!error)
        error = request_done(&request, names.bytes, names.length);
    names_unlock();
    fuse_reply_err(req, error);
}

static void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    int fd = openat(object_of(ino)->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);
    if (!stream) {
        fuse_reply_err(req, errno);
        if (fd >= 0)
            close(fd);
        return;
    }
    fi->fh = (uint64_t)(uintptr_t)stream;
    if (fuse_reply_open(req, fi))
        closedir(stream);
}

static void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
                       struct fuse_file_info *fi)
{
    (void)ino;
    DIR *stream = (DIR *)(uintptr_t)fi->fh;
    char *bytes = malloc(size);
    size_t used = 0;
    int error = bytes ? 0 : ENOMEM;
    if (offset != telldir(stream))
        seekdir(stream, offset);
    while (!error) {
        errno = 0;
        struct dirent *entry = readdir(stream);
        if (!entry) {
            error = used ? 0 : errno;
            break;
        }
        struct stat told = {.st_ino = entry->d_ino, .st_mode = (mode_t)entry->d_type << 12};
        size_t needed = fuse_add_direntry(req, bytes + used, size - used, entry->d_name, &told,
                                          telldir(stream));
        if (needed > size - used)
            break; /* asked for again, from the offset of the last that had room */
        used += needed;
    }
    if (error)
        fuse_reply_err(req, error);
    else
        fuse_reply_buf(req, bytes, used);
    free(bytes);
}

static void op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)ino;
    closedir((DIR *)(uintptr_t)fi->fh);
    fuse_reply_err(req, 0);
}

static void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
    (void)ino;
    struct statvfs found;
    if (fstatvfs(folder_root()->fd, &found))
        fuse_reply_err(req, errno);
    else
        fuse_reply_statfs(req, &found);
}

void names_operations(struct fuse_lowlevel_ops *operations)
{
    operations->lookup = op_lookup;
    operations->forget = op_forget;
    operations->forget_multi = op_forget_multi;
    operations->readlink = op_readlink;
    operations->mkdir = op_mkdir;
    operations->symlink = op_symlink;
    operations->create = op_create;
    operations->mknod = op_mknod;
    operations->link = op_link;
    operations->unlink = op_unlink;
    operations->rmdir = op_rmdir;
    operations->rename = op_rename;
    operations->opendir = op_opendir;
    operations->readdir = op_readdir;
    operations->releasedir = op_releasedir;
    operations->statfs = op_statfs;
}
