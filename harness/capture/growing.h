/* SPDX-License-Identifier: Apache-2.0
 *
 * A file that grows, on a disk of fixed size: what growing_nbd.c and growing_file.c share.
 *
 * The disk (docs/formats/growing-file.md) has the file's bytes from its beginning, and in its last
 * GROWING_TABLE bytes a table of sizes: each change of the file's size is a sector of its own, so
 * that it is there after a power cut or not, whatever became of others and of the bytes.
 * The file is as long as the largest size in the table.
 */
#ifndef POWERCUT_CAPTURE_GROWING_H
#define POWERCUT_CAPTURE_GROWING_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GROWING_SECTOR = 512, GROWING_SIZES = 32768, GROWING_TABLE = GROWING_SECTOR * GROWING_SIZES };

#define GROWING_MAGIC 0x455a495354554350u /* "PCUTSIZE" as it lies in the file */

/* A sector of the table; a torn one counts as none. */
struct growing_size {
    uint64_t magic, size, inverse; /* ~size */
    uint8_t zero[GROWING_SECTOR - 24];
};
static_assert(sizeof(struct growing_size) == GROWING_SECTOR, "a sector");

/* The numbers are those of NBD. */
enum nbd_command { NBD_READ = 0, NBD_WRITE = 1, NBD_FLUSH = 3, NBD_WRITE_ZEROES = 6 };

/* Where the disk is served: a unix socket. */
void nbd_server(const char *socket);

/* The size of the disk, in bytes; 0, and errno, if it cannot be had. */
uint64_t nbd_size(void);

/* One request, over the calling thread's own connection, so that requests of several threads are
 * on their way at the same time.  `offset` and `length` are whole sectors.  0 or an errno. */
int nbd_request(enum nbd_command command, uint64_t offset, uint32_t length, void *bytes);

#endif
