/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages that programs have stored to through mappings, written back before anybody asks.
 *
 * FUSE hears of such a store when its page is written back and not before: at msync or fsync, by
 * default.  A kernel at work writes back whenever it likes, and a crash state may hold a page that no
 * sync has asked for.  So a helper process opens each file that is open for writing, through the
 * mount, and has the kernel write its dirty pages back: at instants drawn from the seed, soon after
 * requests of the program (press_wake), and before a sync(2) or syncfs(2) counts as done
 * (press_write_out), which FUSE's mount would not wait for.
 *
 * What a page holds before it is written back is unknown here, and so is when it was stored to: a
 * state never has a page's bytes earlier than they were written back.
 *
 * The helper is a process of its own without the descriptor of FUSE: whoever waits for an answer of
 * the file system that it serves itself cannot be killed.
 */
#ifndef POWERCUT_CAPTURE_FOLDER_PRESS_H
#define POWERCUT_CAPTURE_FOLDER_PRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "folder.h"

/* Forks the helper: before any thread and any descriptor that it must not have. */
int press_fork(void);

/* From here on files are pressed, as the seed has it.  0 or an errno. */
int press_start(uint64_t seed);

/* A handle for writing is there, or gone. */
void press_opened(struct object *object);
void press_closed(const struct object *object);

/* A page of it was written back. */
void press_paged(const struct object *object);

/* The program has asked for something. */
void press_wake(void);

/* Whether the process, as FUSE tells it, is the helper: its syncs are none of the program's. */
bool press_is_own(pid_t pid);

/* A file that is open for writing, and how many pages of it were written back by some instant. */
struct paged {
    uint64_t number, pages;
};

/* All that are open now; the caller frees them.  NULL without any, or without memory. */
struct paged *press_look(size_t *count);

/* Before the cut: has the pages written back that are dirty now.  What no write of the log has is in no
 * state, not even in the one that lacks nothing, by which the check is judged. */
void press_last(void);

/* Writes all dirty pages of `files` back and waits for them.  Of the files those stay of which a
 * page was written back since they were looked at, by whomever.  0, or an errno: some may still be
 * dirty. */
int press_write_out(struct paged *files, size_t *count);

#endif
