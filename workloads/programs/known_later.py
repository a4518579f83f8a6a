# SPDX-License-Identifier: Apache-2.0
"""Sequences of calls that btrfs lost until 2026, from xfstests and the kernel's changelog."""

from __future__ import annotations

import os

from known_cases import KIB, Promises, Tree, known

NAMES = ("zero-size-then-linked", "file-instead-of-folder", "folder-removed-and-synced")


def _zero_size_promises(tree: Tree) -> Promises:
    yield "foo has the size of its fsync", tree.content("d/foo") == b""
    yield "bar, a link to it, is there", tree.content("d/bar") == b""


@known("zero-size-then-linked", "generic/788", "test of 2026-02", _zero_size_promises)
def _zero_size_then_linked(tree: Tree) -> None:
    tree.mkdir("d")
    tree.write("d/foo", b"\xab" * 64 * KIB)
    tree.commit_all()
    os.truncate(tree.path("d/foo"), 0)
    tree.fsync("d/foo")
    tree.path("d/bar").hardlink_to(tree.path("d/foo"))
    tree.fsync("d")


def _file_instead_promises(tree: Tree) -> Promises:
    yield "the folder has dir1, dir2 and foo", tree.names("") == {"dir1", "dir2", "foo"}
    yield "dir2 has the link", tree.content("dir2/link") == b""


@known(
    "file-instead-of-folder", "generic/790", "9573a365ff9f, test of 2026-03", _file_instead_promises
)
def _file_instead_of_folder(tree: Tree) -> None:
    tree.mkdir("foo")
    tree.commit_all()
    tree.path("foo").rmdir()
    tree.mkdir("dir1", "dir2")
    tree.write("foo")
    tree.path("dir2/link").hardlink_to(tree.path("foo"))
    tree.fsync("dir2", "")


def _folder_removed_promises(tree: Tree) -> Promises:
    yield "the folder has dir3 alone", tree.names("") == {"dir3"}
    yield "dir3 has dir2, which was moved there", tree.names("dir3") == {"dir2"}


@known(
    "folder-removed-and-synced",
    "changelog",
    "999757231c49, fix of 2026-04",
    _folder_removed_promises,
)
def _folder_removed_and_synced(tree: Tree) -> None:
    tree.mkdir("dir1", "dir1/dir2", "dir3")
    tree.commit_all()
    tree.path("dir1").chmod(0o700)
    tree.fsync("dir1")
    tree.move("dir1/dir2", "dir3/dir2")
    fd = tree.open("dir1")
    tree.path("dir1").rmdir()
    os.fsync(fd)
