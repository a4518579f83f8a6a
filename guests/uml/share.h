/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory that the controller and PID 1 of a User-Mode Linux share, and the
 * protocol spoken through it.
 *
 * The controller creates an anonymous file (memfd), UML maps it as I/O memory
 * (`iomem=mmapper,/proc/self/fd/N`), PID 1 maps /dev/mmapper.  So a request of
 * any size costs no copy through a device.  A request is written here, then one
 * byte is sent over the serial line ttyS0; one byte comes back when the answer
 * is here.  There is one request at a time.
 *
 * Layout: one page of struct pcu_page, then `capacity` bytes that requests and
 * answers use as the verb says.  Little-endian, offsets in bytes from the start
 * of that second part unless something else is said.
 *
 * The Python side is harness/powercut/recover/uml/share.py; a test compares the
 * two byte for byte.
 */
#ifndef POWERCUT_UML_SHARE_H
#define POWERCUT_UML_SHARE_H

#include <assert.h>
#include <stdint.h>

#define PCU_MAGIC 0x32554350u /* "PCU2" */
#define PCU_PAGE 4096u
#define PCU_ZEROES UINT64_MAX /* as pcu_patch.data: the patch is zeroes */

enum pcu_verb {
    /* Strings, NUL-terminated: file system type (empty: none), mount options,
     * mount point, path of the reader, its arguments..., an empty string, path
     * of the writer that goes on after recovery and its arguments (or none; PID 1
     * adds the LSN to begin with), an empty string; where programs have their root
     * (empty: in the initramfs; else "/host", the host's files, and the mount point lies
     * below), the folder in which they start, their environment, an empty string, folders
     * of the host that they are to see although /tmp and the like are empty, an empty string;
     * the host's folder that is this root, that which is /opt/powercut in it and that which is
     * /run/powercut (or empty each); for a writer with a root, how many acknowledgements end it and how many milliseconds it
     * may take for them, both in decimal digits; of several disks one string each, "OFFSET LENGTH
     * HOLDS NAME" (bytes on the origin; first, xfs-log, xfs-realtime, folder, stripe or layers), an empty string;
     * of layers, from the disk up: "+MODULE" that is loaded; "NAME SECTORS TARGET
     * PARAMS", where "@NAME" is the device called so and "@disk0" the first disk;
     * after it "?TARGET PARAMS", what it is instead while it is made, "!MESSAGE", what it is sent
     * then, "0" if it is filled with zeroes then, and "~PARAMS", what it is after a cut; an empty
     * string.
     * Holds for every RECOVER that follows. */
    PCU_CONFIGURE = 1,
    /* `count` struct pcu_patch at 0: lays them over the origin, in order. */
    PCU_PATCH = 2,
    /* As PATCH, then: fresh view, mount, reader, unmount.  Answers with what the
     * reader saw at 0: `answer` bytes, struct pc_extent each; of a reader with a root, what
     * it wrote to descriptor 3, as it is.
     * PCU_FLAG_AFTER: then the writer goes on with the record after the last one that
     * came back, clean unmount, mount, reader: `after`, `first_lsn`, `acked`,
     * `attempted` say how that went, and `after_answer` bytes of extents follow the
     * others.  With a root the writer is a program that acknowledges in lines: it begins where it
     * will, and is killed once it has acknowledged enough; the first `after_lines` of the
     * `after_answer` bytes are its lines, the rest is what the reader wrote then.
     * PCU_FLAG_RECORD: everything from the mount to the last unmount goes through
     * dm-log-writes; the log can be had by LOG.  The name of a mark in it, "after", says
     * that the writer has ended. */
    PCU_RECOVER = 3,
    /* Fresh view and mount, nothing else; stays mounted.  PCU_FLAG_LIVE: the disk outside. */
    PCU_MOUNT = 4,
    PCU_UMOUNT = 5,
    /* Strings as in CONFIGURE: runs a program, its channel as in RECOVER.
     * PCU_FLAG_LIVE: its descriptor 3 is the second serial line. */
    PCU_EXEC = 6,
    /* Copies `length` bytes of the view at `offset` to 0, past every cache. */
    PCU_DUMP = 7,
    /* `count` times: fresh view, mount, unmount; the time of each step summed in
     * `step_ns`.  `offset` is the enum pcu_path to use. */
    PCU_BARE = 8,
    /* Copies `length` bytes at `offset` of what the last RECOVER recorded to 0: a log
     * as dm-log-writes keeps it. */
    PCU_LOG = 9,
    /* From now on what is dirty is written back early, and a neighbour commits on each file system that
     * is mounted, at instants that `offset` decides (press.c). */
    PCU_PRESS = 10,
    /* The files that hold something and the symbolic links that a program with a root has left in
     * memory, outside of the mounted disk: `answer` bytes of paths at 0, each with a NUL; `status` is
     * 1 if there was no room for all.  Also while an EXEC with PCU_FLAG_LIVE is at work, which
     * is then not answered. */
    PCU_LEFT = 11,
    /* How often it was written back so far (`attempted`), and how often a neighbour has committed
     * (`acked`).  Also while an EXEC with PCU_FLAG_LIVE is at work. */
    PCU_PRESSED = 12,
    /* Of a cluster that is at work, for the nodes whose bits are set in `offset`: their processes are
     * killed; nobody has their disks mounted; they are mounted again, and serve again. */
    PCU_NODES_END = 13,
    PCU_NODES_GONE = 14,
    PCU_NODES_BEGIN = 15
};

/* What a RECOVER is to do besides. */
enum pcu_flag {
    PCU_FLAG_AFTER = 1,
    PCU_FLAG_RECORD = 2,
    PCU_FLAG_LIVE = 4,
    /* Instead of the reader: the files below the mount point as an archive (tree.c). */
    PCU_FLAG_TREE = 8,
    /* EXEC: the program's calls to sync succeed and do nothing (unsynced.c). */
    PCU_FLAG_UNSYNCED = 16,
    /* Instead of the reader: where the files below the mount point lie on the disk (files.c). */
    PCU_FLAG_FILES = 32,
    /* The reader, which has a root, is started once and continued for each such state (warm.c). */
    PCU_FLAG_WARM = 64,
    /* Besides the reader, which has a root: which files it has read (../common/reads.h), as
     * `after_answer`; nothing if that cannot be known.  With PCU_FLAG_FILES no reader is run. */
    PCU_FLAG_READS = 128,
    /* EXEC: the last word is a folder on the mounted disk, which is made first. */
    PCU_FLAG_FOLDER = 256,
    /* MOUNT with PCU_FLAG_LIVE: the layers are new, and /dev/ubda is what they are to hold. */
    PCU_FLAG_MAKE = 512
};

/* How far the workload came after recovery. */
enum pcu_after {
    PCU_AFTER_NOT = 0,     /* it was not started */
    PCU_AFTER_WRITER = 1,  /* the writer failed; mounted again, the log was read */
    PCU_AFTER_MOUNT = 2,   /* the second mount failed */
    PCU_AFTER_READER = 3,  /* the second reading failed */
    PCU_AFTER_DONE = 4
};

/* The step of a RECOVER that failed, or whose time `step_ns` holds. */
enum pcu_step {
    PCU_STEP_NONE = 0,
    PCU_STEP_PATCH = 1,  /* never the state's fault */
    PCU_STEP_VIEW = 2,   /* never the state's fault */
    PCU_STEP_MOUNT = 3,  /* model/failure.py says by its errno whose fault that is */
    PCU_STEP_READ = 4,   /* `status` is the reader's exit status */
    PCU_STEP_AFTER = 5,  /* after recovery: `after` says how far it came */
    PCU_STEP_UMOUNT = 6,
    PCU_STEP_CHECK = 7,  /* the view overflowed: nothing may be concluded */
    PCU_STEP_ACTIVATE = 8, /* as PCU_STEP_MOUNT, of a layer below the file system */
    PCU_STEPS = 9
};

struct pcu_page {
    uint32_t magic;
    uint32_t verb;
    uint64_t sequence;   /* of the request; PID 1 copies it to `done` */
    uint64_t done;
    uint64_t capacity;   /* bytes after this page; set by the controller */
    uint64_t disk_size;  /* bytes; set by the controller before boot */
    uint64_t chunk;      /* sectors per unit of the view; set before boot */
    uint64_t offset;
    uint64_t length;
    uint64_t count;
    uint64_t answer;     /* bytes of the answer at 0 */
    uint64_t reads;      /* bytes of the read map after all answers: u64 each, first sector
                          * of a granule that was read */
    uint64_t after_answer; /* bytes of the answer after recovery, behind the first */
    uint64_t after_lines; /* of these, what the writer said, if it says so in lines */
    uint64_t first_lsn;  /* the record that the writer went on with */
    uint64_t acked;      /* highest LSN that it acknowledged, 0: none */
    uint64_t attempted;  /* highest LSN that it attempted, 0: none */
    uint32_t flags;      /* RECOVER: enum pcu_flag */
    uint32_t after;      /* enum pcu_after */
    uint32_t track;      /* RECOVER: granule of the read map in sectors, 0: none */
    uint32_t step;       /* where it failed, 0: it did not */
    uint32_t error;      /* errno of that */
    uint32_t status;     /* exit status of the program that ran last */
    uint64_t limit_ms;   /* RECOVER: a reader that is at work for longer is ended, 0: it is not */
    uint64_t step_ns[PCU_STEPS];
    char what[256];      /* the call that failed and on what; PCU_AFTER_DONE: the files that a
                          * writer with a root has left in memory, a line each */
};
static_assert(sizeof(struct pcu_page) == 160 + 8 * PCU_STEPS + 256, "no padding");
static_assert(sizeof(struct pcu_page) <= PCU_PAGE, "one page");

/* Bytes to lay over the origin; all three are multiples of 512. */
struct pcu_patch {
    uint64_t offset; /* on the disk */
    uint64_t length;
    uint64_t data;   /* where the bytes are, or PCU_ZEROES */
};
static_assert(sizeof(struct pcu_patch) == 24, "no padding");

/* The archive of PCU_FLAG_TREE: a u64, `peculiar` (tree.c), and for each file and folder an entry, its
 * path, its extended attributes (struct pcu_xattr, name, value; those of "user." alone), and its parts
 * each with its bytes. */
#define PCU_SAME_FILE UINT32_MAX /* `parts` of a further name: one part follows, the first name */
struct pcu_entry {
    uint64_t size;  /* of a file */
    uint32_t mode;  /* as in struct stat: type and permissions */
    uint32_t path;  /* bytes of the path, relative to the mount point */
    uint32_t parts; /* of a file; of a symbolic link one, its target */
    uint32_t xattrs;
    int64_t access_s, change_s; /* of the last access, and of the last change of the contents */
    uint32_t access_ns, change_ns;
};
static_assert(sizeof(struct pcu_entry) == 48, "no padding");

struct pcu_xattr {
    uint32_t name; /* bytes of the name, and of the value */
    uint32_t value;
};
static_assert(sizeof(struct pcu_xattr) == 8, "no padding");

struct pcu_part {
    uint64_t offset;
    uint64_t length;
};
static_assert(sizeof(struct pcu_part) == 16, "no padding");

/* The answer of PCU_FLAG_FILES: a file or a folder, its path, and its extents. */
struct pcu_file {
    uint32_t mode;    /* as in struct stat: type and permissions */
    uint32_t path;    /* bytes of the path, relative to the mount point */
    uint32_t extents;
    uint32_t reserved;
};
static_assert(sizeof(struct pcu_file) == 16, "no padding");

struct pcu_extent {
    uint64_t disk; /* where it begins on the disk */
    uint64_t file; /* and in the file */
    uint64_t length;
};
static_assert(sizeof(struct pcu_extent) == 24, "no padding");

/* Ways to the disk that BARE compares.  The engine uses the first. */
enum pcu_path {
    PCU_PATH_VIEW = 0,      /* snapshot in RAM over the origin in RAM */
    PCU_PATH_RAM_COPY = 1,  /* a RAM disk, the whole image copied back each time */
    PCU_PATH_UBD = 2,       /* ubda, the whole image written back each time */
    PCU_PATH_VIEW_UBD = 3,  /* snapshot in RAM over ubda */
    PCU_PATH_LOOP = 4,      /* loop over a file in the guest's tmpfs, copied back */
    PCU_PATH_VIEW_LOOP = 5, /* snapshot in RAM over a loop over a tmpfs file */
    PCU_PATH_PLAIN = 6      /* the RAM disk itself, never restored: clean after the first */
};

#endif
