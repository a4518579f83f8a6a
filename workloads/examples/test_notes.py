# SPDX-License-Identifier: Apache-2.0
"""A program in a test file: `pytest test_notes.py` cuts its power (docs/adding-a-program.md)."""

import contextlib
import json
import os
from pathlib import Path
from typing import IO

import powercut_program
from powercut_program import Session


@powercut_program.program(acks=40, budget=32)
class TestNotes:
    """Appends lines to a file, and syncs each."""

    def setup(self, folder: str) -> None:
        with Path(folder, "notes.jsonl").open("w") as notes:
            os.fsync(notes.fileno())

    def run(self, folder: str, session: Session) -> None:
        with Path(folder, "notes.jsonl").open("a") as notes:
            session.ready()
            for number in range(1, 100_000):
                session.trying(number)
                notes.write(json.dumps({"id": number}) + "\n")
                notes.flush()
                self.sync(notes)
                session.durable(number)

    def sync(self, file: IO[str]) -> None:
        os.fsync(file.fileno())

    def check(self, folder: str, session: Session) -> None:
        text = Path(folder, "notes.jsonl").read_bytes()
        for line in text.splitlines():
            with contextlib.suppress(ValueError):  # a torn line: a note that is not there
                session.present(json.loads(line)["id"])
