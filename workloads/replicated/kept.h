/* SPDX-License-Identifier: Apache-2.0
 *
 * The small files of a node, each with its checksum, and which of them it forgets to sync.
 */
#ifndef POWERCUT_REPLICATED_KEPT_H
#define POWERCUT_REPLICATED_KEPT_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#define MOST 1000 /* entries, and operations */

extern char folder[PATH_MAX - 16];
extern const char *fault;

_Noreturn void give_up(const char *what);
bool forgets(const char *what);
const char *path_of(const char *name); /* the last two that were asked for stay */
void sync_folder(void);

/* A few words in place, which is whole or not at all, or more in a new file. */
void keep(const char *name, const uint32_t *words, uint32_t count);

/* How many words it found; 0: the file is not whole, or not there, or has more than `room`. */
uint32_t find(const char *name, uint32_t *words, uint32_t room);

#endif
