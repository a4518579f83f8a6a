/* SPDX-License-Identifier: Apache-2.0
 *
 * A captured folder's attributes: mode, owner, times, extended attributes with the lists of access
 * control among them.
 *
 * As with names, a change is carried out first and logged when it has succeeded, under the lock of
 * names: a journal keeps both in one order.  What the kernel sets by itself, such as the time of a
 * write, is in the log by the instant of what caused it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "folder.h"

enum { XATTR_BYTES_MAX = 1 << 16 }; /* of a value, and of a list of names: XATTR_SIZE_MAX */

static const char *const INHERITED[] = {"system.posix_acl_access", "system.posix_acl_default"};

struct with_value {
    struct folder_attributes fixed;
    char bytes[XATTR_NAME_MAX + 1 + XATTR_BYTES_MAX];
};

/* --- into the log ------------------------------------------------------------------ */

/* The owner's number as a state is to have it: whoever makes the state is the owner of what belonged
 * to who recorded, and of what belongs to somebody whom a user namespace has no number for. */
static void fill(const struct stat *found, uint32_t mask, struct folder_attributes *fixed)
{
    *fixed = (struct folder_attributes){
        .mask = mask,
        .mode = found->st_mode & 07777,
        .owner = found->st_uid == geteuid() ? FOLDER_OWN : found->st_uid,
        .group = found->st_gid == getegid() ? FOLDER_OWN : found->st_gid,
        .access_ns = found->st_atim.tv_sec * 1000000000 + found->st_atim.tv_nsec,
        .change_ns = found->st_mtim.tv_sec * 1000000000 + found->st_mtim.tv_nsec,
    };
}

static int log_attributes(const struct object *object, const void *payload, size_t bytes, int flags)
{
    struct request request = {.op = (enum pclog_op)FOLDER_ATTRIBUTES,
                              .object = (uint32_t)object->number,
                              .length = bytes,
                              .flags = (uint16_t)flags};
    return request_done(&request, payload, bytes);
}

/* Logs those of the object's attributes that `mask` names as they are now. */
static int log_fixed(const struct object *object, uint32_t mask, int flags)
{
    struct stat found;
    struct folder_attributes fixed;
    int error = object_stat(object, &found);
    if (error)
        return error;
    fill(&found, mask, &fixed);
    return log_attributes(object, &fixed, sizeof fixed, flags);
}

/* Logs one extended attribute, with the mode, which a list of access control changes. */
static int log_xattr(const struct object *object, const char *path, const char *name, int flags)
{
    struct stat found;
    struct with_value *value = malloc(sizeof *value);
    size_t length = strlen(name) + 1;
    int error = value ? object_stat(object, &found) : ENOMEM;
    ssize_t got = 0;
    if (!error) {
        memcpy(value->bytes, name, length);
        got = getxattr(path, name, value->bytes + length, XATTR_BYTES_MAX);
        if (got < 0 && errno != ENODATA)
            error = errno;
    }
    if (!error) {
        uint32_t mask = got < 0 ? FOLDER_HAS_NO_XATTR : FOLDER_HAS_XATTR;
        if (!strncmp(name, "system.posix_acl_", 17))
            mask |= FOLDER_HAS_MODE;
        fill(&found, mask, &value->fixed);
        size_t bytes = sizeof value->fixed + length + (got > 0 ? (size_t)got : 0);
        error = log_attributes(object, value, bytes, flags);
    }
    free(value);
    return error;
}

/* Others are of no concern to programs, or give rights that a state's files must not have. */
static bool is_kept(const char *name)
{
    return !strncmp(name, "user.", 5) || !strcmp(name, INHERITED[0]) || !strcmp(name, INHERITED[1]);
}

static bool has_xattrs(const struct stat *found)
{
    return S_ISREG(found->st_mode) || S_ISDIR(found->st_mode);
}

int attributes_log_base(const struct object *object)
{
    struct stat found;
    char path[PROC_PATH_MAX], *names = NULL;
    object_path(object, path);
    int error = object_stat(object, &found);
    if (!error)
        error = log_fixed(object, FOLDER_HAS_FIXED, FOLDER_BORN);
    if (error || !has_xattrs(&found) || !(names = malloc(XATTR_BYTES_MAX)))
        return error ? error : has_xattrs(&found) ? ENOMEM : 0;
    ssize_t length = listxattr(path, names, XATTR_BYTES_MAX);
    if (length < 0 && errno != ENOTSUP)
        error = errno;
    for (char *name = names; !error && length > 0 && name < names + length;
         name += strlen(name) + 1)
        error = is_kept(name) ? log_xattr(object, path, name, FOLDER_BORN) : 0;
    free(names);
    return error;
}

int attributes_log_made(const struct object *object, uid_t uid, gid_t gid)
{
    struct stat found;
    char path[PROC_PATH_MAX];
    object_path(object, path);
    int error = object_stat(object, &found);
    if (error)
        return error;
    /* The recorder made it: it belongs to who asked for that, if there is more than one to be. */
    if (!geteuid() && (uid != found.st_uid || gid != found.st_gid)) {
        gid_t group = found.st_gid == getegid() ? gid : (gid_t)-1; /* else its folder's */
        if (fchownat(object->fd, "", uid, group, AT_EMPTY_PATH) && errno != EINVAL)
            return errno;
    }
    error = log_fixed(object, FOLDER_HAS_MODE | FOLDER_HAS_OWNER, FOLDER_BORN);
    for (size_t i = 0; !error && has_xattrs(&found) && i < 2; i++)
        if (getxattr(path, INHERITED[i], NULL, 0) >= 0)
            error = log_xattr(object, path, INHERITED[i], FOLDER_BORN);
    return error;
}

/* --- requests ------------------------------------------------------------------------ */

static int resize(struct object *object, const char *path, off_t size)
{
    struct request request = {.op = (enum pclog_op)FOLDER_TRUNCATE,
                              .object = (uint32_t)object->number,
                              .length = (uint64_t)size};
    pthread_mutex_lock(&object->lock);
    int error = truncate(path, size) ? errno : request_done(&request, NULL, 0);
    pthread_mutex_unlock(&object->lock);
    return error;
}

static int set_times(const char *path, const struct stat *wanted, int which)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_OMIT}};
    if (which & FUSE_SET_ATTR_ATIME)
        times[0] = wanted->st_atim;
    if (which & FUSE_SET_ATTR_MTIME)
        times[1] = wanted->st_mtim;
    if (which & FUSE_SET_ATTR_ATIME_NOW)
        times[0].tv_nsec = UTIME_NOW;
    if (which & FUSE_SET_ATTR_MTIME_NOW)
        times[1].tv_nsec = UTIME_NOW;
    return utimensat(AT_FDCWD, path, times, 0) ? errno : 0;
}

static int set_others(const struct object *object, const char *path, const struct stat *wanted,
                      int which)
{
    uint32_t mask = 0;
    int error = 0;
    names_lock();
    if (which & FUSE_SET_ATTR_MODE && chmod(path, wanted->st_mode))
        error = errno;
    if (!error && which & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID) &&
        chown(path, which & FUSE_SET_ATTR_UID ? wanted->st_uid : (uid_t)-1,
              which & FUSE_SET_ATTR_GID ? wanted->st_gid : (gid_t)-1))
        error = errno;
    if (!error && which & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME))
        error = set_times(path, wanted, which);
    if (which & (FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID))
        mask |= FOLDER_HAS_MODE; /* a new owner takes the bits that give rights */
    if (which & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID))
        mask |= FOLDER_HAS_OWNER;
    if (which & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_ATIME_NOW))
        mask |= FOLDER_HAS_ACCESS;
    if (which & (FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_MTIME_NOW))
        mask |= FOLDER_HAS_CHANGE;
    if (!error && mask)
        error = log_fixed(object, mask, 0);
    names_unlock();
    return error;
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)fi;
    struct stat found;
    int error = attributes_of(object_of(ino), &found);
    if (error)
        fuse_reply_err(req, error);
    else
        fuse_reply_attr(req, &found, ATTRIBUTES_TIMEOUT_S);
}

static void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *wanted, int which,
                       struct fuse_file_info *fi)
{
    struct object *object = object_of(ino);
    char path[PROC_PATH_MAX];
    int error = 0;
    object_path(object, path);
    if (object != folder_lines()) { /* that a shell's `>` truncates */
        if (which & FUSE_SET_ATTR_SIZE)
            error = resize(object, path, wanted->st_size);
        /* The kernel says that a truncation changes a time, which needs no saying. */
        int others = which & FUSE_SET_ATTR_SIZE ? which & ~FUSE_SET_ATTR_MTIME_NOW : which;
        if (!error && others & ~FUSE_SET_ATTR_SIZE)
            error = set_others(object, path, wanted, others);
    }
    if (error)
        fuse_reply_err(req, error);
    else
        op_getattr(req, ino, fi);
}

/* Bytes that were asked for, or how many there are. */
static void reply_bytes(fuse_req_t req, const char *bytes, ssize_t got, size_t room)
{
    if (got < 0)
        fuse_reply_err(req, errno);
    else if (!room)
        fuse_reply_xattr(req, (size_t)got);
    else
        fuse_reply_buf(req, bytes, (size_t)got);
}

static void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
    char path[PROC_PATH_MAX], *bytes = malloc(size + 1);
    object_path(object_of(ino), path);
    if (object_of(ino) == folder_lines() || !bytes || !is_kept(name))
        fuse_reply_err(req, bytes ? ENODATA : ENOMEM);
    else
        reply_bytes(req, bytes, getxattr(path, name, bytes, size), size);
    free(bytes);
}

static void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
    char path[PROC_PATH_MAX], *bytes = malloc(size + 1);
    object_path(object_of(ino), path);
    if (!bytes)
        fuse_reply_err(req, ENOMEM);
    else
        reply_bytes(req, bytes, object_of(ino) == folder_lines() ? 0 : listxattr(path, bytes, size),
                    size);
    free(bytes);
}

static void changed(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value,
                    size_t size, int flags)
{
    const struct object *object = object_of(ino);
    char path[PROC_PATH_MAX];
    object_path(object, path);
    int error = object == folder_lines() ? EPERM : is_kept(name) ? 0 : EOPNOTSUPP;
    names_lock();
    if (!error && (value ? setxattr(path, name, value, size, flags) : removexattr(path, name)))
        error = errno;
    if (!error)
        error = log_xattr(object, path, name, 0);
    names_unlock();
    fuse_reply_err(req, error);
}

static void op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value,
                        size_t size, int flags)
{
    changed(req, ino, name, value, size, flags);
}

static void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
    changed(req, ino, name, NULL, 0, 0);
}

void attributes_operations(struct fuse_lowlevel_ops *operations)
{
    operations->getattr = op_getattr;
    operations->setattr = op_setattr;
    operations->getxattr = op_getxattr;
    operations->setxattr = op_setxattr;
    operations->listxattr = op_listxattr;
    operations->removexattr = op_removexattr;
}
