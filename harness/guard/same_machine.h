/* SPDX-License-Identifier: Apache-2.0
 *
 * What makes the machine of a check that of the run: its network card, its machine-id; and what tells
 * that it has booted since: other pids.  Each returns 0, or -1 and errno.
 */
#ifndef POWERCUT_SAME_MACHINE_H
#define POWERCUT_SAME_MACHINE_H

int machine_card(const char *mac);

/* The loopback of a network that is new. */
int machine_loopback(void);

#include <stdbool.h>

#define MACHINE_NAME "powercut" /* as powercut.model.machine_identity says */

/* Shows the files at `root` ("" for /) with `id` as their machine-id and MACHINE_NAME as the name of the
 * host, as far as they have such files; what is shown is kept in the folder `kept`.  `again`: only the machine-id is another one. */
int machine_files(const char *root, const char *id, const char *kept, bool again);

/* From now on processes get pids from `first` on, in the namespace of the caller, whose settings are in
 * the folder `proc`, a proc file system; nothing is done if they are beyond it. */
int machine_pids(int proc, int first);

#endif
