#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A store with its log on one disk and its data on another: DIR/../log/wal and DIR/data.

two_disks.py [honest|early] setup|run|check DIR

An operation is a line in the log, which is synced and then acknowledged.  A checkpoint, after each
CHECKPOINT operations, appends them to the data, syncs the data, and empties the log.  With `early`
it does not sync the data: the log forgets, on one disk, what is not durable on the other.
OPERATIONS are made, and nothing more: what is lost of them follows from that.
"""

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
from powercut_program import Session, main

CHECKPOINT = 8
OPERATIONS = 20


def line(operation: int) -> bytes:
    return f"operation {operation:08d} {'.' * (operation * 37 % 200)}\n".encode()


def files(folder: str) -> tuple[Path, Path]:
    return Path(folder, "data"), Path(folder).parent / "log" / "wal"


def sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def setup(folder: str) -> None:
    for path in files(folder):
        path.write_bytes(b"")


def run(folder: str, session: Session) -> None:
    early = sys.argv[1] == "early"
    data, log = (os.open(path, os.O_WRONLY | os.O_APPEND) for path in files(folder))
    session.ready()
    waiting = []
    for operation in range(1, OPERATIONS + 1):
        session.trying(operation)
        os.write(log, line(operation))
        os.fdatasync(log)
        session.durable(operation)
        waiting.append(operation)
        if len(waiting) == CHECKPOINT:
            os.write(data, b"".join(map(line, waiting)))
            if not early:
                os.fdatasync(data)
            os.ftruncate(log, 0)
            os.fsync(log)
            waiting = []
    while True:  # until the power goes
        time.sleep(60)


def check(folder: str, session: Session) -> None:
    found = set()
    for path in files(folder):
        for text in path.read_bytes().splitlines(keepends=True):
            number = text[10:18]
            if number.isdigit() and text == line(int(number)):
                found.add(int(number))
    for operation in sorted(found):
        session.present(operation)


main(setup, run, check)
