# SPDX-License-Identifier: Apache-2.0
"""The disk of block_jobs.py: its images, the file that names it, and what a cut has left of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

from growing_image import checked, io, one_line, say

BASE, MIDDLE, TOP, COPY = "base.qcow2", "middle.qcow2", "top.qcow2", "copy.qcow2"
SNAPSHOT = "kept"
SIZE = 64 << 20
PIECE = 4096
STRIDE = 1 << 20
"""Bytes between two clusters that are written."""
PHASE = 6
"""Operations into each image of the chain, and in each phase of a job."""
BEFORE = 3 * PHASE
"""The last operation before the job starts."""
JOB = BEFORE + 2 * PHASE + 1
"""The operation that is the job itself."""
OPERATIONS = JOB + PHASE


class Record(NamedTuple):
    """What DIR/active holds: the disk's image, and whether the job is over and done with."""

    image: str
    done: bool


STEPS = 4
"""Pieces that a job copies one by one; each job has more than these and its first one."""


def place(number: int) -> int:
    """Where operation `number` writes: half of them in clusters that earlier ones share."""
    shared = number % 2
    return (1 + number % 6) * STRIDE + number * PIECE if shared else (40 - number) * STRIDE


HOT = 0
"""Where every operation writes its number: what comes back is the last one, or an old image."""
COLD = 52 * STRIDE
"""Where is written what nobody asks for again."""


def create(folder: Path, file: str, backing: str | None = None) -> None:
    below = ["-b", backing, "-F", "qcow2"] if backing else []
    words = ["qemu-img", "create", "-q", "-u", "-f", "qcow2", *below, file, str(SIZE)]
    subprocess.run(words, check=True, cwd=folder)
    sync(folder / file)
    sync_folder(folder)


def record(folder: Path, what: Record) -> None:
    new = folder / "active.new"
    new.write_text(json.dumps(what._asdict()))
    sync(new)
    new.rename(folder / "active")
    sync_folder(folder)


def recorded(folder: Path) -> Record:
    return Record(**json.loads((folder / "active").read_text()))


def sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


sync_folder = sync


READ = r"(Pattern verification failed[^\n]*\n)?(read \d+/|read failed)"


class Contents(NamedTuple):
    """The writes that an image holds, and the number in its hot place; or why it does not open."""

    there: list[int]
    hot: int
    trouble: str = ""

    @property
    def whole(self) -> list[int]:
        """The operations that are there: with a stale hot place none later than its number."""
        return [number for number in self.there if number <= self.hot]


def contents(file: Path, kind: str = "qcow2") -> Contents:
    """Opens it for writing, as a hypervisor does, and reads."""
    numbers = [number for number in range(1, OPERATIONS + 1) if number != JOB]
    reads = [f"read -P {number} {place(number)} {PIECE}" for number in numbers]
    opened = io(kind, file, [f"read -v {HOT} 16", *reads])
    hot = re.search(r"^0+:  (\w\w) ", opened.stdout, re.MULTILINE)
    parts = re.findall(READ, opened.stdout)
    if hot is None or len(parts) != len(reads) + 1:
        return Contents([], 0, one_line(opened.stderr + opened.stdout))
    found = zip(numbers, parts[1:], strict=True)
    right = [n for n, (failed, what) in found if not failed and what != "read failed"]
    return Contents(right, int(hot[1], 16))


def check(job: str, folder: Path) -> int:
    """Recovers, reads, goes on."""
    disk = recorded(folder)
    file = folder / disk.image
    held = contents(file)
    if held.trouble:
        say(f"bad {disk.image} does not open: {held.trouble}")
        return 0
    for number in held.whole:
        say(f"= {number}")
    if disk.done:
        wrong = unkept(job, folder, file)
        say(f"x {JOB} {wrong}" if wrong else f"= {JOB}")
    goes_on(file, held.there)
    return max(checked("qcow2", image) for image in chain(file))


def chain(file: Path) -> list[Path]:
    """The images of the disk, from the top, by what each says of the one below."""
    images = [file]
    while True:
        words = ["qemu-img", "info", "--output=json", str(images[-1])]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        below = json.loads(done.stdout).get("full-backing-filename")
        if below is None:
            return images
        if below.startswith("json:"):  # what QEMU writes of a node that it was given by parts
            below = json.loads(below.removeprefix("json:"))["file"]["filename"]
        images.append(Path(below))


CHAINS = {
    "mirror": [COPY],
    "mirror-blocking": [COPY],
    "commit": [TOP, BASE],
    "commit-active": [BASE],
    "stream": [TOP],
    "snapshot": [COPY, TOP, MIDDLE, BASE],
}
"""What the disk lies on once the job is done, from the top; the others leave it as it was."""


def unkept(job: str, folder: Path, file: Path) -> str:
    """What is wrong with a job that is recorded as done; or nothing."""
    names = [one.name for one in chain(file)]
    if names != CHAINS.get(job, [TOP, MIDDLE, BASE]):
        return f"the disk lies on {', '.join(names)}"
    if job == "backup":
        return not_as_it_was(contents(folder / COPY))
    if job == "internal-snapshot":
        raw = folder / "snapshot.raw"
        words = ["qemu-img", "convert", "-l", f"snapshot.name={SNAPSHOT}", "-O", "raw"]
        done = subprocess.run(
            [*words, str(file), str(raw)], check=False, capture_output=True, text=True
        )
        if done.returncode:
            return one_line(done.stderr)
        return not_as_it_was(contents(raw, "raw"))
    return ""


def not_as_it_was(held: Contents) -> str:
    """What differs from the disk as it was when the job began; or nothing."""
    if held.trouble:
        return held.trouble
    expected = list(range(1, BEFORE + 1))
    if held.there != expected or held.hot != BEFORE:
        return f"it holds {held.there} and {held.hot}, not 1 to {BEFORE}"
    return ""


def goes_on(file: Path, there: list[int]) -> None:
    """Allocates anew, twice; what was there before has to stay."""
    for turn in (1, 2):
        later = (60 + turn) * STRIDE
        steps = [f"write -P 254 {later} {PIECE}", "flush", f"read -P 254 {later} {PIECE}"]
        steps += [f"read -P {number} {place(number)} {PIECE}" for number in there]
        done = io("qcow2", file, steps)
        parts = re.findall(READ, done.stdout)
        if len(parts) != 1 + len(there) or any(a or b == "read failed" for a, b in parts):
            said = one_line(done.stdout + done.stderr)
            say(f"bad what is written after the recovery has changed what was there: {said}")
