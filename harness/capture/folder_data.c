/* SPDX-License-Identifier: Apache-2.0
 *
 * A captured folder's requests of FUSE that concern what is in files.
 *
 * The kernel keeps no written page back (no writeback cache): each write(2) is a request before it
 * returns, a store to a shared mapping is one when its page is written back (folder_press.h).  fsync
 * does nothing to the live file but take its time: that it was asked for is all that counts.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folder.h"
#include "folder_press.h"
#include "folder_range.h"

static void reply_open(fuse_req_t req, struct fuse_file_info *fi, int fd)
{
    fi->fh = (uint64_t)fd;
    if (fuse_reply_open(req, fi) && fd >= 0)
        close(fd);
}

static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct object *object = object_of(ino);
    if (object == folder_lines()) {
        fi->direct_io = 1;
        fi->nonseekable = 1;
        reply_open(req, fi, -1);
        return;
    }
    char path[PROC_PATH_MAX];
    object_path(object, path);
    /* Offsets come with each request, and alignment is the program's business. */
    int flags = fi->flags & ~(O_NOFOLLOW | O_APPEND | O_DIRECT | O_SYNC | O_DSYNC | O_TRUNC | O_CREAT);
    int fd = open(path, flags | O_CLOEXEC);
    if (fd < 0) {
        fuse_reply_err(req, errno);
        return;
    }
    fi->keep_cache = 1; /* all changes come through here */
    if ((flags & O_ACCMODE) != O_RDONLY)
        press_opened(object);
    reply_open(req, fi, fd);
}

static void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    if (object_of(ino) != folder_lines()) {
        if ((fi->flags & O_ACCMODE) != O_RDONLY)
            press_closed(object_of(ino));
        close((int)fi->fh);
    }
    fuse_reply_err(req, 0);
}

static void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
                    struct fuse_file_info *fi)
{
    if (object_of(ino) == folder_lines()) {
        fuse_reply_buf(req, NULL, 0);
        return;
    }
    char *bytes = malloc(size);
    if (!bytes) {
        fuse_reply_err(req, ENOMEM);
        return;
    }
    size_t got = 0;
    while (got < size) {
        ssize_t done = pread((int)fi->fh, bytes + got, size - got, offset + (off_t)got);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0) {
            fuse_reply_err(req, errno);
            free(bytes);
            return;
        }
        if (!done)
            break;
        got += (size_t)done;
    }
    fuse_reply_buf(req, bytes, got);
    free(bytes);
}

static int write_whole(int fd, const char *bytes, size_t size, off_t offset)
{
    while (size) {
        ssize_t done = pwrite(fd, bytes, size, offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done ? errno : EIO;
        bytes += done;
        size -= (size_t)done;
        offset += done;
    }
    return 0;
}

/* A request that waits for its answer. */
struct asked {
    fuse_req_t req;
    size_t written; /* 0: a sync */
};

static void reply_written(fuse_req_t req, size_t size, int error)
{
    if (error)
        fuse_reply_err(req, error);
    else
        fuse_reply_write(req, size);
}

static void answer(void *argument, int error)
{
    struct asked *asked = argument;
    if (asked->written)
        reply_written(asked->req, asked->written, error);
    else
        fuse_reply_err(asked->req, error);
    free(asked);
}

/* Answers once the request has taken its time. */
static void answer_later(fuse_req_t req, const struct request *request, size_t written)
{
    struct asked *asked = malloc(sizeof *asked);
    if (!asked) {
        fuse_reply_err(req, ENOMEM);
        return;
    }
    *asked = (struct asked){req, written};
    request_finish(request, answer, asked);
}

static void op_write(fuse_req_t req, fuse_ino_t ino, const char *bytes, size_t size, off_t offset,
                     struct fuse_file_info *fi)
{
    struct object *object = object_of(ino);
    if (object == folder_lines()) {
        reply_written(req, size, folder_event(FOLDER_LINES, bytes, size));
        press_wake();
        return;
    }
    /* The kernel says so for each call: of the file, or by RWF_DSYNC.  A page that it writes back is
     * no call, whatever the file that it was mapped by. */
    bool at_once = !fi->writepage && size && fi->flags & (O_SYNC | O_DSYNC);
    struct request request = {
        .op = PCLOG_WRITE,
        .object = (uint32_t)object->number,
        .offset = (uint64_t)offset,
        .length = size,
        .flags = at_once ? PCLOG_FUA : 0,
    };
    pthread_mutex_lock(&object->lock);
    struct stat found;
    bool alone = at_once && fi->flags & O_DIRECT && !fstat((int)fi->fh, &found) &&
                 request.offset + size <= (uint64_t)found.st_size;
    int error = request_submit(&request, bytes, size);
    if (!error) {
        error = write_whole((int)fi->fh, bytes, size, offset);
        if (error || !at_once)
            error = request_complete(&request, error);
    }
    pthread_mutex_unlock(&object->lock);
    if (at_once)
        range_written(fuse_req_ctx(req)->pid, object->number, request.offset,
                      request.offset + size, alone);
    if (fi->writepage)
        press_paged(object);
    else
        press_wake();
    if (!error && at_once)
        answer_later(req, &request, size);
    else
        reply_written(req, size, error);
}

static void sync_object(fuse_req_t req, const struct object *object, int data_only, bool ranged)
{
    pid_t thread = fuse_req_ctx(req)->pid;
    struct request request = {
        .op = PCLOG_FLUSH,
        .object = (uint32_t)object->number,
        .flags = data_only ? FOLDER_DATA_ONLY : 0,
    };
    bool ours = object == folder_lines() || press_is_own(thread);
    if (!ours && ranged) {
        uint64_t end;
        if (range_of_sync(thread, object, &request.offset, &end))
            folder_doubt("failing syncs: what a sync was of cannot be told, since /proc/TID/syscall "
                         "cannot be read (in a container: --cap-add SYS_PTRACE)");
        request.length = end ? end - request.offset : 0;
    }
    int error = ours ? 0 : request_submit(&request, NULL, 0);
    if (error || ours) {
        fuse_reply_err(req, error);
        return;
    }
    press_wake();
    answer_later(req, &request, 0);
}

static void op_fsync(fuse_req_t req, fuse_ino_t ino, int data_only, struct fuse_file_info *fi)
{
    (void)fi;
    sync_object(req, object_of(ino), data_only, true);
}

/* Of a folder, fdatasync(2) makes the entries durable as fsync(2) does: they are its data. */
static void op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int data_only, struct fuse_file_info *fi)
{
    (void)data_only;
    (void)fi;
    sync_object(req, object_of(ino), 0, false);
}

/* What a fallocate is in the log: room alone is nothing that a cut could take. */
static int allocate_request(int mode, off_t offset, off_t length, off_t size,
                            struct request *request)
{
    off_t end = offset + length;
    switch (mode) {
    case 0:
    case FALLOC_FL_ZERO_RANGE:
    case FALLOC_FL_KEEP_SIZE:
    case FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE:
    case FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE:
        break;
    default:
        return EOPNOTSUPP;
    }
    request[0].op = PCLOG_ZERO;
    request[0].offset = (uint64_t)offset;
    if (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE) && offset < size)
        request[0].length = (uint64_t)((end < size ? end : size) - offset);
    request[1].op = (enum pclog_op)FOLDER_GROW;
    if (!(mode & FALLOC_FL_KEEP_SIZE) && end > size)
        request[1].length = (uint64_t)end;
    return 0;
}

/* Logged once it is done: what a file system refuses has changed nothing. */
static int allocate(const struct object *object, int fd, int mode, off_t offset, off_t length)
{
    struct request request[2] = {{.object = (uint32_t)object->number},
                                 {.object = (uint32_t)object->number}};
    struct stat found;
    int error = fstat(fd, &found) ? errno : 0;
    if (!error)
        error = allocate_request(mode, offset, length, found.st_size, request);
    if (!error && fallocate(fd, mode, offset, length))
        error = errno;
    for (int i = 0; !error && i < 2; i++)
        if (request[i].length)
            error = request_done(&request[i], NULL, 0);
    return error;
}

static void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
                         struct fuse_file_info *fi)
{
    struct object *object = object_of(ino);
    if (object == folder_lines()) {
        fuse_reply_err(req, EOPNOTSUPP);
        return;
    }
    pthread_mutex_lock(&object->lock);
    int error = allocate(object, (int)fi->fh, mode, offset, length);
    pthread_mutex_unlock(&object->lock);
    fuse_reply_err(req, error);
}

static void op_lseek(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence,
                     struct fuse_file_info *fi)
{
    off_t found = object_of(ino) == folder_lines() ? -1 : lseek((int)fi->fh, offset, whence);
    if (found < 0)
        fuse_reply_err(req, object_of(ino) == folder_lines() ? ESPIPE : errno);
    else
        fuse_reply_lseek(req, found);
}

void data_operations(struct fuse_lowlevel_ops *operations)
{
    operations->open = op_open;
    operations->release = op_release;
    operations->read = op_read;
    operations->write = op_write;
    operations->fsync = op_fsync;
    operations->fsyncdir = op_fsyncdir;
    operations->fallocate = op_fallocate;
    operations->lseek = op_lseek;
}
