/* SPDX-License-Identifier: Apache-2.0
 *
 * Device-mapper by ioctl: one device whose table is exchanged.
 */
#ifndef POWERCUT_COMMON_DM_H
#define POWERCUT_COMMON_DM_H

#include <stddef.h>
#include <stdint.h>

/* Creates the device `name`; its node is /dev/dm-0 for the first one.  All
 * functions here return 0, or -1 with errno set. */
int dm_create(const char *name);

/* Ends the device `name`; what it holds back it writes first. */
int dm_remove(const char *name);

/* The number of the device that was created last: its node is /dev/dm-N. */
unsigned dm_minor(void);

/* Gives `name` the table "0 SECTORS TARGET PARAMS" in place of the one it has.
 * What the old table held is gone when this returns. */
int dm_swap(const char *name, uint64_t sectors, const char *target, const char *params);

/* The status line of the device's only target. */
int dm_status(const char *name, char *line, size_t size);

/* Sends `message` to the target (or, if it begins with '@', to the core) and
 * stores the answer, if there is room. */
int dm_message(const char *name, const char *message, char *answer, size_t size);

#endif
