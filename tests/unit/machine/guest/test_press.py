# SPDX-License-Identifier: Apache-2.0
"""guests/common/press.c with a clock and a kernel of this test: when it presses, and what it keeps.

What a real kernel then writes back is looked at in tests/vm/workload/test_page_cache.py.
"""

from __future__ import annotations

import signal
import subprocess
from itertools import pairwise

import pytest

from powercut.paths import ROOT

DRIVER = r"""
#include "press.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *log_path;
static unsigned long long at_ns;
static int breaks_off, is_killed, lines;

static int opened(void) { return open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600); }
static long said(int fd, const char *value, size_t size)
{
    if (at_ns > 4000000000ull) {
        sigset_t blocked;

        sigprocmask(SIG_SETMASK, NULL, &blocked);
        _exit(fcntl(1, F_GETFD) >= 0 ? 2 : sigismember(&blocked, SIGTERM) ? 3 : 0);
    }
    if (is_killed && ++lines > 3)
        raise(SIGKILL);
    if (breaks_off && ++lines > 3)
        return -1;
    return dprintf(fd, "%llu %.3s\n", at_ns, value) > 0 ? (long)size : -1;
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
#define open(path, flags) opened()
#define pwrite(fd, value, size, at) said(fd, value, size)
#define nanosleep(want, left) slept(want, left)
#define clock_gettime(clock, now) told(now)
#include "press.c"

int main(int argc, char **argv)
{
    int status;
    pid_t gone;

    log_path = argv[1];
    breaks_off = argc > 3 && argv[3][0] == 'b';
    is_killed = argc > 3 && argv[3][0] == 'k';
    if (press_begin(strtoull(argv[2], NULL, 10)) != 0)
        return 2;
    gone = wait(&status);
    is_killed = breaks_off = 0;
    press_again(gone + 1, status); /* another's end */
    press_again(gone, status);
    wait(&status); /* fails if there is none */
    return WIFEXITED(status) ? 10 + WEXITSTATUS(status) : 3;
}
"""


@pytest.fixture(scope="module")
def pressed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("press")
    (folder / "driver.c").write_text(DRIVER)
    program = folder / "driver"
    words = ["-std=gnu17", "-D_GNU_SOURCE", "-O1", f"-I{ROOT}/guests/common"]
    subprocess.run(["cc", *words, "-o", program, folder / "driver.c"], check=True)

    def run(seed: int, *more: str) -> tuple[int, list[tuple[int, str]]]:
        log = folder / "log"
        log.unlink(missing_ok=True)
        done = subprocess.run([program, log, str(seed), *more], timeout=60, check=False)
        rows = [line.split() for line in log.read_text().splitlines()]
        return done.returncode, [(int(at), value) for at, value in rows]

    return run


def test_each_write_is_another_value_and_neither_is_unusual(pressed):
    """The same value again wakes no flusher."""
    status, rows = pressed(1)
    assert status == 10
    assert {value for _, value in rows} == {"500", "501"}
    assert all(one != other for (_, one), (_, other) in pairwise(rows))


def test_pressed_turns_and_quiet_ones_alternate(pressed):
    _, rows = pressed(1)
    gaps = [after - before for (before, _), (after, _) in pairwise(rows)]
    quiet = [gap for gap in gaps if gap >= 10_000_000]
    short = [gap for gap in gaps if gap < 10_000_000]
    assert all(62_500 <= gap < 562_500 for gap in short)
    assert all(gap < 31_000_000 for gap in quiet)
    # 4 s of turns that take 10 to 30 ms each: some hundred of either kind.
    assert 80 <= len(quiet) <= 130
    assert 4_000 <= len(short) <= 10_000


def test_a_seed_repeats_its_instants_and_another_has_others(pressed):
    assert pressed(7) == pressed(7)
    assert pressed(7)[1] != pressed(8)[1]


def test_a_kernel_that_takes_no_value_ends_it(pressed):
    status, rows = pressed(1, "breaks off")
    assert (status, len(rows)) == (11, 3)


def test_it_keeps_nothing_open_and_nothing_blocked(pressed):
    """Or what waits for the end of a program's lines would wait for ever."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    try:
        assert pressed(1)[0] == 10
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_one_that_is_killed_has_a_successor_with_other_instants(pressed):
    """A program that kills all others had a kernel that wrote back nothing, and a SAFE."""
    status, rows = pressed(1, "killed")
    assert (status, len({at for at, _ in rows[:3]})) == (10, 3)
    assert len(rows) > 4_000
    assert rows[3:] == pressed(2)[1]
