/* SPDX-License-Identifier: Apache-2.0
 *
 * What of a file a sync is of.
 *
 * Linux writes back the range that a call is about (vfs_fsync_range): msync(2) the pages of its
 * mapping, a write with O_DSYNC, O_SYNC or RWF_DSYNC the bytes that it has just written, and the rest of
 * the file stays volatile.  FUSE passes all of them on as FSYNC, without a range.  Who asks waits for
 * the answer, inside of its system call, and the kernel tells which that is (/proc/TID/syscall):
 *
 * - fsync, fdatasync: the whole file;
 * - msync: what the mappings in its range (/proc/TID/maps) show of the file;
 * - any other: the bytes of the synchronous write which the same thread has just made;
 * - io_uring and AIO, whose syncs another thread may make for the program: those bytes, too, if that
 *   thread has just made such a write, and else the whole file.
 *
 * A write of AIO or io_uring with O_DIRECT is synced by nobody else, unless it makes its file longer
 * (fuse_direct_IO in fs/fuse/file.c): it is durable by itself, and the next sync is another one's.
 */
#ifndef POWERCUT_CAPTURE_FOLDER_RANGE_H
#define POWERCUT_CAPTURE_FOLDER_RANGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "folder.h"

/* A thread has written these bytes of a file with one of the flags; `alone`: with O_DIRECT, and
 * within the file. */
void range_written(pid_t thread, uint64_t number, uint64_t begin, uint64_t end, bool alone);

/* What the sync of a file that the thread waits for is of, from `*begin` to `*end`; with `*end` 0
 * the whole file.  0, or an errno: that cannot be told. */
int range_of_sync(pid_t thread, const struct object *object, uint64_t *begin, uint64_t *end);

#endif
