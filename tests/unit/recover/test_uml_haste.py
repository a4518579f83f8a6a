# SPDX-License-Identifier: Apache-2.0
"""The clock of a User-Mode Linux that boots (guests/uml/haste.c), in a program of this host."""

import json
import os
import subprocess
import sys
import time

from powercut.recover.uml.boot import haste_library
from powercut.sandbox.confined import preloading

WINDOW_NS = 150_000_000
AHEAD_NS = 19 * WINDOW_NS
SLACK_NS = 1_000_000  # in which the host's clocks may differ
TRIES = 40  # until a busy host starts the interpreter within the window

HEAD = """
import ctypes, json, signal, time
def now():
    host = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return host, time.clock_gettime_ns(time.CLOCK_MONOTONIC), \
        time.clock_gettime_ns(time.CLOCK_BOOTTIME)
first = now()
"""

CLOCKS = """
readings = [first]
while readings[-1][0] - first[0] < 400_000_000:
    readings.append(now())
print(json.dumps([first, readings]))
"""

TIMER = """
libc = ctypes.CDLL(None)
class When(ctypes.Structure):
    _fields_ = [("interval_s", ctypes.c_long), ("interval_ns", ctypes.c_long),
                ("value_s", ctypes.c_long), ("value_ns", ctypes.c_long)]
fired = []
signal.signal(signal.SIGALRM, lambda *_: fired.append(now()[0]))
timer = ctypes.c_void_p()
assert libc.timer_create(time.CLOCK_MONOTONIC, None, ctypes.byref(timer)) == 0
set_at = now()
assert libc.timer_settime(timer, 0, ctypes.byref(When(0, 40_000_000, 0, 40_000_000)), None) == 0
last, longest = set_at[0], 0
while (read := now()[0]) - first[0] < 600_000_000:
    if read - set_at[0] < EARLY:
        longest = max(longest, read - last)
    last = read
libc.timer_delete(timer)
print(json.dumps([set_at, [fired, longest]]))
""".replace("EARLY", str(WINDOW_NS // 3))
AWAY_NS = 5_000_000
"""What fires while a program waits for a processor is one signal."""


def hurried(program: str):
    """What `program` says that was early enough; with it the reading, and the clocks' offset."""
    environment = preloading([haste_library()], os.environ)
    offset = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
    for _ in range(TRIES):
        done = subprocess.run(
            [sys.executable, "-S", "-c", HEAD + program],
            env=environment,
            capture_output=True,
            check=True,
        )
        first, said = json.loads(done.stdout)
        if first[1] + offset - first[2] < AHEAD_NS // 2:  # half of the window is left
            return first, said, offset
    raise AssertionError("no interpreter starts in time, or the clock does not run fast")


def test_the_clock_runs_fast_at_first_then_as_the_hosts_and_never_backwards():
    first, readings, offset = hurried(CLOCKS)
    shown = [now for _, now, _ in readings]
    assert shown == sorted(shown)
    assert first[1] + offset > first[0] + SLACK_NS, "it is ahead from the first moment on"
    late = [one for one in readings if one[0] - first[0] > 2 * WINDOW_NS]
    assert late
    for before, now, after in late:
        assert before - SLACK_NS < now + offset - AHEAD_NS < after + SLACK_NS


def test_a_periodic_timer_has_its_own_period_after_the_window():
    for _ in range(TRIES):
        begun, (fired, longest), _ = hurried(TIMER)
        if longest < AWAY_NS:
            break
    else:
        raise AssertionError("this host leaves no program alone for 50 ms")
    early = [one for one in fired if one - begun[0] < WINDOW_NS // 3]
    assert len(early) > 3, "of 2 ms, not of 40"
    late = [one for one in fired if one - begun[0] > 2 * WINDOW_NS]
    assert 1 <= len(late) <= 9, "of 40 ms again"
