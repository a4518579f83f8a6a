# SPDX-License-Identifier: Apache-2.0
"""Writes an initramfs: a cpio archive in the `newc` format.

The format is in Documentation/driver-api/early-userspace/buffer-format.rst of the
kernel.  Written here and not by cpio(1), since /dev/console is a device node, which
only root could have made for cpio to pick up; and so that the same files always give
the same bytes.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_MAGIC: Final = b"070701"
_ALIGN: Final = 4


@dataclass(frozen=True)
class Entry:
    """One file, directory or device node.  `path` is relative to the root, `mode` as in stat."""

    path: str
    mode: int
    data: bytes = b""
    device: tuple[int, int] = (0, 0)


def directory(path: str) -> Entry:
    """A directory."""
    return Entry(path, stat.S_IFDIR | 0o755)


def regular(path: str, data: bytes, *, executable: bool = False) -> Entry:
    """A file."""
    return Entry(path, stat.S_IFREG | (0o755 if executable else 0o644), data)


def character_device(path: str, major: int, minor: int) -> Entry:
    """A character device node."""
    return Entry(path, stat.S_IFCHR | 0o600, device=(major, minor))


def _member(inode: int, entry: Entry) -> bytes:
    name = entry.path.encode() + b"\0"
    fields = (
        inode,
        entry.mode,
        0,  # uid
        0,  # gid
        2 if stat.S_ISDIR(entry.mode) else 1,
        0,  # mtime: the same files give the same archive
        len(entry.data),
        0,  # device of the archive's file system, major and minor
        0,
        *entry.device,
        len(name),
        0,  # checksum: unused in newc
    )
    header = _MAGIC + b"".join(b"%08X" % field for field in fields) + name
    header += b"\0" * (-len(header) % _ALIGN)
    return header + entry.data + b"\0" * (-len(entry.data) % _ALIGN)


def build_initramfs(entries: Iterable[Entry]) -> bytes:
    """The archive.  Directories must come before what is in them, or the kernel drops it.

    Raises ValueError if one does not.
    """
    directories = {""}
    parts = []
    for inode, entry in enumerate(entries, start=1):
        parent = entry.path.rpartition("/")[0]
        if entry.path.startswith("/") or parent not in directories:
            raise ValueError(f"{entry.path}: its directory is not in the archive before it")
        if stat.S_ISDIR(entry.mode):
            directories.add(entry.path)
        parts.append(_member(inode, entry))
    parts.append(_member(0, Entry("TRAILER!!!", 0)))
    return b"".join(parts)
