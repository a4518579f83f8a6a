/* SPDX-License-Identifier: Apache-2.0
 *
 * A captured folder: what its parts share.  folder.c has the objects and the log, folder_data.c,
 * folder_names.c and folder_attributes.c the requests of FUSE, folder_sync.c those that do not come
 * through it, folder_base.c what is there at first, folder_wait.c how long syncs take, folder_press.c
 * what the kernel writes back early, folder_main.c the process.
 *
 * The folder itself holds the live files: FUSE is mounted over it, and all requests are carried
 * out in what lies beneath.  What a power cut would leave is computed from the log alone.
 */
#ifndef POWERCUT_CAPTURE_FOLDER_H
#define POWERCUT_CAPTURE_FOLDER_H

#define FUSE_USE_VERSION 35
#define _FILE_OFFSET_BITS 64

#include <fuse3/fuse_lowlevel.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "folder_format.h"

#define FOLDER_LINES_NAME ".powercut-lines"

struct object {
    uint64_t number;      /* in the log; 0: the file of lines */
    int fd;               /* O_PATH, which also keeps the inode's number from being given again */
    dev_t device;
    ino_t inode;
    uint64_t lookups;     /* the kernel's references */
    pthread_mutex_t lock; /* a file's requests are logged in the order in which they are done */
    struct object *next;  /* of its hash bucket */
};

struct request {
    enum pclog_op op; /* or enum folder_op */
    uint32_t object;
    uint64_t offset, length, data;
    uint16_t flags;
    uint64_t number;
};

/* All return 0 or an errno, but for those that return an object (NULL: `errno` says why). */

int folder_open(const char *path, const char *log, uint32_t atomic_unit, uint64_t seed);
struct object *folder_root(void);
struct object *folder_lines(void);

/* The object that a name leads to; a name that leads to none yet known is given `number`, or the
 * next one if that is 0. */
struct object *object_find(int parent_fd, const char *name, uint64_t number);
struct object *object_of(fuse_ino_t ino);
fuse_ino_t object_ino(const struct object *object);
void object_forget(struct object *object, uint64_t lookups);
uint64_t object_new_number(void);

/* Its attributes, as the kernel is to have them. */
int object_stat(const struct object *object, struct stat *found);

/* A request is taken, with its payload, and reported done.  EIO once the power is gone. */
int request_submit(struct request *request, const void *payload, uint64_t bytes);
int request_complete(const struct request *request, int error);
/* The same for one that was carried out before. */
int request_done(struct request *request, const void *payload, uint64_t bytes);

/* Reports it done once it has taken its time, and calls `done` with 0 or an errno. */
void request_finish(const struct request *request, void (*done)(void *, int), void *argument);
/* Takes that time here. */
void request_sleep(void);
int latency_start(uint64_t seed);

int folder_event(enum folder_type type, const void *payload, uint64_t bytes);

/* Says in the log that it cannot be relied on. */
void folder_doubt(const char *why);

/* Ends the log: nothing that comes later is recorded or answered.  Idempotent. */
int folder_cut(void);

int folder_log_base(void);

/* Namespace requests are one after the other. */
void names_lock(void);
void names_unlock(void);

/* An ordinary path to an object. */
#define PROC_PATH_MAX 32
void object_path(const struct object *object, char path[PROC_PATH_MAX]);

/* How the log says that such a file, named pipe or socket was made; 0 for what it does not know. */
enum folder_op op_of_kind(mode_t mode);

/* As the kernel is to have them, the file of lines included; and for how long it may keep them, since
 * nobody else changes the folder. */
int attributes_of(const struct object *object, struct stat *found);
#define ATTRIBUTES_TIMEOUT_S 3600.0

/* Logs all attributes of an object that was there at first; those of one that was just made for
 * somebody, who becomes its owner. */
int attributes_log_base(const struct object *object);
int attributes_log_made(const struct object *object, uid_t uid, gid_t gid);

void attributes_operations(struct fuse_lowlevel_ops *operations);
void data_operations(struct fuse_lowlevel_ops *operations);
void names_operations(struct fuse_lowlevel_ops *operations);

/* Records the syncs that are told over a listener which comes through the socket. */
int folder_watch_syncs(const char *path, int socket_fd);

/* Where what a program says goes besides the log; -1: nowhere. */
void folder_tell(int fd);

#endif
