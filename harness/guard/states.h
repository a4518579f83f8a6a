/* SPDX-License-Identifier: Apache-2.0
 *
 * States of a captured folder, one after the other, in one sandbox (states.c).
 */
#pragma once

#include <stddef.h>

#define STATES "/dev/.states" /* as powercut.recover.native.folder says */
#define STATES_PATHS_MAX 256

/* What is there anew for each state: places that are `empty`, and what is shown `over` them. */
struct states {
    const char *folder, *room; /* bytes of each of those places */
    const char *empty[STATES_PATHS_MAX], *over[STATES_PATHS_MAX];
    size_t empties, overs;
    int mounts; /* of this namespace, to see them change */
};

struct state {
    char name[256];
    int first_pid, lines, words;
};

/* From now on the guard can tell whether what is mounted has changed.  0, or -1 and errno. */
int states_begin(struct states *states);

/* Waits for the next state; -1 if there is none. */
int states_next(const struct states *states, struct state *next);

/* Waits for the end of the process `pidfd`; -1 if nobody wants to know of it any more. */
int states_ended(int pidfd);

void states_answer(const char *text);

/* The descriptors of what is started from now on: 0 is null, 1 and 2 words, 3 lines, and no other. */
int states_descriptors(const struct state *of);

/* Shows the state and what is there anew, in namespaces of its own, whose processes are `proc`'s.
 * Each returns 0, or -1 and errno. */
int states_view(const struct states *states, const char *name, int proc);
