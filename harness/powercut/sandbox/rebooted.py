# SPDX-License-Identifier: Apache-2.0
"""What a machine has that was cut and has booted again: another boot, and nothing but its disks.

A store may trust what was never synced as long as the machine has not booted since, and ask the
kernel whether it has.  So bubblewrap's words for a check that comes after a cut are here: another
boot id, and namespaces of its own for shared memory, queues and semaphores (System V, POSIX) and
for the network, in which there is nothing but an empty loopback.  Before bubblewrap comes a
namespace in which the machine booted a moment ago, where the kernel has such (Linux 5.6) and allows
it.
"""

from __future__ import annotations

import os
import subprocess
import time
import uuid
from functools import cache
from pathlib import Path
from typing import Final

from powercut.model.machine_identity import HOST_NAME

BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
UP_S: Final = 20
"""Seconds since the machine has booted again."""

_TRY_S: Final = 20.0


def apart() -> list[str]:
    """bubblewrap's words for memory and sockets that no other process shares, and for the name of
    the host."""
    return ["--unshare-ipc", "--unshare-net", "--unshare-uts", "--hostname", HOST_NAME]


def booted_again(file: Path) -> list[str]:
    """bubblewrap's words for another boot, behind those for /proc.  `file` gets the id of it."""
    file.write_text(f"{uuid.uuid4()}\n")
    return ["--ro-bind", str(file), BOOT_ID, *apart()]


def booted_by(memory: int) -> list[str]:
    """The id of another boot, which the empty file `memory`, bubblewrap's to inherit, gets."""
    os.pwrite(memory, f"{uuid.uuid4()}\n".encode(), 0)
    return ["--perms", "0444", "--ro-bind-data", str(memory), BOOT_ID, *apart()]


def new_clocks() -> list[str]:
    """What comes before a command: the clocks that count from boot, in it and in what it starts.

    Empty where that cannot be had.
    """
    return [*_unshare(), *_offsets(), "--"] if _works() else []


def _unshare() -> list[str]:
    user = ["--user", "--map-current-user"] if os.geteuid() else []
    return ["unshare", *user, "--time"]


def _offsets() -> list[str]:
    clocks = {"--boottime": time.CLOCK_BOOTTIME, "--monotonic": time.CLOCK_MONOTONIC}
    offsets = {word: UP_S - int(time.clock_gettime(clock)) for word, clock in clocks.items()}
    return [part for word, offset in offsets.items() for part in (word, str(offset))]


@cache
def _works() -> bool:
    try:
        argv = [*_unshare(), *_offsets(), "--", "/bin/sh", "-c", "/bin/cat /proc/uptime; true"]
        done = subprocess.run(argv, capture_output=True, timeout=_TRY_S, check=False)
        return done.returncode == 0 and float(done.stdout.split()[0]) < 2 * UP_S + _TRY_S
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError):
        return False
