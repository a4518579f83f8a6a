/* SPDX-License-Identifier: Apache-2.0
 *
 * The log of a captured folder, of the kind PCLOG_FOLDER (log_format.h): the files, header, events
 * and checksums of a disk's log, with other requests.  `disk_size` of the header is 0.
 *
 * An *object* is a file, a folder, a symbolic link, a named pipe or a socket; it has a number from 1 (the folder itself),
 * which it keeps under all its names and which is never given again.  Requests are submitted and
 * completed as a disk's are; COMPLETE repeats `op` and, with PCLOG_FAILED, has the errno in `length`.
 *
 * | op of SUBMIT | connection | offset | length | payload |
 * | --- | --- | --- | --- | --- |
 * | WRITE | file | first byte | bytes | the bytes; PCLOG_FUA: the file or the call is O_DSYNC or O_SYNC |
 * | ZERO | file | first byte | bytes | of a hole or of zeroes; the size stays |
 * | FLUSH | file, folder; 0: all | first byte | bytes; 0: all of them | fsync; with FOLDER_DATA_ONLY fdatasync; of 0 sync, syncfs; of a range msync, or what a write with O_DSYNC or O_SYNC ends with |
 * | TRUNCATE | file | 0 | new size | |
 * | GROW | file | 0 | new size, which is larger (fallocate) | |
 * | CREATE, MKDIR, PIPE, SOCKET | folder | new object | of the payload | NAME |
 * | SYMLINK | folder | new object | of the payload | NAME NUL TARGET |
 * | LINK | folder | object | of the payload | NAME |
 * | UNLINK, RMDIR | folder | 0 | of the payload | NAME |
 * | RENAME | from folder | to folder | of the payload | NAME NUL NEW NAME; FOLDER_EXCHANGE |
 * | ATTRIBUTES | object | 0 | of the payload | struct folder_attributes; an extended attribute's NAME NUL VALUE; FOLDER_BORN: the object was made with them |
 *
 * What the folder held at first stands before the event BEGIN, as if it had just been made.  An
 * event LINES has what the program wrote to its POWERCUT_FD, a write(2) each, as its payload.
 * CUT is the instant at which the power went, and END follows.
 *
 * The Python side is harness/powercut/disk/folder_log.py.
 */
#ifndef POWERCUT_FOLDER_FORMAT_H
#define POWERCUT_FOLDER_FORMAT_H

#include "log_format.h"

#define FOLDER_ROOT 1u

enum folder_op {
    FOLDER_TRUNCATE = 5,
    FOLDER_CREATE = 6,
    FOLDER_MKDIR = 7,
    FOLDER_SYMLINK = 8,
    FOLDER_LINK = 9,
    FOLDER_UNLINK = 10,
    FOLDER_RMDIR = 11,
    FOLDER_RENAME = 12,
    FOLDER_GROW = 13,
    FOLDER_ATTRIBUTES = 14,
    FOLDER_PIPE = 15,
    FOLDER_SOCKET = 16
};

enum folder_type { FOLDER_BEGIN = 10, FOLDER_LINES = 11 };

enum folder_flags { FOLDER_DATA_ONLY = 8, FOLDER_EXCHANGE = 16, FOLDER_BORN = 32 };

/* Which attributes a change has. */
enum folder_mask {
    FOLDER_HAS_MODE = 1,
    FOLDER_HAS_OWNER = 2, /* and the group */
    FOLDER_HAS_ACCESS = 4,
    FOLDER_HAS_CHANGE = 8,
    FOLDER_HAS_FIXED = 15,
    FOLDER_HAS_XATTR = 16,
    FOLDER_HAS_NO_XATTR = 32 /* it was removed */
};

#define FOLDER_OWN UINT32_MAX

struct folder_attributes {
    uint32_t mask; /* enum folder_mask; what it does not name has no meaning */
    uint32_t mode; /* the twelve bits of chmod(2) */
    uint32_t owner, group; /* FOLDER_OWN: of who records */
    int64_t access_ns, change_ns; /* since 1970 */
};
static_assert(sizeof(struct folder_attributes) == 32, "attributes are 32 bytes");

#endif
