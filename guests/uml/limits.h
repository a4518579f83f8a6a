/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POWERCUT_UML_LIMITS_H
#define POWERCUT_UML_LIMITS_H

#include <stdbool.h>

/* Takes from this process and all that it starts what a User-Mode Linux has no use for: every
 * capability, and system calls (limits.c); to connect to a socket, too, unless it `connects`.
 * 0, or -1 and errno. */
int limit_self(bool connects);

#endif
