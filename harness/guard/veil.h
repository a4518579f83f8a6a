/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VEIL_H
#define VEIL_H

#include <stdbool.h>

/* Whether `path` names something below `folder`. */
bool is_below(const char *path, const char *folder);

/* Puts an overlay over what this mount namespace shows read-only of the host, where the kernel lets
 * it.  Returns 0, or -1 with errno if what was there cannot be put back. */
int veil_host(void);

#endif
