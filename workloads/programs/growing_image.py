#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A disk image that grows while it is written, in a captured folder.

    growing_image.py setup FORMAT DIR              makes DIR/disk.FORMAT, and what `backing` lies on
    growing_image.py run FORMAT DIR [CACHE [AIO]]  writes where nothing is allocated, syncs, says so
    growing_image.py check FORMAT DIR              opens what is there as QEMU does, reads, goes on

`run` speaks to one qemu-io, so the block drivers are those of a guest's disk and no guest is
needed.  `check` opens for writing, as a hypervisor would: dirty images are repaired.  It then
allocates anew, reads that back, and asks `qemu-img check` for errors; leaks are none.  QEMU does
not open a parallels image that was in use: its user must run `qemu-img check -r all`, and so does
`check`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

OPERATIONS = 24
SIZE = 64 << 20
PIECE = 4096
STRIDE = 1 << 20
"""Bytes between two writes: what most formats allocate at a time, or more."""

FORMATS = {
    "qcow2": ("qcow2", "cluster_size=512"),
    "qcow2-64k": ("qcow2", ""),
    "qcow2-lazy": ("qcow2", "lazy_refcounts=on"),
    "qed": ("qed", "cluster_size=4096"),
    "vdi": ("vdi", ""),
    "vmdk": ("vmdk", "subformat=monolithicSparse"),
    "vhdx": ("vhdx", "block_size=1048576"),
    "vpc": ("vpc", ""),
    "parallels": ("parallels", "cluster_size=1048576"),
    "backing": ("qcow2", ""),
    "raw": ("raw", ""),
}
PROMPT = b"qemu-io> "


def image_of(name: str, folder: str) -> tuple[str, Path]:
    """The format, and the file."""
    return FORMATS[name][0], Path(folder, f"disk.{name}").absolute()


def pattern(number: int) -> int:
    """The byte that operation `number` writes."""
    return number % 250 + 1


def say(text: str) -> None:
    """A line of the contract."""
    os.write(int(os.environ.get("POWERCUT_FD", "1")), f"{text}\n".encode())


def setup(name: str, folder: str) -> int:
    """Makes the image, durably."""
    kind, file = image_of(name, folder)
    options = FORMATS[name][1]
    below: list[str] = []
    if name == "backing":
        base = file.with_name("base.raw")
        base.write_bytes(bytes(range(1, 251)) * 64)
        os.truncate(base, SIZE)
        below = ["-b", str(base), "-F", "raw"]
    words = ["qemu-img", "create", "-q", "-f", kind, *below, *(["-o", options] if options else [])]
    subprocess.run([*words, str(file), str(SIZE)], check=True)
    os.sync()
    return 0


def run(name: str, folder: str, cache: str = "writeback", aio: str = "threads") -> int:
    """One qemu-io, a write and a flush for each operation."""
    kind, file = image_of(name, folder)
    words = ["qemu-io", "-f", kind, "-t", cache, "-i", aio, str(file)]
    qemu = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    answer(qemu)
    say("ready")
    for number in range(1, OPERATIONS + 1):
        say(f"? {number}")
        # Backwards, so that what is allocated last lies first.
        place = (OPERATIONS - number + 1) * STRIDE
        wrote = command(qemu, f"write -P {pattern(number)} {place} {PIECE}")
        flushed = command(qemu, "flush")
        if b"wrote" not in wrote or b"failed" in flushed:
            say(f"! {(wrote + flushed).decode(errors='replace')!r}")
            return 1
        say(f"+ {number}")
    qemu.kill()
    return 0


def command(qemu: subprocess.Popen[bytes], words: str) -> bytes:
    """What qemu-io says to a command."""
    assert qemu.stdin is not None
    qemu.stdin.write(words.encode() + b"\n")
    return answer(qemu)


def answer(qemu: subprocess.Popen[bytes]) -> bytes:
    """All that qemu-io says up to its next prompt."""
    assert qemu.stdout is not None
    text = b""
    while not text.endswith(PROMPT):
        data = qemu.stdout.read(4096)
        if not data:
            break
        text += data
    return text.removesuffix(PROMPT)


def check(name: str, folder: str) -> int:
    """Recovers, reads, goes on."""
    kind, file = image_of(name, folder)
    places = [(n, (OPERATIONS - n + 1) * STRIDE) for n in range(1, OPERATIONS + 1)]
    reads = [f"read -P {pattern(n)} {place} {PIECE}" for n, place in places]
    later = (OPERATIONS + 4) * STRIDE
    after = [f"write -P 254 {later} {PIECE}", "flush", f"read -P 254 {later} {PIECE}"]
    after += [f"read -P 254 {place} {PIECE}" for _, place in places]
    if name == "parallels":
        repair = ["qemu-img", "check", "-q", "-f", kind, "-r", "all", str(file)]
        subprocess.run(repair, check=False, stdout=subprocess.DEVNULL)
    opened = io(kind, file, [*reads, *after])
    if opened.returncode and "read " not in opened.stdout:
        say(f"bad it does not open: {one_line(opened.stderr)}")
        return 0
    said = r"(Pattern verification failed[^\n]*\n)?(read \d+/|read failed)"
    parts = re.findall(said, opened.stdout)
    if len(parts) != 2 * OPERATIONS + 1:
        say(f"! {one_line(opened.stdout + opened.stderr)}")
        return 1
    for (number, _), (failed, what) in zip(places, parts, strict=False):
        if not failed and what != "read failed":
            say(f"= {number}")
    if parts[OPERATIONS][0] or parts[OPERATIONS][1] == "read failed":
        say("bad what is written after the recovery is not read back")
    for (number, _), (failed, what) in zip(places, parts[OPERATIONS + 1 :], strict=True):
        if not failed and what != "read failed":
            say(f"bad what is written after the recovery is also where {number} was written")
    # Opened once more, a driver may have another idea of where the next free place is.
    other = (OPERATIONS + 6) * STRIDE
    again = [f"write -P 253 {other} {PIECE}", "flush"]
    again += [f"read -P 253 {place} {PIECE}" for _, place in places]
    parts = re.findall(said, io(kind, file, again).stdout)
    for (number, _), (failed, what) in zip(places, parts, strict=False):
        if not failed and what != "read failed":
            say(f"bad what is written later is also where {number} was written")
    if name == "backing":
        base = io(kind, file, [f"read -P 1 -s 0 -l 1 {0} 250"])
        if "Pattern verification failed" in base.stdout:
            say("bad what lies in the backing file is not read through the image")
    return checked(kind, file)


def io(kind: str, file: Path, commands: list[str]) -> subprocess.CompletedProcess[str]:
    """qemu-io with these commands on the image, opened for writing."""
    words = [word for one in commands for word in ("-c", one)]
    argv = ["qemu-io", "-f", kind, *words, str(file)]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def checked(kind: str, file: Path) -> int:
    """What `qemu-img check` says: its status 2 is corruption, 3 leaks, 63 no such check.

    Of a vdi whose header counts more blocks than are used it says corruption, and that is a leak.
    """
    argv = ["qemu-img", "check", "-f", kind, str(file)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    if done.returncode == 2 and (kind != "vdi" or "also used by" in said):
        say(f"bad qemu-img check: {one_line(said)}")
    beyond = "points after EOF" in said  # of a vmdk's entry: what is there is told above
    return 0 if done.returncode in (0, 2, 3, 63) or beyond else 1


def one_line(text: str) -> str:
    """At most 300 characters of it."""
    return " ".join(text.split())[:300]


if __name__ == "__main__":
    verb, *rest = sys.argv[1:]
    sys.exit({"setup": setup, "run": run, "check": check}[verb](*rest))
