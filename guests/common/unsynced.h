/* SPDX-License-Identifier: Apache-2.0
 *
 * A program without its syncs.
 */
#ifndef POWERCUT_UNSYNCED_H
#define POWERCUT_UNSYNCED_H

/* From now on the calls of this process that make data durable do nothing, and those of whatever
 * it becomes or starts.  0, or -1 and errno. */
int unsynced_begin(void);

#endif
