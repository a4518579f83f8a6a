/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands in every sector, without a copy of it.
 *
 * Payloads are written once, to the disk log, and never change there.  So a
 * view of the disk is only a table: for every sector of 512 bytes one number
 * that says which write it shows and where those bytes are.
 *
 *     0                     the sector of the base image
 *     2 * unit + 1          payload unit number `unit`
 *     2 * unit              zeroes, written when `unit` was the next free payload unit
 *
 * Payload units are counted across all logs of the process, from 1, in the order
 * of submission.  So of two entries for one sector the greater one is the newer
 * write, and "an older cached write never overwrites a newer one" is a maximum.
 */
#ifndef POWERCUT_CAPTURE_MEDIUM_H
#define POWERCUT_CAPTURE_MEDIUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SECTOR = 512 };

struct view {
    uint64_t sectors;
    uint64_t *entries;   /* one per sector; memory appears where it is written */
    uint8_t *touched;    /* one per block of TOUCHED_SECTORS: some entry is not 0 */
};
enum { TOUCHED_SECTORS = 4096 };

/* Consecutive sectors of one write. */
struct extent {
    uint64_t request;
    uint64_t sector;
    uint64_t sectors;
    uint64_t entry; /* of its first sector */
    uint64_t step;  /* from one sector's entry to the next: 2 for a payload, 0 for zeroes */
};

/* Where payload units are: files of consecutive units, newest first. */
struct segment {
    struct segment *older;
    uint64_t first_unit;
    int fd;
};

struct store {
    int base_fd;
    uint64_t size;                   /* bytes of the disk */
    _Atomic(struct segment *) newest;
};

int view_create(struct view *view, uint64_t sectors);
void view_destroy(struct view *view);

/* Shows `extent` wherever it is newer than what the view shows. */
void view_apply(struct view *view, const struct extent *extent);

/* Shows `entry` in one sector, newer or not. */
void view_set(struct view *view, uint64_t sector, uint64_t entry);

/* Copies what `from` shows at `extent`. */
void view_revert(struct view *view, const struct view *from, const struct extent *extent);

/* Reads through a view.  Needs no lock: payloads precede the entries that name them. */
int store_read(const struct store *store, const struct view *view, void *bytes, uint64_t count,
               uint64_t offset);

/* Takes over `fd`, which holds units from `first_unit` on. */
int store_add_segment(struct store *store, uint64_t first_unit, int fd);
void store_close(struct store *store);

/* A frozen copy of a view as a list of runs, which can be written without any lock. */
struct run {
    uint64_t sector;
    uint64_t sectors;
    uint64_t entry;
    uint64_t step;
};
struct runs {
    struct run *items;
    size_t count, space;
};
int view_runs(const struct view *view, struct runs *runs);

/* Writes base image and runs to a new sparse file.  Returns 0 or an errno. */
int store_write_image(const struct store *store, const struct runs *runs, const char *path);

#endif
