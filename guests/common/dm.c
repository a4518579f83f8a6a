/* SPDX-License-Identifier: Apache-2.0 */
#include "dm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Read maps are the longest answers: a line of some 40 bytes per granule. */
#define DM_BUFFER (4u << 20)

static int control = -1;
static char *buffer;

static struct dm_ioctl *prepare(const char *name, uint32_t flags)
{
    struct dm_ioctl *request;

    if (buffer == NULL && (buffer = malloc(DM_BUFFER)) == NULL)
        return NULL;
    if (control < 0 && (control = open("/dev/mapper/control", O_RDWR | O_CLOEXEC)) < 0)
        return NULL;
    request = (struct dm_ioctl *)buffer;
    memset(request, 0, sizeof *request);
    request->version[0] = DM_VERSION_MAJOR;
    request->data_start = sizeof *request;
    /* The kernel copies data_size bytes in and out: no more than is needed. */
    request->data_size = sizeof *request;
    request->flags = flags;
    snprintf(request->name, sizeof request->name, "%s", name);
    return request;
}

int dm_create(const char *name)
{
    struct dm_ioctl *request = prepare(name, 0);

    return request == NULL ? -1 : ioctl(control, DM_DEV_CREATE, request);
}

int dm_remove(const char *name)
{
    struct dm_ioctl *request = prepare(name, 0);

    return request == NULL ? -1 : ioctl(control, DM_DEV_REMOVE, request);
}

unsigned dm_minor(void)
{
    return minor(((const struct dm_ioctl *)buffer)->dev);
}

int dm_swap(const char *name, uint64_t sectors, const char *target, const char *params)
{
    struct dm_ioctl *request = prepare(name, 0);
    struct dm_target_spec *spec;
    char *text;
    size_t size;

    if (request == NULL)
        return -1;
    spec = (struct dm_target_spec *)(buffer + sizeof *request);
    memset(spec, 0, sizeof *spec);
    spec->length = sectors;
    snprintf(spec->target_type, sizeof spec->target_type, "%s", target);
    text = (char *)(spec + 1);
    size = strlen(params) + 1;
    memcpy(text, params, size);
    size = (size + 7) & ~(size_t)7;
    spec->next = (uint32_t)(sizeof *spec + size);
    request->target_count = 1;
    request->data_size = (uint32_t)(sizeof *request + sizeof *spec + size);
    if (ioctl(control, DM_TABLE_LOAD, request) != 0)
        return -1;
    request = prepare(name, DM_SKIP_LOCKFS_FLAG | DM_NOFLUSH_FLAG); /* no SUSPEND flag: resume */
    return ioctl(control, DM_DEV_SUSPEND, request);
}

int dm_status(const char *name, char *line, size_t size)
{
    struct dm_ioctl *request = prepare(name, DM_NOFLUSH_FLAG);

    if (request == NULL)
        return -1;
    request->data_size = 16384;
    if (ioctl(control, DM_TABLE_STATUS, request) != 0)
        return -1;
    if (request->target_count == 0) {
        errno = ENODEV;
        return -1;
    }
    snprintf(line, size, "%s", buffer + request->data_start + sizeof(struct dm_target_spec));
    return 0;
}

int dm_message(const char *name, const char *message, char *answer, size_t size)
{
    struct dm_ioctl *request = prepare(name, 0);
    struct dm_target_msg *target;

    if (request == NULL)
        return -1;
    target = (struct dm_target_msg *)(buffer + sizeof *request);
    memset(target, 0, sizeof *target);
    memcpy(buffer + sizeof *request + sizeof *target, message, strlen(message) + 1);
    request->data_size = size > 0 ? DM_BUFFER : 16384;
    if (ioctl(control, DM_TARGET_MSG, request) != 0)
        return -1;
    if (size > 0 && (request->flags & DM_BUFFER_FULL_FLAG) != 0) {
        errno = ENOSPC;
        return -1;
    }
    if (size > 0)
        snprintf(answer, size, "%s",
                 (request->flags & DM_DATA_OUT_FLAG) != 0 ? buffer + request->data_start : "");
    return 0;
}
