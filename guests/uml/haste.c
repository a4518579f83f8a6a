/* SPDX-License-Identifier: Apache-2.0
 *
 * uml-haste.so: a User-Mode Linux that recovers boots in a third of the time.
 *
 * Most of its boot is the benchmark of RAID6 algorithms, which measures each for 16 ticks of its
 * clock.  So for the first moments that clock runs fast: what the kernel asks for as
 * CLOCK_MONOTONIC advances HASTE times as much, and timers fire as much sooner.  Then it
 * runs as fast as the host's, ahead of it by a constant, and never backwards.
 *
 * A timer that was set meanwhile fires early by what is left of it, for which the kernel sets it
 * anew; one with a period gets its own period back.
 *
 * The guard preloads it into UML alone, and not where instants are recorded: see stamp.c.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define HASTE 20
#define WINDOW_NS INT64_C(150000000)
#define SECOND_NS INT64_C(1000000000)

typedef int clock_fn(clockid_t clock, struct timespec *now);
typedef int timer_fn(timer_t timer, int flags, const struct itimerspec *set, struct itimerspec *old);

static int64_t first_ns;
static bool over;

/* The periodic timer that was set in the window, as the kernel wanted it. */
static bool hurried;
static timer_t periodic;
static struct itimerspec wanted;

static int64_t in_ns(struct timespec when)
{
    return when.tv_sec * SECOND_NS + when.tv_nsec;
}

static struct timespec sooner(struct timespec after)
{
    int64_t ns = in_ns(after);

    if (ns > 0)
        ns = ns < HASTE ? 1 : ns / HASTE;
    return (struct timespec){ns / SECOND_NS, ns % SECOND_NS};
}

static timer_fn *next_timer(void)
{
    static timer_fn *next;

    if (next == NULL)
        next = (timer_fn *)dlsym(RTLD_NEXT, "timer_settime");
    return next;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    static clock_fn *next;
    int64_t ns, gone;
    int status;

    if (next == NULL)
        next = (clock_fn *)dlsym(RTLD_NEXT, "clock_gettime");
    status = next(clock, now);
    if (status != 0 || clock != CLOCK_MONOTONIC)
        return status;
    ns = in_ns(*now);
    if (first_ns == 0)
        first_ns = ns;
    gone = ns - first_ns;
    if (gone < WINDOW_NS) {
        ns = first_ns + gone * HASTE;
    } else {
        ns += WINDOW_NS * (HASTE - 1);
        over = true;
        if (hurried) {
            hurried = false;
            next_timer()(periodic, 0, &wanted, NULL);
        }
    }
    *now = (struct timespec){ns / SECOND_NS, ns % SECOND_NS};
    return 0;
}

int timer_settime(timer_t timer, int flags, const struct itimerspec *set, struct itimerspec *old)
{
    struct itimerspec soon;

    if (over || (flags & TIMER_ABSTIME) != 0) {
        hurried = false;
        return next_timer()(timer, flags, set, old);
    }
    soon.it_value = sooner(set->it_value);
    soon.it_interval = sooner(set->it_interval);
    hurried = in_ns(set->it_interval) > 0;
    periodic = timer;
    wanted = *set;
    return next_timer()(timer, flags, &soon, old);
}
