#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A check that looks for what another one has left in memory, and leaves all that it can.

    python3 -I -S leaving_check.py FOLDER [SECONDS_BEFORE SECONDS_AFTER]

It says in JSON what it finds at first, and what it finds once it has left it itself.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import socket
import sys
import time
from pathlib import Path

NAME, KEY, PORT = "powercut-left", 0x50574350, 47113
PLACES = ("/tmp", "/run", "/var/tmp", "/dev/shm")
LOCKED = "/etc/passwd"
CREATE, MODE = 0o1000, 0o600
_libc = ctypes.CDLL(None, use_errno=True)
_kept = []


def main() -> None:
    descriptors = sorted(names("/proc/self/fd"))[:-1]  # the last one is the folder's
    before, after = map(float, sys.argv[2:] or (0, 0))
    time.sleep(before)
    first = found()
    leave()
    said = {
        "first": first,
        "left": found(),
        "boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        "pid": os.getpid(),
        "here": sorted(names(sys.argv[1])),
        "descriptors": descriptors,
        "states": names("/dev/.states"),
    }
    time.sleep(after)
    os.write(3, json.dumps(said).encode() + b"\n")


def found() -> list[str]:
    there = [place for place in PLACES if Path(place, NAME).exists()]
    if _libc.shmget(KEY, 4096, 0) >= 0:
        there.append("shared memory")
    if _libc.semget(KEY, 1, 0) >= 0:
        there.append("semaphore")
    if _libc.mq_open(f"/{NAME}".encode(), os.O_RDONLY) >= 0:
        there.append("queue")
    for family, address in (
        (socket.AF_UNIX, f"\0{NAME}"),
        (socket.AF_INET, ("127.0.0.1", PORT)),
    ):
        with socket.socket(family) as one:
            if one.connect_ex(address) == 0:
                there.append(family.name)
    if {int(name) for name in names("/proc") if name.isdigit()} - {1, os.getpid()}:
        there.append("process")
    file = os.open(LOCKED, os.O_RDONLY)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        there.append("lock")
    os.close(file)
    return there


def names(folder: str) -> list[str]:
    return [path.name for path in Path(folder).iterdir()]


def leave() -> None:
    for place in PLACES:
        Path(place, NAME).write_text("left")
    _libc.shmget(KEY, 4096, CREATE | MODE)
    _libc.semget(KEY, 1, CREATE | MODE)
    _libc.mq_open(f"/{NAME}".encode(), os.O_RDWR | os.O_CREAT, MODE, None)
    ready, begun = os.pipe()
    if os.fork():
        os.read(ready, 1)
        return
    os.setsid()
    for family, address in (
        (socket.AF_UNIX, f"\0{NAME}"),
        (socket.AF_INET, ("127.0.0.1", PORT)),
    ):
        listener = socket.socket(family)
        listener.bind(address)
        listener.listen()
        _kept.append(listener)
    fcntl.flock(os.open(LOCKED, os.O_RDONLY), fcntl.LOCK_EX)
    os.write(begun, b".")
    os.closerange(0, 4)
    time.sleep(600)


main()
