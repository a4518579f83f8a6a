# SPDX-License-Identifier: Apache-2.0
"""Sequences of calls that powercut itself found to be lost: docs/findings says more of each."""

from __future__ import annotations

import fcntl
import os

from known_cases import KIB, Promises, Tree, known

CLONE = 0x40049409  # FICLONE of linux/fs.h


def clone(fd: int, source: int) -> None:
    """`cp --reflink`: the file shares the blocks of another one."""
    fcntl.ioctl(fd, CLONE, source)


def _unshared_promises(tree: Tree) -> Promises:
    kept = tree.content("old") in (b"\xab" * 16 * KIB, b"")
    yield "old is as it was, or cut short: no call wrote to it", kept
    wanted = b"\xef" * 4 * KIB + b"\xab" * 12 * KIB
    yield "new has what was synced", tree.content("new") == wanted


@known("clone-written-in-place", "docs/findings", "no fix known", _unshared_promises)
def _clone_written_in_place(tree: Tree) -> None:
    """The finding xfs-shared-block: fdatasync brings the new bytes to the disk, and no log."""
    tree.write("old", b"\xab" * 16 * KIB)
    tree.write("new")
    fd = tree.open("new", os.O_WRONLY)
    clone(fd, tree.open("old"))
    os.fsync(fd)  # else the last sync would bring the clone to the log, and what came after it
    tree.commit_all()
    os.truncate(tree.path("old"), 0)
    tree.write("new", b"\xef" * 4 * KIB)
    os.fdatasync(fd)


def _renamed_over_promises(tree: Tree) -> Promises:
    found = [tree.content(name) for name in ("b", "d/link")]
    yield "the file that was renamed over has one of its names", b"\xcd" * 4 * KIB in found
    wanted = b"\xef" * 4 * KIB + b"\xab" * 4 * KIB
    yield "b has what was synced", tree.content("b") == wanted


@known("renamed-over-link", "docs/findings", "953902e4fb4c, fix of 2025-10", _renamed_over_promises)
def _renamed_over_link(tree: Tree) -> None:
    """The finding btrfs-renamed-over-link: `a` takes the name of a file that has another one."""
    tree.mkdir("d")
    tree.write("a", b"\xab" * 8 * KIB)
    tree.write("b", b"\xcd" * 4 * KIB)
    tree.fsync("a")  # a file that is new in memory would be logged with its names
    tree.commit_all()
    tree.path("d/link").hardlink_to(tree.path("b"))
    tree.move("a", "b")
    tree.write("b", b"\xef" * 4 * KIB)
    tree.fsync("b")


def _written_promises(tree: Tree) -> Promises:
    yield "foo has what was written before syncfs", tree.content("foo") == b"\xab" * 8 * KIB


@known("written-and-syncfs", "docs/findings", "no fix known", _written_promises)
def _written_and_syncfs(tree: Tree) -> None:
    """The finding xfs-realtime-syncfs: the disk of the file's data gets no flush."""
    tree.write("foo", b"\xab" * 8 * KIB)
    tree.commit_all()
