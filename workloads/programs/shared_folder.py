#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keeps records in a folder, durable in one of several ways.

    shared_folder.py run WAY DIR      appends records to DIR/log, or makes a file for each
    shared_folder.py check WAY DIR    says which records are there

    fsync, fdatasync   the log is synced after each record
    dsync              the log is open with O_DSYNC
    syncfs             syncfs(2) of the folder's file system after each record
    mapped             records are stored in a mapping of the log, and msync makes them durable
    files              a file for each record, written under another name, synced, renamed; then
                       the folder
    owner              as files, and each belongs to user 1000, which fsync makes durable, too
    nosync             nothing is synced

It runs until it is killed.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from pathlib import Path

OPERATIONS = 60
RECORD = 64
OWNER = 1000


def record(number: int) -> bytes:
    """What is written for an operation."""
    return f"record {number:4} ".encode().ljust(RECORD - 1, b".") + b"\n"


def say(text: str) -> None:
    """A line of the contract."""
    os.write(int(os.environ.get("POWERCUT_FD", "1")), f"{text}\n".encode())


class Log:
    """One file with all records."""

    def __init__(self, way: str, folder: str) -> None:
        self.way = way
        self.folder = os.open(folder, os.O_RDONLY)
        flags = os.O_RDWR | os.O_CREAT | (os.O_DSYNC if way == "dsync" else 0)
        self.log = os.open(Path(folder, "log"), flags, 0o644)
        if way == "mapped":
            os.truncate(self.log, OPERATIONS * RECORD)
            self.map = mmap.mmap(self.log, OPERATIONS * RECORD)
        os.fsync(self.log)
        os.fsync(self.folder)

    def keep(self, number: int) -> None:
        """Makes a record durable, in its way."""
        place = (number - 1) * RECORD
        if self.way == "mapped":
            self.map[place : place + RECORD] = record(number)
            self.map.flush()
            return
        os.pwrite(self.log, record(number), place)
        if self.way == "fsync":
            os.fsync(self.log)
        elif self.way == "fdatasync":
            os.fdatasync(self.log)
        elif self.way == "syncfs" and ctypes.CDLL(None, use_errno=True).syncfs(self.folder):
            raise OSError(ctypes.get_errno(), "syncfs")


class Files:
    """A file for each record."""

    def __init__(self, way: str, folder: str) -> None:
        self.way = way
        self.path = Path(folder)
        self.folder = os.open(folder, os.O_RDONLY)

    def keep(self, number: int) -> None:
        """Makes a record durable, under a name that is there only when it is whole."""
        new = self.path / f"{number}.new"
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.write(file, record(number))
        if self.way == "owner":
            os.fchown(file, OWNER, OWNER)
        os.fsync(file)
        os.close(file)
        new.rename(self.path / str(number))
        os.fsync(self.folder)


def run(way: str, folder: str) -> int:
    """One record after the other."""
    keeper = Files(way, folder) if way in ("files", "owner") else Log(way, folder)
    say("atomic")
    say("ready")
    for number in range(1, OPERATIONS + 1):
        say(f"? {number}")
        keeper.keep(number)
        say(f"+ {number}")
    return 0


def check(way: str, folder: str) -> int:
    """Which records are there and whole."""
    path = Path(folder)
    log = (path / "log").read_bytes() if (path / "log").exists() else b""
    for number in range(1, OPERATIONS + 1):
        if way in ("files", "owner"):
            file = path / str(number)
            kept = file.exists() and file.read_bytes() == record(number)
            if kept and way == "owner" and (wrong := owner(path, number)):
                say(f"x {number} {wrong}")
                continue
        else:
            kept = log[(number - 1) * RECORD : number * RECORD] == record(number)
        if kept:
            say(f"= {number}")
    return 0


def owner(folder: Path, number: int) -> str:
    """What is wrong with a file's owner, as security_model=mapped-file of QEMU keeps it.

    It is a line of the file of that name in .virtfs_metadata; without it the file belongs to QEMU's
    own user.
    """
    kept = folder / ".virtfs_metadata" / str(number)
    text = kept.read_text() if kept.exists() else ""
    return "" if f"virtfs.uid={OWNER}\n" in text else f"its owner is gone: {text!r}"


if __name__ == "__main__":
    verb, *rest = sys.argv[1:]
    sys.exit({"run": run, "check": check}[verb](*rest))
