# SPDX-License-Identifier: Apache-2.0
"""A program whose recovery moves a log into a table; in some ways a second cut loses both.

    python3 folder_recovery.py WAY run DIR       makes 1 to 12 durable, in DIR/log
    python3 folder_recovery.py WAY check DIR     recovers, and says what is in DIR/table

WAY `late` unlinks the log once the table and its name are durable.  `early` unlinks it before the
table is synced: whatever the log held is gone if the power fails then.  `second` does that only
where an earlier recovery was interrupted.  It needs no package: it runs as `python3 -I -S`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

OPERATIONS = 12


def say(text: str) -> None:
    os.write(int(os.environ["POWERCUT_FD"]), f"{text}\n".encode())


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def run(folder: Path) -> None:
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT, 0o644)
    sync(folder)
    say("ready")
    for number in range(1, OPERATIONS + 1):
        say(f"? {number}")
        os.pwrite(log, f"{number:3}\n".encode(), 4 * (number - 1))
        os.fdatasync(log)
        say(f"+ {number}")


def numbers(file: Path) -> list[int]:
    """Those that are whole, in order from 1."""
    lines = file.read_text(errors="replace").split("\n") if file.exists() else []
    return [n for n, line in enumerate(lines, 1) if line == f"{n:3}"]


def check(way: str, folder: Path) -> None:
    log, table, busy = folder / "log", folder / "table", folder / "busy"
    early = way == "early" or (way == "second" and busy.exists())
    if log.exists():
        busy.touch()
        sync(folder)
        found = max(numbers(log), numbers(table), key=len)
        table.write_text("".join(f"{n:3}\n" for n in found))
        if not early:
            sync(table)
            sync(folder)
        log.unlink()
        sync(folder)
        sync(table)
    if busy.exists():
        busy.unlink()
        sync(folder)
    for number in numbers(table):
        say(f"= {number}")


if __name__ == "__main__":
    how, verb, place = sys.argv[1:]
    run(Path(place)) if verb == "run" else check(how, Path(place))
