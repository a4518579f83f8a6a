/* SPDX-License-Identifier: Apache-2.0
 *
 * Which files of what is mounted a check reads (reads.c), and the answer to it: struct pcu_reads,
 * and so many times struct pcu_read, its path and its target.
 * harness/powercut/recover/port.py reads it.
 */
#ifndef POWERCUT_READS_H
#define POWERCUT_READS_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pcu_reads {
    uint64_t count;
};
static_assert(sizeof(struct pcu_reads) == 8, "no padding");

struct pcu_read {
    uint64_t size;        /* of the file, before the reader was run; */
    uint64_t modified_ns; /* and its times then, since 1970 */
    uint64_t changed_ns;
    uint32_t path;   /* bytes of the path, relative to the mount point */
    uint32_t target; /* of a symbolic link, whose target follows the path: bytes of that; else 0 */
    uint32_t unread; /* 1 if it is still there and was not read */
    uint32_t crc; /* CRC-32C of what it holds; 0 if a reader was run, or it cannot be read */
};
static_assert(sizeof(struct pcu_read) == 40, "no padding");

/* From here on every read of what is mounted on `path` is dated.  0, or -1 and errno. */
int reads_date(const char *path);

/* Notes the files below `root`; between this and `reads_put` a check reads some of them.
 * 0, or -1: then nothing is known of any file. */
int reads_begin(const char *root);

/* The answer at `to`, with what files hold if `crcs`; its bytes, 0 if there is not the `space`. */
size_t reads_put(uint8_t *to, size_t space, bool crcs);

#endif
