#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Notes in a file, a line each: appends one, syncs the file, and says that it is durable."""

import contextlib
import json
import os
from pathlib import Path

import powercut_program
from powercut_program import Session


def sync(path: str | Path) -> None:
    """Makes a file durable, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def setup(folder: str) -> None:
    Path(folder, "notes.jsonl").touch()
    sync(folder)


def run(folder: str, session: Session) -> None:
    path = Path(folder, "notes.jsonl")
    with path.open("a") as notes:
        session.ready()
        for number in range(1, 1_000_000):
            session.trying(number)
            notes.write(json.dumps({"id": number}) + "\n")
            notes.flush()
            sync(path)  # without this line every acknowledged note can be lost
            session.durable(number)


def check(folder: str, session: Session) -> None:
    text = Path(folder, "notes.jsonl").read_bytes()
    for line in text.splitlines():
        with contextlib.suppress(ValueError):  # a torn line: a note that is not there
            session.present(json.loads(line)["id"])


powercut_program.main(setup, run, check)
