# SPDX-License-Identifier: Apache-2.0
"""Reads logs of the kernel's dm-log-writes target and of QEMU's blklogwrites.

Where a log ends.  Its superblock counts entries, and is rewritten only now and then.

- The kernel rewrites it after each FUA write and each mark, once the entry is written.
  Entries beyond the count may belong to this run, or to an earlier run on the same log
  device, and nothing tells which; so reading stops at the count.  A log that ends with
  the mark "dm-log-writes-end" is whole.
- QEMU rewrites it before it reports a flush as done, and every 4096 entries by
  default.  After a kill, entries beyond the count are the newest ones, and are read,
  up to the first that is not valid.  A log file that was used twice breaks this; bytes
  behind the last entry give it away and are reported as a doubt.

An entry below the count that is not valid is damage, and names its number and offset.
There are no checksums: damage inside data, or one that makes another valid entry, is
not seen, but everything before it is read right.
"""

from __future__ import annotations

import array
from pathlib import Path

import numpy as np
import numpy.typing as npt

from powercut.mapped import mapped
from powercut.model.errors import DamagedRecording, HostError
from powercut.model.named_path import openable
from powercut_extras.logs.format import (
    ALL_FLAGS,
    END_MARK,
    ENTRY,
    MAGIC,
    SECTOR_SIZES,
    SUPERBLOCK,
    VERSION,
    Dialect,
    Flag,
    LogWrites,
)
from powercut_extras.logs.order import order_doubts

_BATCH = 1 << 15  # entries validated at once: 16 MiB of headers at 512 bytes
_KERNEL_ONLY = np.uint8(Flag.FUA | Flag.MARK | Flag.METADATA)


def read_log(
    path: Path,
    *,
    dialect: Dialect = Dialect.AUTO,
    disk_size: int,
    beyond_count: bool | None = None,
    salvage: bool = False,
    closed: bool = False,
    no_fua: bool = False,
) -> LogWrites:
    """Reads the log at `path` (a file or a block device) of a disk of `disk_size` bytes.

    `dialect` AUTO looks for what QEMU never writes: FUA, marks, metadata.  A kernel
    log without any of them has no superblock either, so the guess is never wrong about
    a log that one of the two has written.

    `beyond_count` says whether entries beyond the superblock's count are read; None is
    what fits the dialect.  `salvage` accepts a log with a damaged entry up to that
    entry, as an incomplete one.  Two things cannot be seen in a log of QEMU and are the
    caller's word: `closed`, that QEMU ended in order (it flushes each node when it closes
    it), and `no_fua`, that no write with FUA was sent to the disk (virtio-blk sends none
    while its write cache is on; with the cache off every write has it).

    Raises DamagedRecording, which names the entry and its byte offset, and HostError if
    the file cannot be read at all.
    """
    data = _map(path)
    sector_size, counted = _superblock(path, data, dialect)
    walker = _Walker(path, data, sector_size, disk_size)
    walker.walk(counted)
    if dialect is Dialect.AUTO:
        kernel = bool((walker.flags & _KERNEL_ONLY).any())
        dialect = Dialect.KERNEL if kernel else Dialect.QEMU
    whole = len(walker) == counted
    if not whole and not salvage:
        raise walker.damage(
            len(walker),
            f"the superblock counts {counted:,} entries",
            f"to go on with the {len(walker):,} entries before it, ask for salvage; "
            "the result counts as incomplete",
        )
    scanning = beyond_count if beyond_count is not None else dialect is Dialect.QEMU
    if whole and scanning:
        walker.walk(None)
    if dialect is Dialect.QEMU:
        _refuse_foreign(walker)
    complete, doubts = _ended(walker, dialect, counted)
    log = LogWrites(
        path=path,
        dialect=dialect,
        sector_size=sector_size,
        disk_size=disk_size,
        sector=walker.sector,
        nr_sectors=walker.nr_sectors,
        flags=walker.flags,
        position=walker.position,
        names=walker.names,
        data=data,
        counted=min(counted, len(walker)),
        complete=whole and complete,
        closed=closed,
        no_fua=no_fua,
        doubts=doubts,
    )
    return _with_doubts(log)


def _ended(walker: _Walker, dialect: Dialect, counted: int) -> tuple[bool, tuple[str, ...]]:
    """Whether what was read of the log ends as one that was closed, and what speaks against it."""
    entries = len(walker)
    if dialect is Dialect.KERNEL:
        return entries > 0 and walker.names.get(entries - 1) == END_MARK, ()
    rest = walker.bytes_behind()
    if rest is not None:
        return False, (
            f"bytes that are no entry stand behind the last one, at byte {rest:,}: a request "
            "was cut off, or the log file was used by an earlier run",
        )
    return entries == counted and entries > 0 and bool(walker.flags[-1] & Flag.FLUSH), ()


def _with_doubts(log: LogWrites) -> LogWrites:
    """Adds what the order of the entries leaves open."""
    doubts = order_doubts(log)
    if not doubts:
        return log
    values = {name: getattr(log, name) for name in log.__dataclass_fields__}
    return LogWrites(**{**values, "doubts": log.doubts + doubts})


def _map(path: Path) -> npt.NDArray[np.uint8]:
    """The file, mapped read-only."""
    try:
        content = mapped(openable(path))
    except OSError as error:
        raise HostError(
            f"cannot read the log {path}: {error.strerror}",
            hint="give the log file of blklogwrites, or the log device of dm-log-writes",
        ) from error
    if len(content):
        return content
    raise DamagedRecording(
        f"{path} is empty: no log was ever written to it",
        hint="with dm-log-writes check the order of the two devices: the log is the second; "
        "QEMU writes nothing until the first write of the guest",
    )


def _superblock(path: Path, data: npt.NDArray[np.uint8], dialect: Dialect) -> tuple[int, int]:
    """Sector size and number of entries."""
    start = bytes(data[: SUPERBLOCK.size])
    if len(start) < SUPERBLOCK.size:
        raise DamagedRecording(
            f"{path} has {len(data)} bytes, too few for a superblock",
            hint="the log was cut off, or this is another file",
        )
    magic, version, counted, sector_size = SUPERBLOCK.unpack(start)
    if magic != MAGIC:
        if not any(start) and dialect is Dialect.QEMU:
            return _size_without_superblock(path, data), 0
        what, hint = _looks_like(data)
        raise DamagedRecording(f"{path} is no dm-log-writes log: {what}", hint=hint)
    if version != VERSION:
        raise DamagedRecording(
            f"{path} is a log of version {version}; only version {VERSION} is known",
            hint="version 1 is all that the kernel and QEMU have ever written; is it damaged?",
        )
    if sector_size not in SECTOR_SIZES:
        raise DamagedRecording(
            f"{path}: the superblock gives sectors of {sector_size} bytes",
            hint="possible are " + ", ".join(map(str, SECTOR_SIZES)),
        )
    return sector_size, counted


def _size_without_superblock(path: Path, data: npt.NDArray[np.uint8]) -> int:
    """The sector size of a QEMU log whose superblock was never written: the first entry's place."""
    for size in SECTOR_SIZES:
        if data[size : size + ENTRY.size].any():
            return size
    raise DamagedRecording(
        f"{path} has neither a superblock nor a first entry",
        hint="nothing was logged: check that the guest's disk was the blklogwrites node",
    )


_SIGNATURES: tuple[tuple[int, bytes, str], ...] = (
    (0, MAGIC.to_bytes(8, "big"), "it is byte-swapped, from a big-endian tool"),
    (0, b"PCUTLOG1", "it is a disk log of powercut itself"),
    (0, b"QFI\xfb", "it is a qcow2 image"),
    (0, b"XFSB", "it holds an XFS file system"),
    (1080, b"\x53\xef", "it holds an ext2, ext3 or ext4 file system"),
    (65600, b"_BHRfS_M", "it holds a btrfs file system"),
    (0, b"\x1f\x8b", "it is compressed with gzip"),
    (0, b"\x28\xb5\x2f\xfd", "it is compressed with zstd"),
    (510, b"\x55\xaa", "it holds a partition table"),
)


def _looks_like(data: npt.NDArray[np.uint8]) -> tuple[str, str]:
    """What the file looks like, and what to do about it."""
    if not data[:512].any():
        return (
            "its first sector is zero",
            "either nothing was logged (wrong device?), or QEMU was killed before it wrote a "
            "superblock (it does so at a flush): then say that the dialect is qemu",
        )
    for at, signature, what in _SIGNATURES:
        if bytes(data[at : at + len(signature)]) == signature:
            hint = "give the log, not the disk; dm-log-writes takes DATA first, then LOG"
            if "compressed" in what:
                hint = "decompress it first"
            elif "powercut" in what:
                hint = "it needs no import: give its recording to powercut directly"
            return what, hint
    return (
        f"it begins with {bytes(data[:8]).hex(' ')}",
        "a log begins with 72 68 73 77 66 73 6a 00",
    )


class _Walker:
    """Follows the chain of entries, and validates them a batch at a time.

    The chain is followed one entry after the other, since each entry says where the
    next one is; that touches one page per entry and skips the data.  Everything else
    is done for a batch at once.
    """

    def __init__(
        self, path: Path, data: npt.NDArray[np.uint8], sector_size: int, disk_size: int
    ) -> None:
        self._path = path
        self._data = data
        self._size = sector_size
        self._disk_sectors = disk_size // sector_size
        whole = len(data) // sector_size
        self._rows = data[: whole * sector_size].view("<u8").reshape(whole, sector_size // 8)
        self._next = sector_size
        self.names: dict[int, str] = {}
        self.position: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self.sector: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self.nr_sectors: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self.flags: npt.NDArray[np.uint8] = np.empty(0, np.uint8)

    def __len__(self) -> int:
        return len(self.flags)

    def walk(self, until: int | None) -> None:
        """Appends valid entries until there are `until` of them, or no further one."""
        batches: list[npt.NDArray[np.int64]] = []
        fields: list[npt.NDArray[np.int64]] = []
        flags: list[npt.NDArray[np.uint8]] = []
        count = len(self)
        while until is None or count < until:
            limit = _BATCH if until is None else min(_BATCH, until - count)
            positions, self._next = self._chain(self._next, limit)
            good = self._valid_prefix(positions, count)
            header = self._rows[positions[:good] // self._size, :3].astype(np.int64)
            batches.append(positions[:good])
            fields.append(header[:, :2])
            flags.append(header[:, 2].astype(np.uint8))
            count += good
            if good < len(positions):
                self._next = int(positions[good])
                break
            if good < limit:
                break
        if not batches:
            return
        self.position = np.concatenate([self.position, *batches])
        self.sector = np.concatenate([self.sector, *(field[:, 0] for field in fields)])
        self.nr_sectors = np.concatenate([self.nr_sectors, *(field[:, 1] for field in fields)])
        self.flags = np.concatenate([self.flags, *flags])

    def _chain(self, start: int, limit: int) -> tuple[npt.NDArray[np.int64], int]:
        """Positions of up to `limit` entries from `start`, and where the next one would be."""
        size = self._size
        unpack = ENTRY.unpack_from
        view = self._data.data
        last = len(self._data) - size
        discard = int(Flag.DISCARD)  # a Flag is ten times slower
        found = array.array("q")
        at = start
        for _ in range(limit):
            if at > last:
                break
            _, sectors, flags, _ = unpack(view, at)
            if not (flags or sectors):
                break
            found.append(at)
            at += size if flags & discard else size + sectors * size
        return np.frombuffer(found, np.int64).copy(), at

    def _valid_prefix(self, positions: npt.NDArray[np.int64], first: int) -> int:
        """How many of the entries at `positions`, from the first, are valid; names their marks."""
        if not len(positions):
            return 0
        rows = self._rows[positions // self._size]
        sector, sectors, flags, data_len = (rows[:, column] for column in range(4))
        mark = flags == Flag.MARK
        discard = (flags & np.uint64(Flag.DISCARD)) != 0
        big = np.uint64(self._disk_sectors)
        bad = flags > ALL_FLAGS
        bad |= ((flags & np.uint64(Flag.MARK)) != 0) & ~mark
        bad |= discard & ((flags & np.uint64(Flag.FLUSH | Flag.FUA)) != 0)
        bad |= (sectors == 0) & ((flags & np.uint64(Flag.FLUSH | Flag.MARK)) == 0)
        bad |= mark & ((sectors != 0) | (data_len > self._size - ENTRY.size))
        bad |= (sectors > big) | ((sectors > 0) & (sector > big - np.minimum(sectors, big)))
        # An entry's data_len is for marks; old kernels give the length of DAX writes in it, too.
        bad |= ~mark & (data_len != 0) & (data_len != sectors * np.uint64(self._size))
        bad |= ~mark & rows[:, 4:].any(axis=1)
        data_sectors = np.where(discard, 0, np.minimum(sectors, big)).astype(np.int64)
        bad |= positions + (data_sectors + 1) * self._size > len(self._data)
        good = int(np.argmax(bad)) if bad.any() else len(positions)
        for index in np.flatnonzero(mark[:good]):
            name = self._name(int(positions[index]), int(data_len[index]))
            if name is None:
                good = int(index)
                break
            self.names[first + int(index)] = name
        return good

    def _name(self, at: int, length: int) -> str | None:
        """The name of the mark at `at`, or None if something follows it in its sector."""
        raw = bytes(self._data[at + ENTRY.size : at + self._size])
        if raw[length:].strip(b"\0"):
            return None
        return raw[:length].rstrip(b"\0").decode("utf-8", "backslashreplace")

    def bytes_behind(self) -> int | None:
        """Offset of the first byte behind the last entry that is not zero."""
        step = 1 << 22
        for start in range(self._next, len(self._data), step):
            hits = np.flatnonzero(self._data[start : start + step])
            if len(hits):
                return start + int(hits[0])
        return None

    def damage(self, entry: int, context: str, hint: str) -> DamagedRecording:
        """The error for entry number `entry`, at which the walk stopped."""
        at = self._next
        return DamagedRecording(
            f"{self._path}: entry {entry:,} at byte {at:,} {self._fault(at)}; {context}",
            hint=hint,
        )

    def _fault(self, at: int) -> str:
        """What is wrong with the entry at `at`."""
        size = self._size
        if at + size > len(self._data):
            return f"is missing: the file ends at byte {len(self._data):,}"
        sector, sectors, flags, data_len = ENTRY.unpack_from(self._data.data, at)
        if not (flags or sectors):
            return "is empty: it was never written"
        if flags > ALL_FLAGS:
            return f"has unknown flags {flags:#x}"
        if sectors and sector + sectors > self._disk_sectors:
            return (
                f"lies outside of the disk: sectors {sector:,} to {sector + sectors:,} "
                f"of {self._disk_sectors:,}"
            )
        if not flags & (Flag.DISCARD | Flag.MARK) and at + size + sectors * size > len(self._data):
            return f"is cut off: its data would end at byte {at + size + sectors * size:,}"
        return f"is no valid entry (flags {flags:#x}, {sectors:,} sectors, data_len {data_len:,})"


def _refuse_foreign(walker: _Walker) -> None:
    """Refuses what QEMU cannot have written."""
    flags = walker.flags
    odd = (flags & _KERNEL_ONLY) != 0
    odd |= ((flags & np.uint8(Flag.FLUSH)) != 0) & (walker.nr_sectors > 0)
    if odd.any():
        entry = int(np.argmax(odd))
        raise DamagedRecording(
            f"entry {entry:,} at byte {int(walker.position[entry]):,} has flags "
            f"{int(flags[entry]):#x}, which QEMU never writes",
            hint="read this log as one of the kernel's dialect",
        )
