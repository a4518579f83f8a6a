/* SPDX-License-Identifier: Apache-2.0
 *
 * A kernel that writes back what nobody has synced, as one at work does: it runs short of memory,
 * or a page was dirty for long.  In the short life of a guest neither happens, so that a program
 * whose order of writes depends on luck would always be lucky.
 *
 * Another value written to dirty_writeback_centisecs wakes the flushers of all devices, and each
 * writes back what is dirty there: of any file, open or not, mapped or not, and of the device
 * itself (dirty_writeback_centisecs_handler in mm/page-writeback.c, wakeup_flusher_threads in
 * fs/fs-writeback.c).  Nothing waits for these writes (WB_SYNC_NONE), so no file system commits, and
 * no flush is sent: what was written so is not durable, and a sync that is missing is still
 * missing.  The two values are the usual one and the next: in between nothing is otherwise.
 *
 * At work a program is not alone on its file system, either.  Whoever else syncs commits a journal or
 * a log that has all changes of names and sizes in it, also the program's, while data stays behind
 * that nobody has asked for; the timers of jbd2 and of others do so after seconds, which a short run
 * does not have.  So a neighbour adds a page to a file of its own and syncs that, again and again.
 * The file has no name (O_TMPFILE): neither the program nor its check sees it, and recovery removes
 * it.  On Btrfs a sync writes a tree for that file alone: there the neighbour starts a transaction's
 * commit, too, which writes no data of others (btrfs_ioctl_start_sync in fs/btrfs/ioctl.c).
 *
 * It is not always so: a write that another's flush makes durable by luck is to be seen, too, and
 * one that no commit comes for.  So quiet turns and others alternate, of each kind by itself.  How
 * long an operation takes nobody knows: what lasts longer than a quiet turn would always be written
 * back within.  So turns are of all lengths, up to an eighth of the time that has passed by then.
 */
#include "press.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define INTERVAL "/proc/sys/vm/dirty_writeback_centisecs"
#define POINTS_MAX 8
#define PAGE 4096
#define PAGES_MAX 16

/* How long the first turns take, quiet ones and others, and the pauses within these. */
struct rhythm {
    uint64_t turn_ns, pause_ns;
};
static const struct rhythm writeback = {20000000, 250000}, commit = {50000000, 3000000};

static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
    int interval;
    int files[POINTS_MAX];
    unsigned count;
    uint64_t seed;
    struct {
        _Atomic uint64_t writebacks, commits;
    } *done; /* shared with children */
} press;

/* The next output of SplitMix64. */
static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void pause_for(uint64_t ns)
{
    struct timespec left = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};

    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

/* How long a turn is to take: each doubling of the first one's length is as likely as another. */
static uint64_t turn_of(uint64_t first_ns, uint64_t passed_ns, uint64_t *state)
{
    uint64_t lengths = 1, length;

    while (first_ns << lengths <= passed_ns / 8)
        lengths++;
    length = first_ns << draw(state) % lengths;
    return length / 2 + draw(state) % length;
}

/* Calls `act` again and again until it returns -1, in every other turn. */
static void go_on(const struct rhythm *rhythm, uint64_t state, int (*act)(uint64_t *state))
{
    uint64_t begun = now_ns(), now, until;

    for (;; pause_for(turn_of(rhythm->turn_ns, now_ns() - begun, &state))) {
        now = now_ns();
        until = now + turn_of(rhythm->turn_ns, now - begun, &state);
        do {
            pause_for(rhythm->pause_ns / 4 + draw(&state) % (2 * rhythm->pause_ns));
            if (act(&state) != 0)
                return;
        } while (now_ns() < until);
    }
}

static int write_back(uint64_t *state)
{
    static unsigned turn;

    (void)state;
    if (pwrite(press.interval, turn++ % 2 == 0 ? "501" : "500", 3, 0) != 3)
        return -1;
    press.done->writebacks++;
    return 0;
}

/* A file that grows, or is emptied, has changes that its file system must commit; to write again
 * what is there may change nothing within a tick of its clock.  No room is no end: there may be some
 * later. */
static int commit_one(uint64_t *state)
{
    static const char page[PAGE] = "a neighbour";
    uint64_t drawn = draw(state), transaction;
    int file;
    off_t size;

    pthread_mutex_lock(&files_lock);
    file = press.count == 0 ? -1 : press.files[drawn % press.count];
    size = lseek(file, 0, SEEK_END);
    if (size >= PAGES_MAX * PAGE)
        size = ftruncate(file, 0);
    if (size >= 0 && pwrite(file, page, sizeof page, size) == PAGE && fsync(file) == 0) {
        ioctl(file, BTRFS_IOC_START_SYNC, &transaction); /* ENOTTY of others */
        press.done->commits++;
    }
    pthread_mutex_unlock(&files_lock);
    return 0;
}

static void *press_on(void *nothing)
{
    go_on(&writeback, press.seed, write_back);
    return nothing;
}

static void *commit_on(void *nothing)
{
    go_on(&commit, press.seed ^ 1, commit_one);
    return nothing;
}

/* With all signals blocked: they are for the thread that was there. */
static int start(void *(*run)(void *))
{
    sigset_t all, before;
    pthread_t thread;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    errno = pthread_create(&thread, NULL, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return errno == 0 ? 0 : -1;
}

void press_forget(void)
{
    while (press.count > 0)
        close(press.files[--press.count]);
}

void press_let_go(void)
{
    pthread_mutex_lock(&files_lock);
    press_forget();
    pthread_mutex_unlock(&files_lock);
}

void press_take(char *const points[])
{
    if (press.done == NULL)
        return;
    pthread_mutex_lock(&files_lock);
    for (; *points != NULL && press.count < POINTS_MAX; points++) {
        press.files[press.count] = open(*points, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        press.count += press.files[press.count] >= 0; /* else there is none, and `commits` tells */
    }
    pthread_mutex_unlock(&files_lock);
}

int press_begin(uint64_t seed, char *const points[])
{
    press.seed = seed;
    press.done = mmap(NULL, sizeof *press.done, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                      -1, 0);
    if (press.done == MAP_FAILED) {
        press.done = NULL;
        return -1;
    }
    press.interval = open(INTERVAL, O_WRONLY | O_CLOEXEC);
    if (press.interval < 0)
        return -1;
    press_take(points);
    return start(press_on) != 0 || (press.count > 0 && start(commit_on) != 0) ? -1 : 0;
}

struct pressed press_done(void)
{
    if (press.done == NULL)
        return (struct pressed){0};
    return (struct pressed){press.done->writebacks, press.done->commits};
}
