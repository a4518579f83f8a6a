#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""QEMU's block jobs and snapshots under a writer that syncs.

    block_jobs.py job=JOB [SETTING...] setup DIR    makes DIR/base.qcow2, and DIR/active
    block_jobs.py job=JOB [SETTING...] run DIR      writes before, during and after the job
    block_jobs.py job=JOB [SETTING...] check DIR    opens what DIR/active names, reads, goes on

The program is the management layer, too: DIR/active names the image that the disk is, and is
replaced durably where such a layer saves its configuration.  The writer stands still meanwhile,
as a guest does.  Each write and its flush is an operation; so is the job: operation 31 is there if
all is that the job promises, and what the disk needs no more is removed.

`cache` is that of the images: writeback, none, unsafe.  `qemu` is what does the job:
qemu-storage-daemon, or a qemu-system-* by its path.  `way` is how the layer goes about it:

    trusting   a job that says it is completed is (libvirt, oVirt and others work so)
    flushing   it has the disk flushed before it acts upon that
    hasty      a planted fault: it acts before the job is completed
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from block_jobs_disk import (
    BASE,
    BEFORE,
    COLD,
    COPY,
    HOT,
    JOB,
    MIDDLE,
    OPERATIONS,
    PHASE,
    PIECE,
    SNAPSHOT,
    STEPS,
    STRIDE,
    TOP,
    Record,
    check,
    create,
    place,
    record,
    sync_folder,
)
from growing_image import one_line, say
from storage_daemon import JobFailed, StorageDaemon


class Layer:
    """The management layer, its daemon, and the writer."""

    def __init__(self, folder: Path, cache: str, way: str, qemu: str) -> None:
        self.folder, self.cache, self.way = folder, cache, way
        self.daemon = StorageDaemon(folder, qemu)
        self.image = self.daemon.add(BASE, cache)
        self.writer = self.daemon.export(self.image)

    def write(self, first: int, last: int) -> None:
        """Operations, one after the other."""
        for number in range(first, last + 1):
            say(f"? {number}")
            self.writer.write(place(number), PIECE, number)
            self.writer.write(HOT, PIECE, number)
            self.writer.flush()
            say(f"+ {number}")

    def during(self) -> None:
        """Operations while the job copies piece by piece, and then stands."""
        for number in range(BEFORE + 1, JOB):
            if number <= BEFORE + STEPS:
                self.daemon.step()
            self.write(number, number)

    def end(self) -> None:
        """The job copies the rest at full speed, while something is written that is not synced.

        So what the job leaves is durable only if somebody syncs it after the job.
        """
        self.daemon.hurry()
        for number in range(PHASE):
            self.writer.write(COLD + number * STRIDE, PIECE, 250)
        self.daemon.wait("null")

    def create(self, file: str, backing: str | None = None) -> str:
        """A new image, durable with its name."""
        create(self.folder, file, backing)
        return file

    def snapshot(self, overlay: str) -> None:
        """From now on the disk is `overlay`, above what it was."""
        self.daemon.add(self.create(overlay, self.image), self.cache)
        # It is empty, so it is the disk as well as what lies below: the record may come first.
        self.record(overlay)
        self.daemon.command("blockdev-snapshot", node=self.image, overlay=overlay)
        self.image = overlay

    def record(self, image: str) -> None:
        """From now on this image is the disk, durably."""
        record(self.folder, Record(image, done=False))

    def done(self, image: str, *no_longer_needed: str) -> None:
        """Records, durably, that the job is done, and removes what the disk needs no more."""
        say(f"? {JOB}")
        record(self.folder, Record(image, done=True))
        for file in no_longer_needed:
            (self.folder / file).unlink()
        sync_folder(self.folder)
        say(f"+ {JOB}")

    def settled(self) -> None:
        """The job has said that it is completed."""
        if self.way == "flushing":
            self.writer.flush()


# --- the jobs --------------------------------------------------------------------------------


def mirror(layer: Layer, **more: str) -> None:
    """The disk moves to another image while it is written (blockdev-mirror, then the pivot)."""
    layer.daemon.add(layer.create(COPY), layer.cache)
    layer.daemon.start("blockdev-mirror", device=TOP, target=COPY, sync="full", **more)
    hand_over(layer, COPY, TOP, MIDDLE, BASE)


def mirror_blocking(layer: Layer) -> None:
    mirror(layer, copy_mode="write-blocking")


def commit_active(layer: Layer) -> None:
    """The whole chain goes down into its base, with what is written meanwhile."""
    layer.daemon.start("block-commit", device=TOP, base_node=BASE)
    hand_over(layer, BASE, TOP, MIDDLE)


def hand_over(layer: Layer, image: str, *old: str) -> None:
    """Up to the pivot, and the record of it: until then the old image is whole."""
    if layer.way == "hasty":
        layer.daemon.hurry()
        layer.daemon.wait("ready")
        layer.daemon.pause()
        layer.record(image)
        layer.write(BEFORE + 1, JOB - 1)
        layer.daemon.resume()
    else:
        layer.during()
        layer.daemon.hurry()
    layer.daemon.wait("ready")
    layer.daemon.complete()
    layer.daemon.wait("null")
    layer.settled()
    layer.done(image, *old)


def backup(layer: Layer) -> None:
    """A copy of the disk as it is now, while it is written."""
    layer.daemon.add(layer.create(COPY), layer.cache)
    layer.daemon.start("blockdev-backup", device=TOP, target=COPY, sync="full")
    if layer.way == "hasty":
        layer.done(TOP)
    layer.during()
    layer.end()
    layer.daemon.close(COPY)
    if layer.way != "hasty":
        layer.done(TOP)


def stream(layer: Layer) -> None:
    """What lies below comes up into the disk's image."""
    layer.daemon.start("block-stream", device=TOP)
    finish(layer, MIDDLE, BASE)


def commit(layer: Layer) -> None:
    """The image in the middle goes down into the base."""
    layer.daemon.start("block-commit", device=TOP, top_node=MIDDLE, base_node=BASE)
    finish(layer, MIDDLE)


def finish(layer: Layer, *old: str) -> None:
    """The job's end; `old` images are no part of the disk any more."""
    if layer.way == "hasty":
        layer.done(TOP, *old)
    layer.during()
    layer.end()
    layer.settled()
    if layer.way != "hasty":
        layer.done(TOP, *old)


def snapshot(layer: Layer) -> None:
    """One more external snapshot, by the command that makes its image itself."""
    layer.write(BEFORE + 1, BEFORE + PHASE)
    layer.daemon.command(
        "blockdev-snapshot-sync",
        node_name=TOP,
        snapshot_file=str(layer.folder / COPY),
        snapshot_node_name=COPY,
        format="qcow2",
    )
    layer.settled()
    if layer.way != "hasty":
        layer.done(COPY)
    layer.write(BEFORE + PHASE + 1, JOB - 1)
    if layer.way == "hasty":
        layer.done(COPY)


def internal_snapshot(layer: Layer) -> None:
    """A snapshot within the image."""
    if layer.way == "hasty":
        layer.done(TOP)
        layer.write(BEFORE + 1, JOB - 1)
    layer.daemon.command("blockdev-snapshot-internal-sync", device=TOP, name=SNAPSHOT)
    layer.settled()
    if layer.way != "hasty":
        layer.done(TOP)
        layer.write(BEFORE + 1, JOB - 1)


JOBS: dict[str, Callable[[Layer], None]] = {
    "mirror": mirror,
    "mirror-blocking": mirror_blocking,
    "commit": commit,
    "commit-active": commit_active,
    "backup": backup,
    "stream": stream,
    "snapshot": snapshot,
    "internal-snapshot": internal_snapshot,
}


def setup(_job: str, folder: Path) -> int:
    """Makes the disk, durably."""
    folder.mkdir(exist_ok=True)
    create(folder, BASE)
    record(folder, Record(BASE, done=False))
    os.sync()
    return 0


def run(job: str, folder: Path, cache: str, way: str, qemu: str) -> int:
    """Builds the chain and does the job, with writes before, during and after."""
    layer = Layer(folder, cache, way, qemu)
    say("atomic")
    say("ready")
    try:
        layer.write(1, PHASE)
        layer.snapshot(MIDDLE)
        layer.write(PHASE + 1, 2 * PHASE)
        layer.snapshot(TOP)
        layer.write(2 * PHASE + 1, BEFORE)
        JOBS[job](layer)
        layer.write(JOB + 1, OPERATIONS)
    except JobFailed as error:
        say(f"! {one_line(str(error))}")
        return 1
    finally:
        layer.writer.kill()
        layer.daemon.kill()
    return 0


def main(words: list[str]) -> int:
    """Settings, a verb, the folder."""
    settings = {"cache": "writeback", "way": "trusting", "qemu": "qemu-storage-daemon"}
    *given, verb, name = words
    settings |= dict(word.split("=", 1) for word in given)
    job, folder = settings["job"], Path(name).absolute()
    if job not in JOBS:
        sys.exit(f"job={job} is none of {', '.join(JOBS)}")
    if verb == "run":
        return run(job, folder, settings["cache"], settings["way"], settings["qemu"])
    return {"setup": setup, "check": check}[verb](job, folder)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
