#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Replaces a file by rename, as editors and package managers do; `unsafe` leaves the sync out.

A number is the file's size in bytes.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from powercut_program import Session, main  # it lies beside this file

UNSAFE = "unsafe" in sys.argv[1:-2]
SIZE = next((int(word) for word in sys.argv[1:-2] if word.isdigit()), 8000)


def replace(folder: str, text: str) -> None:
    """Puts `text` into the file `value`: all of it or nothing, and durable."""
    with Path(folder, "new").open("w") as file:
        file.write(text)
        file.flush()
        if not UNSAFE:
            os.fsync(file.fileno())
    Path(folder, "new").rename(Path(folder, "value"))
    if not UNSAFE:
        directory = os.open(folder, os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)


def setup(folder: str) -> None:
    replace(folder, "0\n")


def run(folder: str, session: Session) -> None:
    session.ready()
    for number in range(1, 1_000_000):
        session.trying(number)
        replace(folder, f"{number}\n" + "x" * SIZE)
        session.durable(number)


def check(folder: str, session: Session) -> None:
    try:
        text = Path(folder, "value").read_text()
    except FileNotFoundError:
        return
    if not text.endswith("x" * SIZE) and text != "0\n":
        session.bad(f"the file has {len(text)} bytes, and begins with {text[:20]!r}")
        return
    last = int(text.split("\n")[0])
    if last:
        session.present(1, last)  # the newest value stands for all before it


main(setup, run, check)
