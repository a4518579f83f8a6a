# SPDX-License-Identifier: Apache-2.0
"""What the changes of a captured folder are called: by the file that they belong to."""

from __future__ import annotations

from typing import Final

from powercut.crash.folder import FolderSpace
from powercut.crash.folder_ranges import is_ranged
from powercut.crash.folder_rows import REGION, AttributeChange, NameChange, Row, SizeChange
from powercut.model.folder import ROOT_OBJECT, Attributes, FolderOp, FolderRequest
from powercut.model.timeline import RequestKind

ROOT: Final = "the folder"
ALL: Final = "everything"

_MADE: Final = {
    FolderOp.CREATE: "the creation of {}",
    FolderOp.MKDIR: "the creation of the folder {}",
    FolderOp.SYMLINK: "the symbolic link {}",
    FolderOp.PIPE: "the named pipe {}",
    FolderOp.SOCKET: "the socket {}",
    FolderOp.LINK: "the name {} for a file that has another",
    FolderOp.UNLINK: "the removal of {}",
    FolderOp.RMDIR: "the removal of the folder {}",
}


class FolderNames:
    """Names as they were at an instant, everything issued before it done.

    What has no name any more, or none yet, has its last or its first one.
    """

    def __init__(self, space: FolderSpace, instant: int) -> None:
        self._space = space
        self._at: dict[int, tuple[int, str]] = {}
        for row in space.rows:
            if not isinstance(row.change, NameChange):
                continue
            for parent, name, number in row.change.entries:
                if number is None:
                    continue
                if row.request.submitted_ns < instant:
                    self._at[number] = (parent, name)
                else:
                    self._at.setdefault(number, (parent, name))

    def path(self, number: int) -> str:
        if number == 0:
            return ALL
        parts: list[str] = []
        seen = set()
        while number != ROOT_OBJECT and number in self._at and number not in seen:
            seen.add(number)
            number, name = self._at[number]
            parts.append(name)
        return "/".join(reversed(parts)) or ROOT

    def in_folder(self, parent: int, name: str) -> str:
        """The path of `name` in the folder `parent`."""
        return name if parent == ROOT_OBJECT else f"{self.path(parent)}/{name}"

    def sync(self, request: FolderRequest) -> str:
        """A sync by the call that it comes from, as far as that is known, and what it is of."""
        whole = "fdatasync" if request.data_only else "fsync"
        call = whole if request.object and not is_ranged(request) else "sync"
        return f"{call} of {self.synced(request)}"

    def synced(self, request: FolderRequest) -> str:
        """What a sync is of."""
        path = self.path(request.object)
        if not is_ranged(request):
            return path
        return f"{_span(request.offset, request.offset + request.length)} of {path}"

    def subject(self, row: Row) -> str:
        """The file or folder that a row changes."""
        if isinstance(row.change, NameChange):
            parent, name, _ = row.change.entries[-1]
            return self.in_folder(parent, name)
        return self.path(row.request.object)

    def describe(self, row: Row, dropped: list[tuple[int, int]]) -> str:
        """What is missing where the bytes `dropped` of its file, of a write, are."""
        path = self.subject(row)
        match row.change:
            case NameChange():
                return self._name_change(row, row.change)
            case SizeChange(size=size, at_least=True):
                return f"the size of {path}: {size:,} bytes"
            case SizeChange(size=size):
                return f"the truncation of {path} to {size:,} bytes"
            case AttributeChange(attributes=attributes):
                return f"{_attributes(attributes)} of {path}"
        where = ", ".join(_span(begin, end) for begin, end in dropped)
        what = "zeroes at " if row.kind is RequestKind.ZERO else ""
        return f"{what}{where} of {path}"

    def _name_change(self, row: Row, change: NameChange) -> str:
        request = row.request
        path = self.in_folder(request.object, request.names[0])
        if request.op is not FolderOp.RENAME:
            return _MADE[request.op].format(path)
        to = self.in_folder(request.other, request.names[1])
        if len(change.entries) == 2:
            return f"the renaming of {path} to {to}"
        gone = change.entries[0][2] is None
        return f"the end of the name {path}" if gone else f"the new name {to}, once {path}"


def _attributes(changed: Attributes) -> str:
    told = []
    if changed.owner is not None:
        told.append("the owner")
    elif changed.mode is not None:
        told.append(f"the mode {changed.mode:o}")
    if changed.access_ns is not None or changed.change_ns is not None:
        told.append("the times")
    told += [f"the attribute {name}" for name, _ in changed.xattrs]
    return " and ".join(told)


def in_file(begin: int, end: int) -> tuple[int, int]:
    """Bytes of the space of all files as bytes of their file."""
    return begin % REGION, (end - 1) % REGION + 1


def _span(begin: int, end: int) -> str:
    return f"byte {begin:,}" if end - begin == 1 else f"bytes {begin:,} to {end - 1:,}"
