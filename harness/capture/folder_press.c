/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "folder_press.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "log.h"
#include "survive.h"

enum { FRUITLESS_MAX = 256, RARELY = 16, TRIES = 4, SOCKET_FD = 3 };

static const uint64_t PAUSE_NS = 300000, TURN_NS = 4000000;

enum order_kind { ORDER_PRESS = 1, ORDER_WAIT = 2, ORDER_CLOSE = 3 };

struct order {
    uint32_t kind, number;
    uint64_t inode;
    char path[PATH_MAX];
};

/* A file that is open for writing, or was (`handles` 0) and is to be closed by the helper. */
struct writer {
    uint64_t number, inode, pages;
    int fd; /* the object's */
    unsigned handles;
    struct writer *next;
};

static struct {
    int socket_fd;
    pid_t helper;
    uint64_t seed, draws;
    pthread_mutex_t lock; /* of the list; nothing that may wait for FUSE is done with it */
    pthread_cond_t wake;
    struct writer *writers;
    bool woken;
    uint64_t fruitless; /* passes since a page was written back */
    pthread_mutex_t line; /* of the socket */
} press = {
    .socket_fd = -1,
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .wake = PTHREAD_COND_INITIALIZER,
    .line = PTHREAD_MUTEX_INITIALIZER,
};

/* --- the helper ------------------------------------------------------------------- */

static int *opened; /* by object, 1 more than the descriptor */
static uint32_t opened_max;

static int *slot_of(uint32_t number)
{
    if (number >= opened_max) {
        uint32_t wanted = number + 1024;
        int *larger = realloc(opened, wanted * sizeof *opened);
        if (!larger)
            return NULL;
        memset(larger + opened_max, 0, (wanted - opened_max) * sizeof *opened);
        opened = larger;
        opened_max = wanted;
    }
    return &opened[number];
}

static int carry_out(const struct order *order)
{
    int *slot = slot_of(order->number);
    if (!slot)
        return ENOMEM;
    if (order->kind == ORDER_CLOSE) {
        if (*slot)
            close(*slot - 1);
        *slot = 0;
        return 0;
    }
    if (!*slot) {
        struct stat found;
        int fd = open(order->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0)
            return errno;
        if (fstat(fd, &found) || found.st_ino != order->inode) {
            close(fd);
            return ESTALE;
        }
        *slot = fd + 1;
    }
    int done = order->kind == ORDER_WAIT
                   ? fsync(*slot - 1)
                   : sync_file_range(*slot - 1, 0, 0, SYNC_FILE_RANGE_WRITE);
    return done ? errno : 0;
}

static void help(int socket_fd)
{
    static struct order order;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (dup2(socket_fd, SOCKET_FD) < 0)
        _exit(1);
    closefrom(SOCKET_FD + 1);
    ssize_t got;
    while ((got = recv(SOCKET_FD, &order, sizeof order, 0)) > 0 || (got < 0 && errno == EINTR)) {
        int error = got > 0 ? carry_out(&order) : 0;
        if (got > 0 && send(SOCKET_FD, &error, sizeof error, MSG_NOSIGNAL) != sizeof error)
            break;
    }
    _exit(0);
}

int press_fork(void)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        return errno;
    press.helper = fork();
    if (press.helper < 0)
        return errno;
    if (!press.helper)
        help(pair[1]);
    close(pair[1]);
    press.socket_fd = pair[0];
    return 0;
}

bool press_is_own(pid_t pid)
{
    return pid == press.helper;
}

/* --- orders to it ------------------------------------------------------------------- */

static int give(const struct order *order)
{
    int error = EIO;
    size_t bytes = offsetof(struct order, path) + strlen(order->path) + 1;
    pthread_mutex_lock(&press.line);
    if (send(press.socket_fd, order, bytes, MSG_NOSIGNAL) == (ssize_t)bytes)
        while (recv(press.socket_fd, &error, sizeof error, 0) < 0 && errno == EINTR)
            continue;
    pthread_mutex_unlock(&press.line);
    return error;
}

/* Where the file of a writer is now.  The mount lies over what it is found in: its path leads
 * through the mount. */
static int place(const struct writer *writer, struct order *order)
{
    char link[PROC_PATH_MAX];
    struct stat found;
    snprintf(link, sizeof link, "/proc/self/fd/%d", writer->fd);
    ssize_t length = readlink(link, order->path, sizeof order->path - 1);
    if (length < 0 || fstat(writer->fd, &found))
        return errno;
    order->path[length] = '\0';
    order->number = (uint32_t)writer->number;
    order->inode = writer->inode;
    return found.st_nlink ? 0 : ENODATA; /* without a name no state has it */
}

static struct writer *find(uint64_t number)
{
    struct writer *writer = press.writers;
    while (writer && writer->number != number)
        writer = writer->next;
    return writer;
}

struct paged *press_look(size_t *count)
{
    *count = 0;
    pthread_mutex_lock(&press.lock);
    for (struct writer *writer = press.writers; writer; writer = writer->next)
        ++*count;
    struct paged *files = *count ? calloc(*count, sizeof *files) : NULL;
    size_t at = 0;
    for (struct writer *writer = press.writers; files && writer; writer = writer->next)
        files[at++] = (struct paged){writer->number, writer->pages};
    pthread_mutex_unlock(&press.lock);
    return files;
}

static uint64_t pages_of(uint64_t number)
{
    pthread_mutex_lock(&press.lock);
    struct writer *writer = find(number);
    uint64_t pages = writer ? writer->pages : 0;
    pthread_mutex_unlock(&press.lock);
    return pages;
}

/* Has the helper do it for one file; `pages` is how many were written back meanwhile. */
static int press_one(enum order_kind kind, uint64_t number, uint64_t *pages)
{
    static __thread struct order order;
    int error = 0;
    uint64_t before = 0;
    *pages = 0;
    for (int i = 0; i < TRIES; i++) {
        pthread_mutex_lock(&press.lock);
        struct writer *writer = find(number);
        bool known = writer && writer->handles;
        order.kind = kind;
        error = known ? place(writer, &order) : 0;
        before = known ? writer->pages : 0;
        pthread_mutex_unlock(&press.lock);
        if (!known || error)
            break;
        error = give(&order);
        if (error != ENOENT && error != ESTALE)
            break; /* else it was renamed in between */
    }
    if (error == ENODATA)
        error = 0;
    pthread_mutex_lock(&press.lock);
    struct writer *writer = find(number);
    if (writer && writer->handles)
        *pages = writer->pages - before;
    pthread_mutex_unlock(&press.lock);
    return error;
}

int press_write_out(struct paged *files, size_t *count)
{
    size_t all = *count, found = 0;
    int failed = all && !files ? ENOMEM : 0;
    for (size_t i = 0; files && i < all; i++) {
        uint64_t pages;
        int error = press_one(ORDER_WAIT, files[i].number, &pages);
        if (pages_of(files[i].number) > files[i].pages)
            files[found++] = files[i];
        failed = error ? error : failed;
    }
    *count = found;
    return failed;
}

void press_last(void)
{
    size_t count;
    struct paged *files = press_look(&count);
    press_write_out(files, &count);
    free(files);
}

/* --- the list ------------------------------------------------------------------------ */

void press_opened(struct object *object)
{
    pthread_mutex_lock(&press.lock);
    struct writer *writer = find(object->number);
    if (!writer && (writer = calloc(1, sizeof *writer))) {
        writer->number = object->number;
        writer->next = press.writers;
        press.writers = writer;
    }
    if (writer) {
        writer->fd = object->fd;
        writer->inode = object->inode;
        writer->handles++;
    }
    pthread_mutex_unlock(&press.lock);
}

void press_closed(const struct object *object)
{
    pthread_mutex_lock(&press.lock);
    struct writer *writer = find(object->number);
    if (writer && writer->handles && !--writer->handles)
        pthread_cond_signal(&press.wake);
    pthread_mutex_unlock(&press.lock);
}

void press_paged(const struct object *object)
{
    pthread_mutex_lock(&press.lock);
    struct writer *writer = find(object->number);
    if (writer)
        writer->pages++;
    press.fruitless = 0;
    pthread_mutex_unlock(&press.lock);
}

void press_wake(void)
{
    pthread_mutex_lock(&press.lock);
    if (press.writers && !press.woken) {
        press.woken = true;
        pthread_cond_signal(&press.wake);
    }
    pthread_mutex_unlock(&press.lock);
}

/* With the lock: takes a file from the list that nobody writes to any more. */
static uint64_t take_closed(void)
{
    for (struct writer **at = &press.writers; *at; at = &(*at)->next)
        if (!(*at)->handles) {
            struct writer *gone = *at;
            uint64_t number = gone->number;
            *at = gone->next;
            free(gone);
            return number;
        }
    return 0;
}

static void close_others(void)
{
    for (;;) {
        pthread_mutex_lock(&press.lock);
        struct order order = {.kind = ORDER_CLOSE, .number = (uint32_t)take_closed()};
        pthread_mutex_unlock(&press.lock);
        if (!order.number)
            return;
        give(&order);
    }
}

static uint64_t draw(void)
{
    return survive_draw(press.seed, press.draws++);
}

static void pause_for(uint64_t ns)
{
    struct timespec left = {.tv_nsec = (long)ns};
    while (nanosleep(&left, &left) && errno == EINTR)
        continue;
}

/* Waits until the program has asked for something, or a turn has passed. */
static bool wait_turn(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    uint64_t ns = (uint64_t)until.tv_nsec + TURN_NS / 2 + draw() % TURN_NS;
    until.tv_sec += (time_t)(ns / 1000000000u);
    until.tv_nsec = (long)(ns % 1000000000u);
    pthread_mutex_lock(&press.lock);
    while (!press.writers)
        pthread_cond_wait(&press.wake, &press.lock);
    if (!press.woken)
        pthread_cond_timedwait(&press.wake, &press.lock, &until);
    press.woken = false;
    /* Programs without mappings are the rule: those are asked rarely. */
    bool wanted = press.fruitless < FRUITLESS_MAX || press.fruitless % RARELY == 0;
    press.fruitless++;
    pthread_mutex_unlock(&press.lock);
    return wanted;
}

static void *press_on(void *nothing)
{
    (void)nothing;
    for (;;) {
        bool wanted = wait_turn();
        close_others();
        uint64_t way = draw() % 4; /* at once, at once, a little later, not at all */
        if (way == 2)
            pause_for(draw() % (4 * PAUSE_NS));
        size_t all;
        uint64_t pages;
        struct paged *files = wanted && way < 3 ? press_look(&all) : NULL;
        for (size_t i = 0; files && i < all; i++)
            press_one(ORDER_PRESS, files[i].number, &pages);
        free(files);
        pause_for(PAUSE_NS / 2 + draw() % PAUSE_NS);
    }
    return NULL;
}

int press_start(uint64_t seed)
{
    pthread_t thread;
    press.seed = ~seed; /* other draws than the latencies have */
    return pthread_create(&thread, NULL, press_on, NULL);
}
