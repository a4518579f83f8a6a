# SPDX-License-Identifier: Apache-2.0
"""Sequences of calls that ext4 and XFS lost, from xfstests and the kernel's changelog.

Those of fast commits need a file system with that feature: a full commit loses none of them.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct

from known_cases import KEEP_SIZE, KIB, PUNCH_HOLE, Promises, Tree, known

FAST_COMMIT = ("range-zeroed", "new-file-punched", "extents-moved", "format-migrated")
ZERO_RANGE = 16  # linux/falloc.h
DIRECT = os.O_DIRECT
GETFLAGS, SETFLAGS, EXTENTS = 0x80086601, 0x40086602, 0x80000  # linux/fs.h
MOVE_EXTENTS = 0xC028660F  # EXT4_IOC_MOVE_EXT of fs/ext4/ext4.h
GEOMETRY, GROW = 0x8100587E, 0x4010586E  # XFS_IOC_FSGEOMETRY, XFS_IOC_FSGROWFSDATA of xfs_fs.h


def zero_range(tree: Tree, name: str, offset: int, length: int) -> None:
    tree.fallocate(name, ZERO_RANGE, offset, length)


def move_extents(fd: int, donor: int, length: int) -> None:
    """Exchanges the blocks of two files and leaves the bytes of the first as they are."""
    blocks = length // os.fstatvfs(fd).f_bsize
    fcntl.ioctl(fd, MOVE_EXTENTS, struct.pack("=iIQQQQ", 0, donor, 0, 0, blocks, 0))


def map_by_extents(fd: int, wanted: bool) -> None:
    """chattr +e, or -e: the file's blocks are found by extents, or by indirect blocks."""
    (flags,) = struct.unpack("=i", fcntl.ioctl(fd, GETFLAGS, bytes(4)))
    flags = flags | EXTENTS if wanted else flags & ~EXTENTS
    fcntl.ioctl(fd, SETFLAGS, struct.pack("=i", flags))


def grow(tree: Tree) -> None:
    """XFS: the file system gets twice its blocks."""
    fd = tree.open("")
    geometry = fcntl.ioctl(fd, GEOMETRY, bytes(256))
    percent, blocks = struct.unpack_from("=IQ", geometry, 28)  # imaxpct, datablocks
    fcntl.ioctl(fd, GROW, struct.pack("=QIxxxx", blocks * 2, percent))


def _zeroed_promises(tree: Tree) -> Promises:
    wanted = b"\xab" * 16 * KIB + b"\0" * 16 * KIB + b"\xab" * 32 * KIB
    yield "foo has the zeroes that were synced", tree.content("foo") == wanted


@known("range-zeroed", "changelog", "5e4d0eba1cca, fix of 2021-12", _zeroed_promises)
def _range_zeroed(tree: Tree) -> None:
    tree.write("foo", b"\xab" * 64 * KIB)
    tree.commit_all()
    zero_range(tree, "foo", 16 * KIB, 16 * KIB)
    tree.fsync("foo")


def _punched_promises(tree: Tree) -> Promises:
    wanted = b"\xab" * 300 * KIB + b"\0" * 300 * KIB + b"\xab" * 400 * KIB
    yield "foo has the hole that was synced", tree.content("foo") == wanted
    yield "bar is there", tree.content("bar") == b""


@known("new-file-punched", "changelog", "0b5b5a62b945, fix of 2021-12", _punched_promises)
def _new_file_punched(tree: Tree) -> None:
    tree.write("foo", b"\xab" * 1000 * KIB)
    zero_range(tree, "foo", 400 * KIB, 200 * KIB)
    tree.write("bar")
    tree.fsync("bar")
    tree.fallocate("foo", PUNCH_HOLE | KEEP_SIZE, 300 * KIB, 200 * KIB)
    tree.fsync("foo")


def _inline_promises(tree: Tree) -> Promises:
    yield "foo has what was synced", tree.content("foo") == b"new"


@known("written-in-the-inode", "changelog", "6c31a689b2e9, fix of 2021-09", _inline_promises)
def _written_in_the_inode(tree: Tree) -> None:
    tree.write("foo", b"old")
    tree.commit_all()
    tree.write("foo", b"new")
    tree.fsync("foo")


def _moved_promises(tree: Tree) -> Promises:
    wanted = b"\xab" * 4 * KIB + b"\xef" * 4 * KIB + b"\xab" * 8 * KIB
    yield "foo has what was synced", tree.content("foo") == wanted


@known("extents-moved", "changelog", "690558921d9f, fix of 2026-01", _moved_promises)
def _extents_moved(tree: Tree) -> None:
    """What defragmentation does: foo gets the blocks of another file, and its bytes stay."""
    tree.write("foo", b"\xab" * 16 * KIB)
    tree.write("donor", b"\xcd" * 16 * KIB)
    tree.commit_all()
    move_extents(tree.open("foo", os.O_RDWR), tree.open("donor", os.O_RDWR), 16 * KIB)
    tree.write("foo", b"\xef" * 4 * KIB, 4 * KIB)
    tree.fsync("foo")


def _migrated_promises(tree: Tree) -> Promises:
    yield "foo has what was durable before", tree.content("foo") == b"\xab" * 8 * KIB


@known("format-migrated", "changelog", "87e79fa122bc, fix of 2026-01", _migrated_promises)
def _format_migrated(tree: Tree) -> None:
    """What `chattr -e` and `chattr +e` do: the map of the file's blocks gets another format."""
    tree.write("foo", b"\xab" * 8 * KIB)
    tree.commit_all()
    fd = tree.open("foo", os.O_RDWR)
    map_by_extents(fd, False)
    tree.commit_all()
    map_by_extents(fd, True)
    os.fsync(fd)


def _direct_promises(tree: Tree) -> Promises:
    yield "foo has what was written", tree.content("foo") == b"\xab" * 1024 * KIB


@known("direct-and-synced", "generic/737", "91562895f803, test of 2023-10", _direct_promises)
def _direct_and_synced(tree: Tree) -> None:
    fd = tree.open("foo", os.O_CREAT | os.O_WRONLY | os.O_SYNC | DIRECT)
    with mmap.mmap(-1, 1024 * KIB) as aligned:
        aligned.write(b"\xab" * 1024 * KIB)
        if os.pwrite(fd, aligned, 0) != 1024 * KIB:
            raise OSError("a direct write was cut short")


NEW_FOLDERS = 16  # each goes to the next allocation group


def _grown_promises(tree: Tree) -> Promises:
    names = {f"d{number}" for number in range(NEW_FOLDERS)}
    yield "every new folder is there", tree.names("") == names
    there = [tree.content(f"{name}/foo") == b"\xab" * 4 * KIB for name in sorted(names)]
    yield "each has the file that was synced", all(there)


@known("grown-and-used", "xfs/609", "6a18765b54e2, test of 2024-10", _grown_promises)
def _grown_and_used(tree: Tree) -> None:
    """Grows the file system to twice its size and uses the new allocation groups at once."""
    grow(tree)
    for number in range(NEW_FOLDERS):
        tree.mkdir(f"d{number}")
        tree.write(f"d{number}/foo", b"\xab" * 4 * KIB)
        tree.fsync(f"d{number}/foo")
