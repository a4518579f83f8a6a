/* SPDX-License-Identifier: Apache-2.0
 *
 * A captured folder's objects and its log.
 */
#define _GNU_SOURCE
#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crc32c.h"
#include "log.h"

enum { BUCKETS = 4096, OVERFLOW_ID = 65534 };

static struct {
    pthread_mutex_t lock; /* of the log */
    struct log log;
    uint64_t requests;
    bool powerless;
    int tell_fd;

    pthread_mutex_t objects_lock;
    struct object *buckets[BUCKETS];
    uint64_t last_number;
    struct object root, lines;

    pthread_mutex_t names;
    bool own_users; /* in a user namespace of its own: without root */
} folder = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .tell_fd = -1,
    .objects_lock = PTHREAD_MUTEX_INITIALIZER,
    .last_number = FOLDER_ROOT,
    .root = {.number = FOLDER_ROOT, .fd = -1, .lock = PTHREAD_MUTEX_INITIALIZER},
    .lines = {.fd = -1, .lock = PTHREAD_MUTEX_INITIALIZER},
    .names = PTHREAD_MUTEX_INITIALIZER,
};

/* --- life --------------------------------------------------------------------- */

/* The first namespace of users has all numbers (user_namespaces(7)). */
static bool has_own_users(void)
{
    unsigned count = UINT32_MAX;
    FILE *map = fopen("/proc/self/uid_map", "re");
    if (map) {
        if (fscanf(map, "%*u %*u %u", &count) != 1)
            count = UINT32_MAX;
        fclose(map);
    }
    return count != UINT32_MAX;
}

int folder_open(const char *path, const char *log, uint32_t atomic_unit, uint64_t seed)
{
    struct stat found;
    folder.root.fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder.root.fd < 0 || fstat(folder.root.fd, &found))
        return errno;
    folder.root.device = found.st_dev;
    folder.root.inode = found.st_ino;
    folder.own_users = has_own_users();
    struct pclog_header header = {
        .kind = PCLOG_FOLDER,
        .atomic_unit = atomic_unit,
        .contract = PCLOG_VOLATILE_CACHE | PCLOG_FLUSH_HONOURED | PCLOG_FUA_HONOURED,
        .seed = seed,
    };
    return log_create(&folder.log, log, NULL, &header);
}

struct object *folder_root(void)
{
    return &folder.root;
}

struct object *folder_lines(void)
{
    return &folder.lines;
}

void folder_tell(int fd)
{
    folder.tell_fd = fd;
}

/* --- objects ------------------------------------------------------------------ */

struct object *object_of(fuse_ino_t ino)
{
    return ino == FUSE_ROOT_ID ? &folder.root : (struct object *)(uintptr_t)ino;
}

/* The kernel refuses to write to what belongs to somebody whom the recorder's namespace has no number
 * for, such as a folder of another group.  Who may write is decided beneath. */
int object_stat(const struct object *object, struct stat *found)
{
    if (fstatat(object->fd, "", found, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW))
        return errno;
    if (folder.own_users && found->st_uid == OVERFLOW_ID)
        found->st_uid = geteuid();
    if (folder.own_users && found->st_gid == OVERFLOW_ID)
        found->st_gid = getegid();
    return 0;
}

fuse_ino_t object_ino(const struct object *object)
{
    return object == &folder.root ? FUSE_ROOT_ID : (fuse_ino_t)(uintptr_t)object;
}

void object_path(const struct object *object, char path[PROC_PATH_MAX])
{
    snprintf(path, PROC_PATH_MAX, "/proc/self/fd/%d", object->fd);
}

uint64_t object_new_number(void)
{
    pthread_mutex_lock(&folder.objects_lock);
    uint64_t number = ++folder.last_number;
    pthread_mutex_unlock(&folder.objects_lock);
    return number;
}

static struct object **bucket_of(dev_t device, ino_t inode)
{
    return &folder.buckets[(inode ^ device) % BUCKETS];
}

static struct object *known(dev_t device, ino_t inode)
{
    struct object *object = *bucket_of(device, inode);
    while (object && (object->inode != inode || object->device != device))
        object = object->next;
    return object;
}

struct object *object_find(int parent_fd, const char *name, uint64_t number)
{
    struct stat found;
    int fd = openat(parent_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &found)) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    pthread_mutex_lock(&folder.objects_lock);
    struct object *object = known(found.st_dev, found.st_ino);
    if (object) {
        close(fd);
    } else if ((object = calloc(1, sizeof *object))) {
        *object = (struct object){.number = number ? number : ++folder.last_number,
                                  .fd = fd,
                                  .device = found.st_dev,
                                  .inode = found.st_ino,
                                  .next = *bucket_of(found.st_dev, found.st_ino)};
        pthread_mutex_init(&object->lock, NULL);
        *bucket_of(found.st_dev, found.st_ino) = object;
    } else {
        close(fd);
        errno = ENOMEM;
    }
    if (object)
        object->lookups++;
    pthread_mutex_unlock(&folder.objects_lock);
    return object;
}

/* An object is forgotten once it has no name left either: its number must stay its own. */
void object_forget(struct object *object, uint64_t lookups)
{
    if (object == &folder.root || object == &folder.lines)
        return;
    struct stat found;
    pthread_mutex_lock(&folder.objects_lock);
    object->lookups -= lookups < object->lookups ? lookups : object->lookups;
    bool gone = !object->lookups && !fstat(object->fd, &found) && !found.st_nlink;
    if (gone) {
        struct object **at = bucket_of(object->device, object->inode);
        while (*at != object)
            at = &(*at)->next;
        *at = object->next;
    }
    pthread_mutex_unlock(&folder.objects_lock);
    if (!gone)
        return;
    close(object->fd);
    pthread_mutex_destroy(&object->lock);
    free(object);
}

void names_lock(void)
{
    pthread_mutex_lock(&folder.names);
}

void names_unlock(void)
{
    pthread_mutex_unlock(&folder.names);
}

/* --- log ---------------------------------------------------------------------- */

static int append(struct pclog_event *event, const void *payload, uint64_t bytes)
{
    int error = 0;
    if (bytes) {
        event->data_crc = crc32c(0, payload, bytes);
        error = log_payload(&folder.log, payload, bytes, &event->data);
    }
    return error ? error : log_event(&folder.log, event);
}

int request_submit(struct request *request, const void *payload, uint64_t bytes)
{
    pthread_mutex_lock(&folder.lock);
    int error = folder.powerless ? EIO : log_admit(&folder.log, 2, bytes);
    if (!error) {
        request->number = folder.requests;
        struct pclog_event event = {
            .type = PCLOG_SUBMIT,
            .op = (uint8_t)request->op,
            .flags = request->flags,
            .connection = request->object,
            .request = request->number,
            .offset = request->offset,
            .length = request->length,
        };
        error = append(&event, payload, bytes);
    }
    if (!error) {
        folder.requests++;
        folder.log.owed++;
    }
    pthread_mutex_unlock(&folder.lock);
    return error;
}

int request_complete(const struct request *request, int error)
{
    pthread_mutex_lock(&folder.lock);
    int unrecorded = folder.powerless ? EIO : 0;
    if (!unrecorded) {
        struct pclog_event event = {
            .type = PCLOG_COMPLETE,
            .op = (uint8_t)request->op,
            .flags = error ? PCLOG_FAILED : 0,
            .connection = request->object,
            .request = request->number,
            .length = (uint64_t)error,
        };
        folder.log.owed--;
        unrecorded = log_event(&folder.log, &event);
    }
    pthread_mutex_unlock(&folder.lock);
    return error ? error : unrecorded;
}

int request_done(struct request *request, const void *payload, uint64_t bytes)
{
    int error = request_submit(request, payload, bytes);
    return error ? error : request_complete(request, 0);
}

static void tell(const char *bytes, uint64_t length)
{
    while (length) {
        ssize_t done = write(folder.tell_fd, bytes, length);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return; /* the listener has gone, and the log has it all */
        bytes += done;
        length -= (uint64_t)done;
    }
}

int folder_event(enum folder_type type, const void *payload, uint64_t bytes)
{
    pthread_mutex_lock(&folder.lock);
    int error = folder.powerless ? EIO : log_admit(&folder.log, 1, bytes);
    if (!error) {
        struct pclog_event event = {.type = (uint8_t)type, .length = bytes};
        error = append(&event, payload, bytes);
    }
    if (!error && type == FOLDER_LINES && folder.tell_fd >= 0)
        tell(payload, bytes);
    pthread_mutex_unlock(&folder.lock);
    return error;
}

void folder_doubt(const char *why)
{
    pthread_mutex_lock(&folder.lock);
    if (!folder.powerless)
        log_mark(&folder.log, why);
    pthread_mutex_unlock(&folder.lock);
}

int folder_cut(void)
{
    pthread_mutex_lock(&folder.lock);
    int error = folder.log.failure;
    if (!folder.powerless) {
        folder.powerless = true;
        struct pclog_event event = {.type = PCLOG_CUT, .op = PCLOG_POLICY_DROP};
        int failed = log_event(&folder.log, &event);
        failed = failed ? failed : log_end(&folder.log, folder.requests);
        int unsettled = log_settle(&folder.log);
        error = error ? error : failed ? failed : unsettled;
    }
    pthread_mutex_unlock(&folder.lock);
    return error;
}
