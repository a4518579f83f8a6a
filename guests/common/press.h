/* SPDX-License-Identifier: Apache-2.0
 *
 * A kernel at work: it writes back what nobody has synced, and others commit.
 */
#ifndef POWERCUT_PRESS_H
#define POWERCUT_PRESS_H

#include <assert.h>
#include <stdint.h>

/* What was done so far. */
struct pressed {
    uint64_t writebacks; /* how often the kernel was told to write back what is dirty */
    uint64_t commits;    /* syncs of the neighbour's that have returned */
};
static_assert(sizeof(struct pressed) == 16, "no padding");

/* From now on this kernel writes back all that is dirty, again and again, and a neighbour on each of
 * the file systems mounted at `points` (which ends with NULL) commits, at instants that `seed`
 * decides.  For the life of the process, which is to be PID 1: no program can end its threads.
 * 0, or -1 and errno. */
int press_begin(uint64_t seed, char *const points[]);

/* The neighbour has no file any more, so that one may unmount; then it has some at `points` again. */
void press_let_go(void);
void press_take(char *const points[]);
/* As press_let_go, for a child that was forked and does nothing of this. */
void press_forget(void);

/* Nothing, before `press_begin`; also for children that were forked since. */
struct pressed press_done(void);

#endif
