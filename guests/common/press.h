/* SPDX-License-Identifier: Apache-2.0
 *
 * A kernel that writes back what nobody has synced.
 */
#ifndef POWERCUT_PRESS_H
#define POWERCUT_PRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* From now on a process has this kernel write back all that is dirty, again and again, at instants
 * that `seed` decides.  0, or -1 and errno. */
int press_begin(uint64_t seed);

/* To be told of each child that `wait` has had.  A program may kill every process that it can; if
 * that took the one that presses, there is another from now on. */
void press_again(pid_t gone, int status);

/* Whether it is the one that presses. */
bool press_is(pid_t process);

#endif
