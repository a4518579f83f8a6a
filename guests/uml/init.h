/* SPDX-License-Identifier: Apache-2.0
 *
 * PID 1 of the User-Mode Linux in which disk states are recovered.
 *
 * The disk is a RAM disk, the origin: what the controller patches into it stays
 * until it patches something else.  Recovery never sees it, but a view: a
 * device-mapper snapshot with its exceptions in RAM.  A fresh view is one table
 * exchange; it forgets everything that the last recovery wrote, and no block of
 * the disk is copied or compared for that.
 *
 * Rules that hold everywhere in this folder: PID 1 never exits on its own (the
 * kernel would panic, and the controller would take that for the state's
 * fault) except through `die`, which says so first; a function that can fail
 * returns 0, or -1 after `fail` has kept the step, errno and the call.
 */
#ifndef POWERCUT_UML_INIT_H
#define POWERCUT_UML_INIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "share.h"

#define DISK "/dev/dm-0"     /* the view */
#define RECORDED "/dev/loop7" /* the same, with all that is done to it recorded */
#define LIVE "/dev/vda"       /* the disk outside, if there is one */
#define LINES "/dev/ttyS1"   /* where a program on it says what it does */
#define EXAMINED "/tmp/disk"  /* the disk, in the root of the program that examines it */
#define ROOT "/host"          /* the host's own files */
#define ARGUMENTS_MAX 64
#define DISKS_MAX 8

/* share.c: the shared memory (the page, and what follows it), failures, the clock. */
extern volatile struct pcu_page *page;
extern uint8_t *area;
void share_map(void);
void share_take(void); /* a request that came with a ring, where the share is a disk */
void share_give(void); /* and its answer */
_Noreturn void die(const char *call);
int fail(enum pcu_step step, const char *format, ...) __attribute__((format(printf, 2, 3)));
uint64_t now_ns(void);

/* plan.c: what CONFIGURE said. */
struct plan {
    char filesystem[32];
    unsigned long flags;
    char options[512]; /* what is left for the file system itself */
    char mount_point[256];
    char text[8192];
    char *reader[ARGUMENTS_MAX + 1];
    char *after[ARGUMENTS_MAX + 1];
    char *root; /* where programs have their root; NULL: in the initramfs */
    char *folder; /* where they start */
    char *environment[ARGUMENTS_MAX + 1];
    char *visible[ARGUMENTS_MAX + 1];
    char *base; /* the host's folder that is the root: "/", or an unpacked root file system */
    char *program; /* the host's folder that is PROGRAM in such a root; empty: none is */
    char *tools; /* that is TOOLS, likewise */
    char *mac; /* of the machine that they see (harness/guard/same_machine.h) */
    char *machine_id;
    int first_pid;
    uint64_t acks; /* that end the writer with a root, and how long it may take for them */
    uint64_t acks_ms;
    char *disks[ARGUMENTS_MAX + 1]; /* of several, as CONFIGURE has them */
    char *layers[ARGUMENTS_MAX + 1];
    char *examiner[ARGUMENTS_MAX + 1]; /* looks at the disk once it is unmounted; empty: nobody */
    char *nodes[ARGUMENTS_MAX + 1]; /* of a cluster, in the order of its disks; empty: it is none */
};
extern struct plan plan;
int plan_parse(void);

/* Reads a list of strings that ends with an empty one; returns what follows. */
char *take_list(char *text, char **list);

/* view.c: the origin and the view over it. */
void view_setup(void);
int view_patch(void);
int view_fresh(const char *origin);
int view_check(void);
int view_track(void);
int view_reads(void);
int view_dump(void);

/* Copies `length` bytes at `offset` of a device to 0, past the page cache. */
int device_dump(const char *device);

/* Loads /modules/MODULE.ko, or dies. */
void module_load(const char *module, const char *parameters);

/* recorder.c: RECORDED, and the log of what is done to it.  Between begin and end. */
void record_setup(void);
int record_begin(void);
int record_mark(const char *name);
int record_end(void);
int record_dump(void);

/* root.c: the host's files at ROOT, as the plan says; the first that is asked for stays. */
int root_setup(void);
/* Files in memory that hold something, and symbolic links there, each with its NUL; the bytes of it.
 * `cut`: there was no room for all, or not all could be listed. */
size_t root_left(char *into, size_t size, bool *cut);
int root_left_put(void); /* the same as an answer */
int link_up(const char *name); /* a network interface of the caller's; -1 and errno */
int root_apart(void); /* of the caller's namespaces: folders in memory, and /proc */
int root_fresh(void); /* another boot: what a check has left in memory is gone */

/* confine.c: what programs may not do, root among them. */
int confine(void); /* for good, of the calling process */
void confine_helpers(void); /* what the kernel itself starts */
int confine_devices(const char *folder); /* mounts the few that programs have */

/* tree.c: what is mounted, as an archive. */
int tree_put(void);

/* files.c: where the files of what is mounted lie on the disk. */
int files_put(void);

/* disks.c: mounts `device`, or the several disks of the plan, which are outside if `live`. */
int disks_configure(char *const list[]);
unsigned disks_count(void);
int disks_mount(const char *device, bool live);
int disks_umount(const char *device);
int disks_let_go(void); /* nobody has those of page->offset mounted, a bit each, nor has PID 1 any other */
void disks_points(char *points[]); /* where they are mounted, and NULL; DISKS_MAX + 1 at most */
int disks_date_reads(void); /* of what is mounted every read is dated from here on */
int64_t disks_begin(dev_t device, int fd);

/* nodes.c: whether a program is a verb that a cluster runs, and its supervisor. */
bool nodes_run(char *const argv[]);
pid_t nodes_start(int channel);
/* While it is at work: those of page->offset, a bit each, end, or begin. */
int nodes_end(void);
int nodes_begin(void);

/* layers.c: devices between the disks and the file system.  `disks` ends with NULL. */
int layers_configure(char *const list[]);
enum layers_are { LAYERS_NEW, LAYERS_LIVE, LAYERS_CUT };
int layers_begin(const char *const disks[], enum layers_are are); /* new: with all on them */
int layers_end(void);
const char *layers_top(void); /* NULL: there are none */

/* image.c: a file system of a host and the image of a disk in it, of `size` bytes, as `table` says;
 * `node` is the disk's. */
int image_attach(const char *table, uint64_t size, bool making, char *node, size_t room);
int image_detach(void); /* -1 and errno */
bool image_is_on(const char *filesystem);

/* live.c: makes LIVE, and the disks beside it, ready to be mounted. */
int live_setup(void);

/* program.c: programs and their messages. */
int execute(char *const argv[], enum pcu_step step);
int execute_once(void);

/* init.c: waits for a program on the disk outside, to whose end there is no time; it answers
 * requests meanwhile. */
void wait_listening(pid_t child, int *status, bool whole);

/* A program is started; its pid, or -1 and errno.  `traced`: PTRACE_TRACEME. */
#define CHANNEL 3 /* the descriptor that programs send their messages to */
pid_t start(char *const argv[], int channel, bool traced);
bool apart(void); /* what comes before an exec: false and errno if the caller may not become one */
int status_of(int how); /* the exit status, or 128 and the signal, of what waitpid(2) says */
void clock_begin(void); /* waits end with EINTR now and then, so that one may look at the clock */
void clock_end(void);
bool wait_stopped(pid_t task, int *status); /* between those two; false if it does not stop */
void end_stragglers(void);

/* What programs with a root write their lines to: a descriptor; -1 and errno.  What nobody took is
 * forgotten before the next one begins. */
int lines_open(void);
void lines_forget(void);

/* As `execute` for the plan's reader, continued from where it was held (warm.c). */
int execute_warm(enum pcu_step step);

/* warm.c: a reader that is held where it has started.  `warm_prepare` before anything is mounted;
 * `warm_start` gives a copy of it that runs and its channel, or -1: then start it anew. */
void warm_prepare(void);
pid_t warm_start(int *channel);
void warm_forget(void);
void warm_gone(void); /* it was killed, with all others */
void warm_reset(void); /* another plan */
bool warm_is_alone(void); /* whether no other program is left */

/* Runs a program that acknowledges in lines until it has done so `plan.acks` times, then kills it;
 * its lines follow the answer. */
int execute_acks(char *const argv[], enum pcu_step step);

/* recover.c: the verbs about file systems. */
int fs_mount(void);
int fs_mount_live(void);
int fs_umount(void);
int recover(void);
extern uint64_t request_end_ns; /* when a reader's time is over, 0: never */

/* inside.c: the log reader, once the plan is known. */
int reader_configure(void);
int reader_run(enum pcu_step step);

/* bare.c: the loops that the engine is measured against. */
int bare(void);

#endif
