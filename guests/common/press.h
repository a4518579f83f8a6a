/* SPDX-License-Identifier: Apache-2.0
 *
 * A kernel that writes back what nobody has synced.
 */
#ifndef POWERCUT_PRESS_H
#define POWERCUT_PRESS_H

#include <stdint.h>

/* From now on a process has this kernel write back all that is dirty, again and again, at instants
 * that `seed` decides.  0, or -1 and errno. */
int press_begin(uint64_t seed);

#endif
