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
 * It is not always so: a write that another's flush makes durable by luck is to be seen, too.  So
 * quiet turns and pressed ones alternate.
 */
#include "press.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define INTERVAL "/proc/sys/vm/dirty_writeback_centisecs"

static pid_t presser;
static uint64_t next_seed;

static const uint64_t TURN_NS = 20000000, PAUSE_NS = 250000;

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

static _Noreturn void press_on(int interval, uint64_t seed)
{
    uint64_t state = seed, until, pause;
    bool other = false;

    for (;; pause_for(TURN_NS / 2 + draw(&state) % TURN_NS)) {
        until = now_ns() + TURN_NS / 2 + draw(&state) % TURN_NS;
        do {
            pause = PAUSE_NS / 4 + draw(&state) % (2 * PAUSE_NS);
            pause_for(pause);
            other = !other;
            if (pwrite(interval, other ? "501" : "500", 3, 0) != 3)
                _exit(1);
        } while (now_ns() < until);
    }
}

int press_begin(uint64_t seed)
{
    int interval = open(INTERVAL, O_WRONLY | O_CLOEXEC), high;
    pid_t child;

    if (interval < 0)
        return -1;
    high = fcntl(interval, F_DUPFD_CLOEXEC, 64); /* above all that is to be closed */
    child = high < 0 ? -1 : fork();
    if (child == 0) {
        sigset_t none;

        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        for (int fd = 0; fd < high; fd++)
            close(fd);
        press_on(high, seed);
    }
    close(interval);
    if (high >= 0)
        close(high);
    if (child < 0)
        return -1;
    presser = child;
    next_seed = seed + 1;
    return 0;
}

bool press_is(pid_t process)
{
    return process == presser;
}

void press_again(pid_t gone, int status)
{
    if (presser > 0 && gone == presser && WIFSIGNALED(status))
        press_begin(next_seed);
}
