/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POWERCUT_ENDED_H
#define POWERCUT_ENDED_H

#include <stdbool.h>
#include <sys/wait.h>

/* Whether a child that has ended did so with status 0: it may be the parent of a daemon, which works on.
 * Somebody else waits for the child. */
static inline bool ended_in_order(pid_t child)
{
    siginfo_t info = {0};

    return waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) == 0 &&
           info.si_code == CLD_EXITED && info.si_status == 0;
}

#endif
