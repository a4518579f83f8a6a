# SPDX-License-Identifier: Apache-2.0
"""A file system with a journal of whole blocks, as jbd2 keeps one, and its known bugs.

Operation N writes N into data block N mod `_DATA`, and N into the inode of that block: both are of
one transaction.  A transaction in the journal is a descriptor, the blocks, and a commit block;
recovery replays those from the tail on whose commit block is there.  Data are written in place
before the commit (data=ordered).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from zlib import crc32

from bench.known_bugs.case import Case, Contradiction, entry, read_entry
from bench.known_bugs.disks import BLOCK, Blocks, Disk
from powercut.model.contract import DeviceContract

_OPERATIONS: Final = 72
_DATA: Final = 8
_SUPER, _INODES, _FIRST_DATA, _JOURNAL = 0, 1, 9, 17
_SLOTS: Final = 12
"""Transactions that the journal has room for, each of three blocks."""

_CHECKPOINT: Final = 6


@dataclass(frozen=True)
class _Rules:
    """What the journal does; all of it is what today's does."""

    flush_before_commit: bool = True
    checksum: bool = True
    flush_after_commit: bool = True
    flush_at_checkpoint: bool = True
    tail_at_once: bool = True
    data_flushed: bool = True
    slots: int = _SLOTS


class _Journal:
    def __init__(self, rules: _Rules) -> None:
        self.rules = rules
        self.disk = Disk(_JOURNAL + 3 * _SLOTS)
        self.disk.format(_SUPER, entry(1, 512))
        for at in range(_DATA):
            self.disk.format(_INODES + at, entry(0, BLOCK))
            self.disk.format(_FIRST_DATA + at, entry(0, BLOCK))
        self._not_in_place: list[int] = []

    def run(self) -> Case:
        for operation in range(1, _OPERATIONS + 1):
            self.disk.try_(operation)
            self._commit(operation)
            self.disk.ack(operation)
            self._not_in_place.append(operation)
            if operation % _CHECKPOINT == 0:
                self._checkpoint(operation)
        return self.disk.case(lambda image: _recover(image, self.rules.slots))

    def _commit(self, number: int) -> None:
        disk, rules = self.disk, self.rules
        block = entry(number, BLOCK)
        disk.write(_FIRST_DATA + number % _DATA, block)
        if rules.data_flushed and not rules.flush_before_commit:
            disk.flush()
        slot = _JOURNAL + 3 * (number % rules.slots)
        commit = b"CMIT" + number.to_bytes(4, "little")
        commit += (crc32(block) if rules.checksum else 0).to_bytes(4, "little")
        blocks = [(slot, b"DESC" + number.to_bytes(4, "little").ljust(BLOCK - 4, b"\0"))]
        blocks.append((slot + 1, block))
        if rules.flush_before_commit:
            disk.together(blocks)
            disk.flush()
            disk.write(slot + 2, commit.ljust(BLOCK, b"\0"))
        else:
            disk.together([*blocks, (slot + 2, commit.ljust(BLOCK, b"\0"))])
        if rules.flush_after_commit:
            disk.flush()

    def _checkpoint(self, newest: int) -> None:
        """Inodes go to their places; then the journal forgets the transactions."""
        disk, rules = self.disk, self.rules
        places = {number % _DATA: number for number in self._not_in_place}
        disk.together((_INODES + at, entry(number, BLOCK)) for at, number in places.items())
        if rules.flush_at_checkpoint:
            disk.flush()
        disk.write(_SUPER, entry(newest + 1, 512).ljust(BLOCK, b"\0"), fua=rules.tail_at_once)
        self._not_in_place = []


def _recover(image: Blocks, slots: int) -> set[int]:
    """Replays the journal, and compares inodes with data."""
    tail = read_entry(image[_SUPER][:512])
    if tail is None:
        raise Contradiction("the journal's superblock cannot be read")
    inodes = {at: image[_INODES + at] for at in range(_DATA)}
    number = tail
    while (block := _replayed(image, number, slots)) is not None:
        inodes[number % _DATA] = block
        number += 1
    found = set()
    for at, inode in inodes.items():
        size, data = read_entry(inode), read_entry(image[_FIRST_DATA + at])
        if size is None:
            raise Contradiction(f"inode {at} is garbage")
        if data is None or data < size:
            raise Contradiction(f"file {at} shows stale data")
        found |= set(range(size % _DATA or _DATA, size + 1, _DATA))
    return found


def _replayed(image: Blocks, number: int, slots: int) -> bytes | None:
    """The block of transaction `number`, if its commit block says that it is there."""
    slot = _JOURNAL + 3 * (number % slots)
    descriptor, block, commit = (image[slot + at] for at in range(3))
    name = number.to_bytes(4, "little")
    if commit[:8] != b"CMIT" + name or descriptor[:8] != b"DESC" + name:
        return None
    said = int.from_bytes(commit[8:12], "little")
    return block if said in (0, crc32(block)) else None


def no_barrier(faulty: bool) -> Case:
    """barrier=0: no flush anywhere, and commit blocks have no checksum."""
    honest = _Rules(checksum=False)
    return _Journal(_Rules(False, False, False, False, False) if faulty else honest).run()


def commit_not_ordered(faulty: bool) -> Case:
    """The commit block is sent with the blocks of its transaction, without a checksum."""
    return _Journal(_Rules(flush_before_commit=not faulty, checksum=False)).run()


def async_commit(faulty: bool) -> Case:
    """journal_async_commit with data=ordered: one flush after the commit block covers all."""
    return _Journal(_Rules(flush_before_commit=False, data_flushed=not faulty)).run()


def tail_in_cache(faulty: bool) -> Case:
    """The log's tail is advanced without FUA: the room is used again before it is durable.  The
    journal has no checksums, and is full when it is checkpointed.
    """
    rules = _Rules(checksum=False, tail_at_once=not faulty, slots=_CHECKPOINT)
    return _Journal(rules).run()


def checkpoint_not_flushed(faulty: bool) -> Case:
    """Transactions are forgotten before what they changed is durable in its place."""
    return _Journal(_Rules(flush_at_checkpoint=not faulty)).run()


def fsync_without_flush(faulty: bool) -> Case:
    """fsync finds the transaction committed, and does not flush the disk's cache."""
    return _Journal(_Rules(flush_after_commit=not faulty)).run()


def torn_superblock(faulty: bool) -> Case:
    """A superblock of 1 KiB under one checksum, written in place on a disk with 512-byte blocks."""
    size = 1024
    disk = Disk(64, DeviceContract(atomic_unit=512 if faulty else BLOCK))
    disk.format(0, entry(0, size))
    for operation in disk.operations(_OPERATIONS):
        disk.write(1 + operation % 63, entry(operation, BLOCK))
        disk.flush()
        if operation % 24 == 0:
            disk.write(0, entry(operation, size))
            disk.flush()

    def check(image: Blocks) -> set[int]:
        if read_entry(image[0][:size]) is None:
            raise Contradiction("invalid superblock checksum")
        kept = {read_entry(image[at]) for at in range(1, 64)}
        newest = max(one for one in kept if one is not None) if kept != {None} else 0
        return set(range(1, newest - 62)) | {one for one in kept if one is not None}

    return disk.case(check)
