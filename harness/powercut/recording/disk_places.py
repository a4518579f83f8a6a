# SPDX-License-Identifier: Apache-2.0
"""What lies where on a disk: journal, superblocks, inodes, trees.  Names parts of writes.

Structures are known by their place (from the superblock of the base image) and by their
magic numbers.  Sources, Linux 6.1: fs/xfs/libxfs/xfs_format.h, xfs_da_format.h and
xfs_log_format.h (big-endian); fs/ext4/ext4.h, ext4_extents.h and include/linux/jbd2.h;
include/uapi/linux/btrfs_tree.h and fs/btrfs/ctree.h; include/linux/f2fs_fs.h.  What has neither
a place nor a magic number is file data, or something that only the file system's own tools can
name.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final, Literal, Protocol

FilesystemName = Literal["", "xfs", "ext4", "btrfs", "f2fs"]

UNKNOWN: Final = "file data or a directory"
_SECTOR: Final = 512
_REGIONS_MAX: Final = 1 << 18  # of a superblock that makes no sense; 8 TiB have 196,608
_NODES_MAX: Final = 4096
_LOG_BLOCK_MAX: Final = 16

_XFS_MAGICS: Final = {
    b"XFSB": "superblock",
    b"XAGF": "free space of an allocation group (AGF)",
    b"XAGI": "inodes of an allocation group (AGI)",
    b"XAFL": "free list of an allocation group (AGFL)",
    b"ABTB": "free space tree, by block",
    b"AB3B": "free space tree, by block",
    b"ABTC": "free space tree, by size",
    b"AB3C": "free space tree, by size",
    b"IABT": "inode tree",
    b"IAB3": "inode tree",
    b"FIBT": "free inode tree",
    b"FIB3": "free inode tree",
    b"RMB3": "reverse mapping tree",
    b"R3FC": "reference count tree",
    b"BMAP": "extent map of a file",
    b"BMA3": "extent map of a file",
    b"XD2B": "directory block",
    b"XDB3": "directory block",
    b"XD2D": "directory data",
    b"XDD3": "directory data",
    b"XD2F": "directory free index",
    b"XDF3": "directory free index",
    b"XSLM": "symbolic link",
}
_XFS_LOG_RECORD: Final = b"\xfe\xed\xba\xbe"
_XFS_INODE: Final = b"IN"
_JBD2_MAGIC: Final = 0xC03B3998
_JBD2_BLOCKS: Final = {
    1: "descriptor", 2: "commit", 3: "superblock", 4: "superblock", 5: "revocation",
}  # fmt: skip
_EXT4_EXTENTS: Final = 0xF30A
_BTRFS_SUPER: Final = 64 << 10
_BTRFS_MAGIC: Final = b"_BHRfS_M"
_BTRFS_OWNERS: Final = {
    1: "root tree", 2: "extent tree", 3: "chunk tree", 4: "device tree", 5: "file system tree",
    7: "checksum tree", 9: "UUID tree", 10: "free space tree",
    2**64 - 6: "log tree (fsync)",
}  # fmt: skip
_F2FS_MAGIC: Final = b"\x10\x20\xf5\xf2"
_F2FS_AREAS: Final = (
    "checkpoint",
    "segment table (SIT)",
    "node addresses (NAT)",
    "summaries (SSA)",
)


@dataclass(frozen=True)
class Part:
    """The bytes `begin` to `end` - 1 of the disk hold `what`; of a file those from `at` on."""

    begin: int
    end: int
    what: str
    at: int | None = None

    @property
    def next_at(self) -> int | None:
        """Where in the file the bytes lie that follow."""
        return None if self.at is None else self.at + self.end - self.begin

    def within(self, begin: int, end: int) -> Part:
        """The part of it between two places of the disk; empty if they do not meet."""
        low, high = max(begin, self.begin), min(end, self.end)
        at = None if self.at is None else self.at + low - self.begin
        return Part(low, high, self.what, at)

    def __str__(self) -> str:
        return (
            self.what if self.at is None else f"{self.what}, bytes {self.at:,} to {self.next_at:,}"
        )


class NamesWrites(Protocol):
    """Says what lies where on the disk."""

    def parts(self, offset: int, payload: bytes) -> list[Part]:
        """What the write of `payload` at `offset` (bytes) holds, in order."""


class Places:
    """Names what a write to a disk with this base image changes.

    `regions` are the places known in advance, as (begin, end, what) in bytes; `unknown` is
    what everything else is called.
    """

    def __init__(
        self,
        filesystem: str,
        regions: list[Part],
        *,
        fsid: bytes = b"",
        unknown: str = UNKNOWN,
    ) -> None:
        self.filesystem = filesystem
        self._regions = sorted(regions, key=lambda part: part.begin)
        self._begins = [part.begin for part in self._regions]
        self._fsid = fsid
        self._unknown = unknown

    def parts(self, offset: int, payload: bytes) -> list[Part]:
        """What the write of `payload` at `offset` holds, in order, neighbours merged."""
        places: list[Part] = []
        for begin in range(0, len(payload), _SECTOR):
            sector = payload[begin : begin + _SECTOR]
            what = self._name(offset + begin, sector.ljust(_SECTOR, b"\0"))
            if what is None:  # nothing of its own: it belongs to what stands before it
                what = places[-1].what if places else self._unknown
            if places and places[-1].what == what:
                places[-1] = Part(places[-1].begin, offset + begin + len(sector), what)
            else:
                places.append(Part(offset + begin, offset + begin + len(sector), what))
        return places

    def _name(self, at: int, sector: bytes) -> str | None:
        region = self._region(at)
        match self.filesystem:
            case "xfs":
                return _xfs(region, sector)
            case "ext4":
                return _ext4(region, sector)
            case "btrfs":
                return self._btrfs(region, sector)
            case "f2fs":
                return region or None
        return self._unknown

    def _region(self, at: int) -> str:
        index = bisect_right(self._begins, at) - 1
        if index >= 0 and at < self._regions[index].end:
            return self._regions[index].what
        return ""

    def _btrfs(self, region: str, sector: bytes) -> str | None:
        if region:
            return region
        if len(sector) >= 101 and sector[32:48] == self._fsid:
            (owner,) = struct.unpack_from("<Q", sector, 88)
            name = _BTRFS_OWNERS.get(owner, f"tree {owner}")
            return f"{name}, level {sector[100]}"
        return None


def _xfs(region: str, sector: bytes) -> str | None:
    if region:
        if sector[:4] == _XFS_LOG_RECORD:
            (cycle,) = struct.unpack_from(">I", sector, 4)
            (block,) = struct.unpack_from(">I", sector, 20)
            return f"{region} (record {cycle}:{block})"
        return None if any(sector) else f"{region} (zeroes)"
    if sector[:4] in _XFS_MAGICS:
        return _XFS_MAGICS[sector[:4]]
    return "inodes" if sector[:2] == _XFS_INODE else None


def _ext4(region: str, sector: bytes) -> str | None:
    if region == "journal":
        magic, kind, number = struct.unpack_from(">III", sector)
        if magic == _JBD2_MAGIC and kind in _JBD2_BLOCKS:
            return f"journal ({_JBD2_BLOCKS[kind]} of transaction {number})"
        return None
    if region:
        return region
    (magic,) = struct.unpack_from("<H", sector)
    return "extent map of a file" if magic == _EXT4_EXTENTS else None


# --- from the base image --------------------------------------------------------------


def filesystem_of(image: Path, begin: int = 0) -> FilesystemName:
    """The file system in `image` from byte `begin` on: xfs, ext4, btrfs, f2fs, or empty for none.

    Raises HostError's cause, an OSError, if it cannot be read.
    """
    with image.open("rb") as file:
        file.seek(begin)
        head = file.read(_BTRFS_SUPER + 4096)
    if head[:4] == b"XFSB":
        return "xfs"
    if head[1080:1082] == b"\x53\xef":
        return "ext4"
    if head[_BTRFS_SUPER + 64 : _BTRFS_SUPER + 72] == _BTRFS_MAGIC:
        return "btrfs"
    if head[1024:1028] == _F2FS_MAGIC:
        return "f2fs"
    return ""


def places_of(image: Path, begin: int = 0) -> Places:
    """The places of the file system in `image` from byte `begin` on, which must not be mounted.

    They are counted from there.

    A superblock that makes no sense gives fewer names, never an error.
    """
    filesystem = filesystem_of(image, begin)
    regions: list[Part] = []
    fsid = b""
    with image.open("rb") as file:
        size = file.seek(0, 2) - begin

        def read(offset: int, length: int) -> bytes:
            if offset > size:
                raise ValueError("beyond the end of the disk")
            file.seek(begin + offset)
            return file.read(length).ljust(length, b"\0")

        try:
            match filesystem:
                case "xfs":
                    regions = [_xfs_log(read(0, _SECTOR))]
                case "ext4":
                    regions = list(islice(_Ext4(read, size).regions(), _REGIONS_MAX))
                case "btrfs":
                    fsid = read(_BTRFS_SUPER + 32, 16)
                    regions = [
                        Part(at, at + 4096, "superblock")
                        for at in (_BTRFS_SUPER, 64 << 20, 256 << 30)
                    ]
                case "f2fs":
                    regions = list(_f2fs_areas(read(1024, 96)))
        except (struct.error, ValueError, OverflowError):
            regions = []
    return Places(filesystem, regions, fsid=fsid)


def _xfs_log(superblock: bytes) -> Part:
    """The internal log; sb_logstart is an AG number above sb_agblklog bits of block."""
    (block_size,) = struct.unpack_from(">I", superblock, 4)
    (start,) = struct.unpack_from(">Q", superblock, 48)
    (group_blocks,) = struct.unpack_from(">I", superblock, 84)
    (blocks,) = struct.unpack_from(">I", superblock, 96)
    bits = superblock[124]
    group, within = start >> bits, start & ((1 << bits) - 1)
    begin = (group * group_blocks + within) * block_size
    return Part(begin, begin + blocks * block_size, "journal")


def _f2fs_areas(superblock: bytes) -> Iterator[Part]:
    """The areas before the main one, where file data and nodes lie: struct f2fs_super_block."""
    (log_block_size,) = struct.unpack_from("<I", superblock, 16)
    if log_block_size > _LOG_BLOCK_MAX:
        raise ValueError("no superblock of f2fs")
    begins = struct.unpack_from("<5I", superblock, 76)
    yield Part(0, 2 << log_block_size, "superblock")
    for what, begin, end in zip(_F2FS_AREAS, begins, begins[1:], strict=False):
        yield Part(begin << log_block_size, end << log_block_size, what)


class _Ext4:
    """Group descriptors, bitmaps, inode tables and the journal, from superblock and inode 8."""

    def __init__(self, read: object, size: int) -> None:
        assert callable(read)
        self.read = read
        self.size = size
        sb = read(1024, 1024)
        (log_block,) = struct.unpack_from("<I", sb, 24)
        self.block = 1024 << min(log_block, _LOG_BLOCK_MAX)
        self.nodes = 0
        (self.blocks,) = struct.unpack_from("<I", sb, 4)
        (self.first,) = struct.unpack_from("<I", sb, 20)
        (self.per_group,) = struct.unpack_from("<I", sb, 32)
        (self.inodes,) = struct.unpack_from("<I", sb, 40)
        (self.inode_size,) = struct.unpack_from("<H", sb, 88)
        (incompatible,) = struct.unpack_from("<I", sb, 96)
        (self.journal,) = struct.unpack_from("<I", sb, 224)
        (descriptor,) = struct.unpack_from("<H", sb, 254)
        self.descriptor = descriptor if incompatible & 0x80 else 32
        if not self.per_group or not self.inodes or not self.descriptor or self.block > 65536:
            raise ValueError("no superblock of ext4")

    def regions(self) -> Iterator[Part]:
        groups = -(-(self.blocks - self.first) // self.per_group)
        table = -(-self.inodes * self.inode_size // self.block)
        start = (self.first + 1) * self.block
        yield Part(1024, 2048, "superblock")
        yield Part(start, start + groups * self.descriptor, "group descriptors")
        for group in range(groups):
            bitmap, inodes, first = self._group(group)
            yield self._part(bitmap, 1, f"block bitmap of group {group}")
            yield self._part(inodes, 1, f"inode bitmap of group {group}")
            yield self._part(first, table, "inodes")
        yield from self._journal()

    def _part(self, block: int, count: int, what: str) -> Part:
        return Part(block * self.block, (block + count) * self.block, what)

    def _group(self, group: int) -> tuple[int, int, int]:
        at = (self.first + 1) * self.block + group * self.descriptor
        raw = self.read(at, self.descriptor)
        low = struct.unpack_from("<III", raw)
        high = struct.unpack_from("<III", raw, 32) if self.descriptor >= 64 else (0, 0, 0)
        bitmap, inodes, table = (low[i] | high[i] << 32 for i in range(3))
        return bitmap, inodes, table

    def _journal(self) -> Iterator[Part]:
        if not self.journal:
            return
        group, index = divmod(self.journal - 1, self.inodes)
        at = self._group(group)[2] * self.block + index * self.inode_size
        yield from self._extents(self.read(at, self.inode_size)[40:100], 5)

    def _extents(self, node: bytes, levels: int) -> Iterator[Part]:
        self.nodes += 1
        if self.nodes > _NODES_MAX:
            raise ValueError("a journal of more extents than there are blocks in one")
        magic, entries, _, depth = struct.unpack_from("<HHHH", node)
        if magic != _EXT4_EXTENTS or levels == 0:
            return
        for entry in range(entries):
            at = 12 + 12 * entry
            if depth:
                low, high = struct.unpack_from("<IH", node, at + 4)
                block = self.read((low | high << 32) * self.block, self.block)
                yield from self._extents(block, levels - 1)
            else:
                length, high, low = struct.unpack_from("<HHI", node, at + 4)
                yield self._part(low | high << 32, length, "journal")
