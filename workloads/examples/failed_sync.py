#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes records into a file, and meets a sync that fails: what it does then is its argument.

`again` syncs once more, is told that all is well, and acknowledges: the kernel has forgotten the
pages that it could not write (PostgreSQL's "fsyncgate", fsync(2) under EIO).  `rewrite` writes the
record again before it does so.  `stop` acknowledges nothing any more.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from powercut_program import Session, main  # it lies beside this file

AFTER_ERROR = sys.argv[1]
RECORD = 4096
MADE = 256
"""So many records have their place before `run` begins: to sync one writes that record alone."""


def record(number: int) -> bytes:
    return f"{number:08d}".encode() * (RECORD // 8)


def setup(folder: str) -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    with Path(folder, "log").open("wb") as file:
        file.write(bytes(MADE * RECORD))
        os.fsync(file.fileno())
    os.sync()


def durable(file: int, number: int) -> bool:
    at = (number - 1) * RECORD
    os.pwrite(file, record(number), at)
    for _ in range(3):
        try:
            os.fdatasync(file)
        except OSError:
            if AFTER_ERROR == "stop":
                return False
            if AFTER_ERROR == "rewrite":
                os.pwrite(file, record(number), at)
        else:
            return True
    return False


def run(folder: str, session: Session) -> None:
    file = os.open(Path(folder, "log"), os.O_WRONLY)
    session.ready()
    for number in range(1, 1_000_000):
        session.trying(number)
        if not durable(file, number):
            session.failed(number)
            return
        session.durable(number)


def check(folder: str, session: Session) -> None:
    content = Path(folder, "log").read_bytes()
    for number in range(1, len(content) // RECORD + 1):
        if content[(number - 1) * RECORD : number * RECORD] == record(number):
            session.present(number)


main(setup, run, check)
