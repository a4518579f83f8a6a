# SPDX-License-Identifier: Apache-2.0
"""Sequences of calls that broke a promise in some kernel, from xfstests and the kernel's changelog.

Each case says what its last sync promises, by the rules of docs/file-system-promises.md: a file
that was synced has its content and its names, a folder that was synced has its entries, what was
removed before the sync is gone, and what was durable before is somewhere.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

KEEP_SIZE, PUNCH_HOLE = 1, 2  # linux/falloc.h
LIBC = ctypes.CDLL(None, use_errno=True)
KIB = 1024


class Tree:
    """The folder of one turn: calls by names that are relative to it."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self._open: list[int] = []

    def path(self, name: str) -> Path:
        return self.top / name if name else self.top

    def open(self, name: str, flags: int = os.O_RDONLY) -> int:
        """Stays open until the turn is over."""
        self._open.append(os.open(self.path(name), flags, 0o644))
        return self._open[-1]

    def close(self) -> None:
        while self._open:
            os.close(self._open.pop())

    def mkdir(self, *names: str) -> None:
        for name in names:
            self.path(name).mkdir()

    def write(self, name: str, data: bytes = b"", offset: int = 0) -> None:
        """Makes the file if it is not there."""
        fd = os.open(self.path(name), os.O_CREAT | os.O_WRONLY, 0o644)
        try:
            while data:
                done = os.pwrite(fd, data, offset)
                data, offset = data[done:], offset + done
        finally:
            os.close(fd)

    def fsync(self, *names: str) -> None:
        for name in names:
            fd = os.open(self.path(name), os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def move(self, name: str, other: str) -> None:
        self.path(name).rename(self.path(other))

    def fallocate(self, name: str, mode: int, offset: int, length: int) -> None:
        fd = os.open(self.path(name), os.O_RDWR)
        try:
            if LIBC.fallocate(fd, mode, ctypes.c_long(offset), ctypes.c_long(length)):
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))
        finally:
            os.close(fd)

    def commit_all(self, folder: str | None = None) -> None:
        """syncfs: what was done until now is durable, and in no log any more."""
        fd = os.open(folder or self.top, os.O_RDONLY)
        try:
            if LIBC.syncfs(fd):
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))
        finally:
            os.close(fd)

    def names(self, name: str) -> set[str] | None:
        """What is in a folder; None if there is none."""
        folder = self.path(name)
        return {path.name for path in folder.iterdir()} if folder.is_dir() else None

    def content(self, name: str) -> bytes | None:
        """Of a file; None if there is none."""
        return self.path(name).read_bytes() if self.path(name).is_file() else None


@dataclass(frozen=True)
class Known:
    """`source` is the test of xfstests; `fixed` the commit that it names, and when it came."""

    source: str
    fixed: str
    do: Callable[[Tree], None]
    promises: Callable[[Tree], Iterator[tuple[str, bool]]]

    def broken(self, tree: Tree) -> list[str]:
        """The promises that a recovered tree does not keep."""
        return [promise for promise, kept in self.promises(tree) if not kept]


CASES: dict[str, Known] = {}
Promises = Iterator[tuple[str, bool]]


def known(name: str, source: str, fixed: str, promises: Callable[[Tree], Promises]) -> Callable:
    """Decorator: the calls of the case `name`."""

    def add(do: Callable[[Tree], None]) -> Callable[[Tree], None]:
        CASES[name] = Known(source, fixed, do, promises)
        return do

    return add


def _size_promises(tree: Tree) -> Promises:
    yield "bar2 has the size of its fsync", len(tree.content("bar2") or b"") == 128 * KIB
    yield "foo2 is there", tree.content("foo2") is not None
    yield "foo, which was renamed, is gone", tree.content("foo") is None


@known("size-after-rename", "btrfs/243", "test of 2021-07", _size_promises)
def _size_after_rename(tree: Tree) -> None:
    tree.write("foo")
    tree.write("bar", b"\xab" * 64 * KIB)
    tree.commit_all()
    tree.fsync("bar")
    tree.move("bar", "bar2")
    tree.move("foo", "foo2")
    os.truncate(tree.path("bar2"), 128 * KIB)
    tree.fsync("foo2", "bar2")


def evict() -> None:
    """Drops what the kernel remembers of files (proc(5), drop_caches); it needs root."""
    Path("/proc/sys/vm/drop_caches").write_text("2\n")


def _evicted_promises(tree: Tree) -> Promises:
    found = [tree.content(name) for name in ("A/foo", "B/foo")]
    yield "foo is in A or in B", b"hello world" in found
    yield "foo is in one of them", None in found
    yield "A/bar and baz are there", None not in (tree.content("A/bar"), tree.content("baz"))


@known("moved-after-eviction", "generic/640", "ecc64fab7d49, test of 2021-07", _evicted_promises)
def _moved_after_eviction(tree: Tree) -> None:
    tree.mkdir("A", "B")
    tree.write("A/foo", b"hello world")
    tree.commit_all()
    tree.write("A/bar")
    tree.fsync("A")
    evict()
    tree.move("A/foo", "B/foo")
    tree.write("baz")
    tree.fsync("baz")


def _link_promises(old: str, new: str) -> Callable[[Tree], Promises]:
    def promises(tree: Tree) -> Promises:
        there = tree.path(new).is_symlink()
        yield f"{new} leads to foobar", there and str(tree.path(new).readlink()) == "foobar"
        yield f"{old}, which was renamed, is gone", not tree.path(old).is_symlink()

    return promises


@known(
    "symlink-renamed",
    "generic/690",
    "d0e64a981fd8, test of 2022-05",
    _link_promises("d/bar", "d/baz"),
)
def _symlink_renamed(tree: Tree) -> None:
    tree.mkdir("d")
    tree.commit_all()
    tree.write("d/foo")
    tree.fsync("d")
    tree.path("d/bar").symlink_to("foobar")
    tree.move("d/bar", "d/baz")
    tree.fsync("d")


@known(
    "symlink-synced-renamed",
    "generic/779",
    "953902e4fb4c, test of 2025-10",
    _link_promises("d/a", "d/b"),
)
def _symlink_synced_renamed(tree: Tree) -> None:
    tree.mkdir("d")
    tree.path("d/a").symlink_to("foobar")
    tree.fsync("d")
    tree.move("d/a", "d/b")
    tree.fsync("d")


def _hole_promises(tree: Tree) -> Promises:
    size = 16 * KIB
    wanted = b"\0" * 4 * size + b"\xab" * 4 * size + b"\0" * 4 * size
    yield "foo has the holes that were synced", tree.content("foo") == wanted


@known("hole-beside-a-hole", "generic/695", "e6e3dec6c3c2, test of 2022-09", _hole_promises)
def _hole_beside_a_hole(tree: Tree) -> None:
    size = 16 * KIB
    tree.write("foo")
    os.truncate(tree.path("foo"), 12 * size)
    tree.write("foo", b"\xab" * 8 * size, 2 * size)
    tree.commit_all()
    tree.fallocate("foo", PUNCH_HOLE | KEEP_SIZE, 2 * size, 2 * size)
    tree.fallocate("foo", PUNCH_HOLE | KEEP_SIZE, 8 * size, 2 * size)
    tree.fsync("foo")


def _unlinked_promises(tree: Tree) -> Promises:
    yield "d, and nothing in it", tree.names("d") == set()


@known("unlinked-and-synced", "generic/764", "5e85262e542d, test of 2025-03", _unlinked_promises)
def _unlinked_and_synced(tree: Tree) -> None:
    tree.mkdir("d")
    tree.commit_all()
    fd = tree.open("d/foo", os.O_CREAT | os.O_RDWR)
    os.fsync(fd)
    tree.path("d/foo").unlink()
    os.fsync(fd)


def _no_links_promises(tree: Tree) -> Promises:
    yield "d has bar alone", tree.names("d") == {"bar"}


@known("no-links-and-extents", "generic/771", "0a32e4f0025a, test of 2025-07", _no_links_promises)
def _no_links_and_extents(tree: Tree) -> None:
    tree.mkdir("d")
    tree.write("d/foo", b"\xab" * 64 * KIB)
    fd = tree.open("d/foo", os.O_RDWR)
    tree.path("d/foo").unlink()
    os.fsync(fd)
    tree.write("d/bar")
    tree.fsync("d/bar")


def _linked_promises(tree: Tree) -> Promises:
    yield "the folder has dir and foo", tree.names("") == {"dir", "foo"}
    yield "foo has what was synced", tree.content("foo") == b"\xab" * 64 * KIB


@known("linked-into-new-folder", "generic/782", "bfe3d755ef7c, test of 2025-10", _linked_promises)
def _linked_into_new_folder(tree: Tree) -> None:
    tree.write("foo")
    tree.commit_all()
    tree.mkdir("dir")
    tree.write("foo", b"\xab" * 64 * KIB)
    tree.fsync("foo")
    tree.path("dir/bar").hardlink_to(tree.path("foo"))
    tree.fsync("")


def _conflict_promises(tree: Tree) -> Promises:
    yield "dir1 is in dir2, beside foo", tree.names("dir2") == {"dir1", "foo"}
    yield "the folder has dir2 alone", tree.names("") == {"dir2"}


@known("folder-moved-name-reused", "generic/784", "test of 2025-11", _conflict_promises)
def _folder_moved_name_reused(tree: Tree) -> None:
    tree.mkdir("dir1", "dir2")
    tree.commit_all()
    tree.move("dir1", "dir2/dir1")
    tree.write("dir1")
    tree.fsync("dir1")
    tree.move("dir1", "dir2/foo")
    tree.fsync("dir2/foo")


def _entries_promises(tree: Tree) -> Promises:
    yield "the folder has dir and file2", tree.names("") == {"dir", "file2"}
    yield "dir has foo", tree.names("dir") == {"foo"}
    yield "file2 has what was synced", tree.content("file2") == b"\xab" * 1000


@known("renamed-beside-new-folder", "generic/785", "test of 2025-12", _entries_promises)
def _renamed_beside_new_folder(tree: Tree) -> None:
    tree.write("file1")
    tree.commit_all()
    tree.write("file1", b"\xab" * 1000)
    tree.fsync("file1")
    tree.mkdir("dir")
    tree.write("dir/foo")
    tree.move("file1", "file2")
    tree.fsync("")


def _prealloc_promises(tree: Tree) -> Promises:
    there = tree.path("foo").exists()
    blocks = tree.path("foo").stat().st_blocks * 512 if there else 0
    yield "the room beyond the end is still allocated", blocks >= (300 * 4 + 2048) * KIB


@known("room-beyond-the-end", "generic/677", "test of 2022-03", _prealloc_promises)
def _room_beyond_the_end(tree: Tree) -> None:
    for at in range(0, 300 * 8, 8):  # many extents, in several leaves of the tree
        tree.write("foo", b"\xcd" * 4 * KIB, at * KIB)
    end = 300 * 8 * KIB - 4 * KIB
    tree.fallocate("foo", KEEP_SIZE, end, 1024 * KIB)
    tree.fallocate("foo", KEEP_SIZE, end + 4096 * KIB, 1024 * KIB)
    tree.commit_all()
    tree.write("foo", b"\xab" * 4 * KIB)
    tree.fsync("foo")
