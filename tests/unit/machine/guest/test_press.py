# SPDX-License-Identifier: Apache-2.0
"""guests/common/press.c with a clock and a kernel of this test: when it presses, and what it says.

What a real kernel then writes back and commits is looked at in tests/vm/workload/test_page_cache.py
and test_neighbour.py.
"""

from __future__ import annotations

import subprocess
from itertools import pairwise

import pytest

from powercut.paths import ROOT

DRIVER = r"""
#include "press.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static const char *log_path;
static unsigned long long at_ns;
static int breaks_off, no_room, lines, log_fd = -1, started;
static void *(*runs[2])(void *);

static int opened(const char *path, int flags, ...)
{
    if ((flags & O_TMPFILE) == O_TMPFILE) {
        char name[512];

        snprintf(name, sizeof name, "%s/neighbour", path); /* a file system of any kind will do */
        return open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    }
    return log_fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}
static void over(void)
{
    struct pressed done = press_done();

    printf("%llu %llu\n", (unsigned long long)done.writebacks, (unsigned long long)done.commits);
    exit(0);
}
static long said(int fd, const void *value, size_t size, off_t at)
{
    if (at_ns > 4000000000ull)
        over();
    if (fd != log_fd)
        return no_room && ++lines % 2 ? (errno = ENOSPC, -1) : pwrite(fd, value, size, at);
    if (breaks_off && ++lines > 3)
        return -1;
    return dprintf(fd, "%llu %.3s\n", at_ns, (const char *)value) > 0 ? (long)size : -1;
}
static int synced(int fd)
{
    return dprintf(log_fd, "%llu %lld\n", at_ns, (long long)lseek(fd, 0, SEEK_END)) > 0 ? 0 : -1;
}
static int begun(int fd, unsigned long request, void *into)
{
    (void)into;
    return fd >= 0 && request == BTRFS_IOC_START_SYNC ? dprintf(log_fd, "%llu btrfs\n", at_ns) : -1;
}
static int slept(const struct timespec *want, struct timespec *left)
{
    static int turn;
    long long ns = want->tv_sec * 1000000000ll + want->tv_nsec;

    if (ns > 1000 && turn++ % 2 == 0) { /* a signal comes in between */
        at_ns += (unsigned long long)ns / 2;
        *left = (struct timespec){.tv_nsec = ns - ns / 2};
        errno = EINTR;
        return -1;
    }
    at_ns += (unsigned long long)ns;
    return 0;
}
static int told(struct timespec *now)
{
    now->tv_sec = (time_t)(at_ns / 1000000000u);
    now->tv_nsec = (long)(at_ns % 1000000000u);
    return 0;
}
static int thread_of(void *(*run)(void *))
{
    sigset_t blocked;

    sigprocmask(SIG_SETMASK, NULL, &blocked);
    if (!sigismember(&blocked, SIGCHLD) || !sigismember(&blocked, SIGALRM))
        exit(3);
    runs[started++] = run;
    return 0;
}
#define open(...) opened(__VA_ARGS__)
#define pwrite(fd, value, size, at) said(fd, value, size, at)
#define fsync(fd) synced(fd)
#define sync() (void)dprintf(log_fd, "%llu sync\n", at_ns)
#define ioctl(fd, request, into) begun(fd, request, into)
#define nanosleep(want, left) slept(want, left)
#define clock_gettime(clock, now) told(now)
#define pthread_create(thread, attributes, run, argument) (*(thread) = 0, thread_of(run))
#include "press.c"

/* LOG SEED FLAGS THREAD POINT... */
int main(int argc, char **argv)
{
    unsigned thread = (unsigned)atoi(argv[4]);
    sigset_t blocked;

    (void)argc;
    log_path = argv[1];
    breaks_off = strchr(argv[3], 'b') != NULL;
    no_room = strchr(argv[3], 'n') != NULL;
    if (press_done().writebacks != 0 || press_begin(strtoull(argv[2], NULL, 10), argv + 5) != 0)
        return 2;
    sigprocmask(SIG_SETMASK, NULL, &blocked);
    if (sigismember(&blocked, SIGCHLD))
        return 4;
    if (thread >= (unsigned)started)
        return 5;
    runs[thread](NULL);
    return 11;
}
"""

WRITEBACK, COMMIT = "0", "1"
NO_THREAD = 5


@pytest.fixture(scope="module")
def pressed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("press")
    (folder / "driver.c").write_text(DRIVER)
    program = folder / "driver"
    words = ["-std=gnu17", "-D_GNU_SOURCE", "-O1", f"-I{ROOT}/guests/common"]
    subprocess.run(["cc", *words, "-o", program, folder / "driver.c"], check=True)

    def run(
        seed: int, flags: str = "-", thread: str = WRITEBACK, points=(folder,)
    ) -> tuple[int, list[tuple[int, str]], list[int]]:
        """Its status, when it did what, and what it said of that."""
        log = folder / "log"
        log.unlink(missing_ok=True)
        argv = [program, log, str(seed), flags, thread, *points]
        done = subprocess.run(argv, timeout=60, check=False, capture_output=True, text=True)
        rows = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
        return (
            done.returncode,
            [(int(at), value) for at, value in rows],
            [int(word) for word in done.stdout.split()],
        )

    return run


def test_each_write_is_another_value_and_neither_is_unusual(pressed):
    """The same value again wakes no flusher."""
    status, rows, said = pressed(1)
    assert status == 0
    assert rows[0][1] == "501"  # 500 is there
    assert {value for _, value in rows} == {"500", "501"}
    assert all(one != other for (_, one), (_, other) in pairwise(rows))
    assert said == [len(rows), 0]


def turns(instants, *, first_ns):
    """Quiet ones with their begin, and pauses: a pause takes less than half of the first turn."""
    gaps = [(before, after - before) for before, after in pairwise(instants)]
    quiet = [(at, gap) for at, gap in gaps if gap >= first_ns // 2]
    return quiet, [gap for _, gap in gaps if gap < first_ns // 2]


@pytest.mark.parametrize("thread", [WRITEBACK, COMMIT])
def test_pressed_turns_and_quiet_ones_alternate(pressed, thread):
    first_ns, pause_ns = {WRITEBACK: (20_000_000, 250_000), COMMIT: (50_000_000, 3_000_000)}[thread]
    longest = []
    for seed in range(1, 6):
        _, rows, _ = pressed(seed, thread=thread)
        instants = [at for at, value in rows if value != "btrfs"]
        quiet, pauses = turns(instants, first_ns=first_ns)
        assert all(pause_ns // 4 <= gap < 2.25 * pause_ns for gap in pauses)
        pressed_turns = [(at, after - at - gap) for (at, gap), (after, _) in pairwise(quiet)]
        for at, length in (*quiet, *pressed_turns):
            assert length < 1.5 * max(first_ns, at / 8 + length / 8) + 3 * pause_ns
        # In 4 s: short ones from the beginning, and later such as a slow operation needs.
        assert 10 <= len(quiet) <= 40
        assert sum(at < 500_000_000 for at, _ in quiet) >= 3
        assert 0.25 <= sum(gap for _, gap in quiet) / 4e9 <= 0.7
        longest.append(max(gap for _, gap in quiet))
        assert longest[-1] >= 100_000_000
        assert max(length for _, length in pressed_turns) >= 100_000_000
    assert max(longest) >= 200_000_000


@pytest.mark.parametrize("thread", [WRITEBACK, COMMIT])
def test_a_seed_repeats_its_instants_and_another_has_others(pressed, thread):
    assert pressed(7, thread=thread) == pressed(7, thread=thread)
    assert pressed(7, thread=thread)[1] != pressed(8, thread=thread)[1]


def test_a_kernel_that_takes_no_value_ends_it(pressed):
    status, rows, _ = pressed(1, "breaks off")
    assert (status, len(rows)) == (11, 3)


def test_a_neighbour_commits_in_turns_and_something_new_each_time(pressed):
    """To write again what is there may change nothing that a file system commits."""
    status, rows, said = pressed(1, thread=COMMIT)
    assert status == 0
    synced = [(at, int(size)) for at, size in rows if size != "btrfs"]
    assert said == [0, len(synced)]
    assert [at for at, _ in synced] == [at for at, size in rows if size == "btrfs"]
    sizes = [size for _, size in synced]
    assert sizes[:17] == [4096 * number for number in (*range(1, 17), 1)]
    assert 350 <= len(synced) <= 900


def test_a_sync_that_was_not_made_is_not_counted(pressed):
    """On a disk that is full there may be room later."""
    status, rows, said = pressed(1, "no room", COMMIT)
    assert status == 0
    sizes = [size for _, size in rows if size != "btrfs"]
    assert said == [0, len(sizes)]
    assert len(sizes) >= 100
    assert all(one != other for one, other in pairwise(sizes)), "a sync of nothing new"


def test_where_no_file_can_be_made_there_is_no_neighbour(pressed):
    assert pressed(1, thread=COMMIT, points=("/nowhere",))[0] == NO_THREAD
    assert pressed(1, thread=COMMIT, points=())[0] == NO_THREAD
    assert pressed(1, points=())[0] == 0
