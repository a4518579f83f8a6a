/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POWERCUT_GUARD_LIMITS_H
#define POWERCUT_GUARD_LIMITS_H

#include <stdbool.h>

/* All are for this process and all that it starts, for good; 0, or -1 and errno. */

/* Takes what a User-Mode Linux has no use for: every capability, and system calls (limits.c); to
 * connect to a socket, too, unless it `connects`. */
int limit_kernel(bool connects);

/* Takes system calls that no check needs; capabilities are the caller's to drop. */
int limit_check(void);

/* Takes system calls that no server of root's needs, and setuid files; `rings` are io_uring's. */
int limit_server(bool rings);

/* Takes sockets, but for pairs and those that it has. */
int limit_sockets(void);

#endif
