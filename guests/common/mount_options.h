/* SPDX-License-Identifier: Apache-2.0
 *
 * What mount(8) calls options, for mount(2).
 */
#ifndef POWERCUT_MOUNT_OPTIONS_H
#define POWERCUT_MOUNT_OPTIONS_H

#include <stddef.h>

/* Splits a list of words with commas between them: those that are flags of mount(2) are
 * returned as such, the others are the file system's own and go to `data`, a string of at
 * most `size` bytes with its end.  Words that find no room are left out: give `data` as
 * much room as `options` takes. */
unsigned long mount_options_split(const char *options, char *data, size_t size);

#endif
