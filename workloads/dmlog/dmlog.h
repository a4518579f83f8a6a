/* SPDX-License-Identifier: Apache-2.0
 *
 * A dm-log-writes target by ioctl, without libdevmapper or dmsetup.
 *
 * The interface is <linux/dm-ioctl.h>; the target and its messages are in the
 * kernel's Documentation/admin-guide/device-mapper/log-writes.rst.
 *
 * All functions return 0, or -1 with errno set.  None of them prints.
 */
#ifndef POWERCUT_DMLOG_H
#define POWERCUT_DMLOG_H

#include <stddef.h>
#include <stdint.h>

#define DMLOG_CONTROL "/dev/mapper/control"
#define DMLOG_NAME_MAX 127  /* bytes of a device's name, DM_NAME_LEN without the zero byte */
#define DMLOG_MARK_MAX 479  /* bytes of a mark that fit a log of 512-byte sectors */

/* A device whose control is held open, so that a mark costs one ioctl. */
struct dmlog {
    int control;
    char name[DMLOG_NAME_MAX + 1];
};

/* Creates device `name`: all that is written to it goes to `data` (its whole
 * size) and into the log on `log`.  Leaves the path of the new block device in
 * `path` (also linked as /dev/mapper/NAME).  Undoes what it did if it fails. */
int dmlog_create(const char *name, const char *data, const char *log, char *path, size_t size);

/* Opens device `name`, which must exist, for marks. */
int dmlog_open(struct dmlog *dm, const char *name);

/* Puts a mark into the log.  When it returns the mark has its place: everything
 * whose flush, or FUA write, had completed before the call stands in front of it.
 * The log itself is written a little later, by a thread of the kernel. */
int dmlog_mark(struct dmlog *dm, const char *mark);

/* "ack LSN": what the importer takes for a promise. */
int dmlog_ack(struct dmlog *dm, uint64_t lsn);

/* The target's status line: entries logged, highest sector, and
 * "logging_disabled" if the log device is full or failed. */
int dmlog_status(struct dmlog *dm, char *line, size_t size);

void dmlog_close(struct dmlog *dm);

/* Removes device `name`.  Returns once the whole log is on the log device, with
 * the mark "dm-log-writes-end" behind it.  EBUSY while the device is open. */
int dmlog_remove(const char *name);

#endif
