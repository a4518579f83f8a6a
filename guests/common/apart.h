/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POWERCUT_APART_H
#define POWERCUT_APART_H

#include <errno.h>
#include <sched.h>
#include <stdbool.h>

/* Shared memory, semaphores and queues of System V, and POSIX queues, go with the last process that
 * was started in the same call.  A kernel without such namespaces has none of them apart. */
static inline bool memory_apart(void)
{
    return unshare(CLONE_NEWIPC) == 0 || errno == EINVAL || errno == ENOSYS;
}

#endif
