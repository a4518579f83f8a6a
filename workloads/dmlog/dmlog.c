/* SPDX-License-Identifier: Apache-2.0 */
#include "dmlog.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* One request to device-mapper: the header and what follows it. */
struct request {
    struct dm_ioctl head;
    char body[4096];
};

static int request_init(struct request *request, const char *name)
{
    if (!*name || strlen(name) > DMLOG_NAME_MAX) {
        errno = EINVAL;
        return -1;
    }
    memset(request, 0, sizeof(*request));
    /* 4.0.0 is the oldest interface that has all we use; the kernel takes any
     * older minor number than its own. */
    request->head.version[0] = DM_VERSION_MAJOR;
    request->head.data_size = sizeof(*request);
    request->head.data_start = offsetof(struct request, body);
    strcpy(request->head.name, name);
    return 0;
}

static int control_open(void)
{
    return open(DMLOG_CONTROL, O_RDWR | O_CLOEXEC);
}

static void keep_errno_close(int fd)
{
    int saved = errno;

    close(fd);
    errno = saved;
}

/* Size of a block device in sectors of 512 bytes. */
static int device_sectors(const char *path, uint64_t *sectors)
{
    uint64_t bytes = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return -1;
    if (ioctl(fd, BLKGETSIZE64, &bytes) < 0) {
        keep_errno_close(fd);
        return -1;
    }
    close(fd);
    *sectors = bytes / 512;
    return 0;
}

static int load_table(int control, const char *name, uint64_t sectors, const char *data,
                      const char *log)
{
    struct request request;
    struct dm_target_spec *spec = (struct dm_target_spec *)request.body;
    size_t room = sizeof(request.body) - sizeof(*spec);
    int length;

    if (request_init(&request, name) < 0)
        return -1;
    request.head.target_count = 1;
    spec->length = sectors;
    strcpy(spec->target_type, "log-writes");
    length = snprintf(request.body + sizeof(*spec), room, "%s %s", data, log);
    if (length < 0 || (size_t)length >= room) {
        errno = ENAMETOOLONG;
        return -1;
    }
    spec->next = (uint32_t)((sizeof(*spec) + (size_t)length + 1 + 7) & ~(size_t)7);
    return ioctl(control, DM_TABLE_LOAD, &request);
}

/* Makes /dev/mapper/NAME lead to the device, whether or not devtmpfs made a node. */
static int link_device(const char *name, uint64_t dev, char *path, size_t size)
{
    /* The number as the kernel encodes it (huge_encode_dev): minor in bits 0-7 and 20-31. */
    unsigned int device_major = (unsigned int)((dev & 0xfff00) >> 8);
    unsigned int device_minor = (unsigned int)((dev & 0xff) | ((dev >> 12) & 0xfff00));
    char target[sizeof("/dev/mapper/") + DMLOG_NAME_MAX];
    char node[64];

    snprintf(target, sizeof(target), "/dev/mapper/%s", name);
    snprintf(node, sizeof(node), "/dev/dm-%u", device_minor);
    if (unlink(target) < 0 && errno != ENOENT)
        return -1;
    if (access(node, F_OK) == 0) {
        if (symlink(node, target) < 0)
            return -1;
    } else if (mknod(target, S_IFBLK | 0600, makedev(device_major, device_minor)) < 0) {
        return -1;
    } else {
        snprintf(node, sizeof(node), "%.63s", target);
    }
    if (strlen(node) >= size) {
        errno = ERANGE;
        return -1;
    }
    strcpy(path, node);
    return 0;
}

static int remove_device(int control, const char *name)
{
    struct request request;

    if (request_init(&request, name) < 0)
        return -1;
    return ioctl(control, DM_DEV_REMOVE, &request);
}

int dmlog_create(const char *name, const char *data, const char *log, char *path, size_t size)
{
    struct request request;
    uint64_t sectors;
    int control;
    int saved;

    if (request_init(&request, name) < 0 || device_sectors(data, &sectors) < 0)
        return -1;
    control = control_open();
    if (control < 0)
        return -1;
    if (ioctl(control, DM_DEV_CREATE, &request) < 0) {
        keep_errno_close(control);
        return -1;
    }
    if (load_table(control, name, sectors, data, log) < 0)
        goto undo;
    if (request_init(&request, name) < 0)
        goto undo;
    /* A suspend request without the suspend flag resumes: the table comes alive. */
    if (ioctl(control, DM_DEV_SUSPEND, &request) < 0)
        goto undo;
    if (link_device(name, request.head.dev, path, size) < 0)
        goto undo;
    close(control);
    return 0;
undo:
    saved = errno;
    remove_device(control, name);
    close(control);
    errno = saved;
    return -1;
}

int dmlog_open(struct dmlog *dm, const char *name)
{
    struct request request;

    if (request_init(&request, name) < 0)
        return -1;
    strcpy(dm->name, name);
    dm->control = control_open();
    if (dm->control < 0)
        return -1;
    if (ioctl(dm->control, DM_DEV_STATUS, &request) < 0) {
        keep_errno_close(dm->control);
        return -1;
    }
    return 0;
}

int dmlog_mark(struct dmlog *dm, const char *mark)
{
    struct request request;
    struct dm_target_msg *message = (struct dm_target_msg *)request.body;
    char *out;

    if (!*mark || strlen(mark) > DMLOG_MARK_MAX) {
        errno = EINVAL;
        return -1;
    }
    if (request_init(&request, dm->name) < 0)
        return -1;
    out = message->message;
    out = stpcpy(out, "mark ");
    /* Device-mapper splits a message at white space, and the target wants two words. */
    for (; *mark; mark++) {
        if (strchr(" \t\n\v\f\r\\", *mark))
            *out++ = '\\';
        *out++ = *mark;
    }
    return ioctl(dm->control, DM_TARGET_MSG, &request);
}

int dmlog_ack(struct dmlog *dm, uint64_t lsn)
{
    char mark[32];

    snprintf(mark, sizeof(mark), "ack %llu", (unsigned long long)lsn);
    return dmlog_mark(dm, mark);
}

int dmlog_status(struct dmlog *dm, char *line, size_t size)
{
    struct request request;
    struct dm_target_spec *spec = (struct dm_target_spec *)request.body;

    if (request_init(&request, dm->name) < 0 ||
        ioctl(dm->control, DM_TABLE_STATUS, &request) < 0)
        return -1;
    if (request.head.target_count != 1 || strcmp(spec->target_type, "log-writes") != 0) {
        errno = ENODEV;
        return -1;
    }
    snprintf(line, size, "%s", request.body + sizeof(*spec));
    return 0;
}

void dmlog_close(struct dmlog *dm)
{
    close(dm->control);
    dm->control = -1;
}

int dmlog_remove(const char *name)
{
    char target[sizeof("/dev/mapper/") + DMLOG_NAME_MAX];
    int control = control_open();

    if (control < 0)
        return -1;
    if (remove_device(control, name) < 0) {
        keep_errno_close(control);
        return -1;
    }
    close(control);
    snprintf(target, sizeof(target), "/dev/mapper/%s", name);
    unlink(target);
    return 0;
}
