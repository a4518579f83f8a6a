# SPDX-License-Identifier: Apache-2.0
"""Reads the log of a captured folder (harness/capture/folder_format.h) into a `FolderTimeline`.

A log comes from elsewhere as easily as a recording does.  What it says of names is checked here:
each is one component of a path, each object is made once and before it is used, and what is used
as a folder is one.  Attributes are those of something that was made.  Whether a name was there
before it was removed is not checked: a state in which it was not is as good as any.
"""

from __future__ import annotations

import enum
import struct
from pathlib import Path
from typing import Final

import numpy as np

from powercut.disk.event_log import EventReader, Events, Mask
from powercut.disk.pclog_format import EventFlag, EventType, LogKind, map_file
from powercut.model.folder import (
    LEAVES,
    MAKING,
    NAMING,
    OWN,
    ROOT_OBJECT,
    Attributes,
    FolderOp,
    FolderRequest,
    FolderTimeline,
)
from powercut.model.operations import Packet
from powercut.model.units import Instant

OBJECTS_MAX: Final = 1 << 18
FILE_SIZE_MAX: Final = 1 << 44
"""Bytes."""

_NAME_MAX: Final = 255
_TARGET_MAX: Final = 4096


class _Type(enum.IntEnum):
    BEGIN = 10
    LINES = 11


class _Flag(enum.IntFlag):
    AT_ONCE = 1
    DATA_ONLY = 8
    EXCHANGE = 16
    BORN = 32


class _Has(enum.IntFlag):
    MODE = 1
    OWNER = 2
    ACCESS = 4
    CHANGE = 8
    XATTR = 16
    NO_XATTR = 32


_CARRIERS: Final = (FolderOp.WRITE, FolderOp.ATTRIBUTES, *NAMING)
_FIXED: Final = struct.Struct("<IIIIqq")
_XATTR_MAX: Final = 1 << 16
_XATTRS: Final = (b"user.", b"system.posix_acl_access", b"system.posix_acl_default")
"""Others give rights, or are of no concern to programs."""


def read_folder_log(prefix: Path) -> FolderTimeline:
    """The recording in PREFIX.log and PREFIX.data, every event and payload of it checked.

    Raises DamagedRecording, naming file and event.
    """
    return _FolderReader(prefix, map_file).folder()


class _FolderReader(EventReader):
    _log_kinds = (LogKind.FOLDER,)
    _types = (
        EventType.SUBMIT,
        EventType.COMPLETE,
        EventType.CUT,
        EventType.MARK,
        EventType.END,
        *_Type,
    )

    def _carries_payload(self, events: Events) -> Mask:
        request = (events["type"] == EventType.SUBMIT) & np.isin(events["op"], _CARRIERS)
        other = np.isin(events["type"], (EventType.MARK, _Type.LINES))
        return np.asarray(request | other)

    def folder(self) -> FolderTimeline:
        self._check_events(verify_payloads=True)
        self._kinds: dict[int, FolderOp] = {ROOT_OBJECT: FolderOp.MKDIR}
        self._open: dict[int, int] = {}
        requests: list[FolderRequest] = []
        said: list[Packet] = []
        marks: list[tuple[Instant, str]] = []
        begin: int | None = None
        cut: int | None = None
        for index, row in enumerate(self._events):
            instant = int(row["time_ns"])
            match int(row["type"]):
                case EventType.SUBMIT:
                    requests.append(self._request(index, row, len(requests)))
                case EventType.COMPLETE:
                    self._complete(index, row, requests)
                case _Type.BEGIN:
                    if begin is not None:
                        self._damaged(index, "begins for the second time")
                    begin = instant
                case _Type.LINES:
                    said.append(Packet(instant, self._payload(row)))
                case EventType.MARK:
                    marks.append((Instant(instant), self._payload(row).decode(errors="replace")))
                case EventType.CUT:
                    cut = instant
                case _:
                    if int(row["request"]) != len(requests):
                        self._damaged(index, f"ends a log of other than {len(requests)} requests")
        if begin is None:
            self._damaged(len(self._events), "is missing: the folder's first contents are not all")
        unit = self._header.contract.atomic_unit
        return FolderTimeline(
            requests=tuple(requests),
            data=self._data,
            begin_ns=Instant(begin),
            atomic_unit=unit,
            said=tuple(said),
            cut_ns=None if cut is None else Instant(cut),
            marks=tuple(marks),
            complete=self._closed,
            realtime_ns=self._header.start_realtime_ns - int(self._header.start_monotonic_ns),
        )

    def _payload(self, row: np.void) -> bytes:
        start, length = int(row["data"]), int(row["length"])
        return self._data[start : start + length].tobytes()

    def _request(self, index: int, row: np.void, count: int) -> FolderRequest:
        if int(row["request"]) != count:
            self._damaged(index, "is out of order")
        try:
            op = FolderOp(int(row["op"]))
        except ValueError:
            self._damaged(index, "submits an unknown request")
        flags, instant = int(row["flags"]), int(row["time_ns"])
        target = int(row["connection"])
        self._open[count] = index
        if op in NAMING:
            return self._naming(index, row, op)
        if op is FolderOp.FLUSH:
            if target and target not in self._kinds:
                self._damaged(index, f"syncs object {target}, which was never made")
            offset, length = self._span(index, row)
            if length and self._kinds.get(target) is not FolderOp.CREATE:
                self._damaged(index, f"syncs a part of object {target}, which is no file")
            data_only = bool(_Flag.DATA_ONLY & flags)
            return FolderRequest(
                op, target, instant, offset=offset, length=length, data_only=data_only
            )
        if op is FolderOp.ATTRIBUTES:
            if target not in self._kinds:
                self._damaged(index, f"has attributes of object {target}, which was never made")
            attributes = self._attributes(index, self._payload(row))
            born = bool(_Flag.BORN & flags)
            return FolderRequest(op, target, instant, attributes=attributes, born=born)
        if self._kinds.get(target) is not FolderOp.CREATE:
            self._damaged(index, f"changes object {target}, which is no file")
        offset, length = self._span(index, row)
        if op in (FolderOp.TRUNCATE, FolderOp.GROW):
            return FolderRequest(op, target, instant, size=length)
        return FolderRequest(
            op,
            target,
            instant,
            offset=offset,
            length=length,
            at_once=bool(_Flag.AT_ONCE & flags),
            data_offset=int(row["data"]) if op is FolderOp.WRITE else -1,
        )

    def _span(self, index: int, row: np.void) -> tuple[int, int]:
        offset, length = int(row["offset"]), int(row["length"])
        if min(offset, length) < 0 or offset > FILE_SIZE_MAX - length:
            self._damaged(index, "lies beyond the end of any file")
        return offset, length

    def _naming(self, index: int, row: np.void, op: FolderOp) -> FolderRequest:
        target, other = int(row["connection"]), int(row["offset"])
        self._require_folder(index, target)
        names = self._names(index, op, self._payload(row))
        if op in MAKING:
            if other in self._kinds or not ROOT_OBJECT < other < OBJECTS_MAX:
                self._damaged(index, f"makes object {other}, which is there, or no number")
            self._kinds[other] = op
        elif op is FolderOp.LINK:
            if self._kinds.get(other) not in LEAVES:
                self._damaged(index, f"links object {other}, which is no file")
        elif op is FolderOp.RENAME:
            self._require_folder(index, other)
        return FolderRequest(
            op,
            target,
            int(row["time_ns"]),
            other=other,
            names=names,
            exchange=op is FolderOp.RENAME and bool(int(row["flags"]) & _Flag.EXCHANGE),
        )

    def _attributes(self, index: int, payload: bytes) -> Attributes:
        if len(payload) < _FIXED.size:
            self._damaged(index, "has attributes that are cut off")
        mask, mode, owner, group, access_ns, change_ns = _FIXED.unpack_from(payload)
        if mode > 0o7777:
            self._damaged(index, f"has a mode that is none: {mode:o}")
        xattrs: tuple[tuple[str, bytes | None], ...] = ()
        if mask & (_Has.XATTR | _Has.NO_XATTR):
            name, end, value = payload[_FIXED.size :].partition(b"\0")
            if not name or not end or len(name) > _NAME_MAX or len(value) > _XATTR_MAX:
                self._damaged(index, f"has an attribute that is none: {name[:40]!r}")
            if not name.startswith(_XATTRS):
                self._damaged(
                    index, f"has an attribute that powercut keeps for no file: {name[:40]!r}"
                )
            known = None if mask & _Has.NO_XATTR else value
            xattrs = ((name.decode(errors="surrogateescape"), known),)
        owners = tuple(OWN if number == 0xFFFFFFFF else number for number in (owner, group))
        return Attributes(
            mode=mode if mask & _Has.MODE else None,
            owner=(owners[0], owners[1]) if mask & _Has.OWNER else None,
            access_ns=access_ns if mask & _Has.ACCESS else None,
            change_ns=change_ns if mask & _Has.CHANGE else None,
            xattrs=xattrs,
        )

    def _require_folder(self, index: int, number: int) -> None:
        if self._kinds.get(number) is not FolderOp.MKDIR:
            self._damaged(index, f"changes names in object {number}, which is no folder")

    def _names(self, index: int, op: FolderOp, payload: bytes) -> tuple[str, ...]:
        parts = payload.split(b"\0")
        if len(parts) != (2 if op in (FolderOp.SYMLINK, FolderOp.RENAME) else 1):
            self._damaged(index, "has another number of names than it needs")
        components = parts[:1] if op is FolderOp.SYMLINK else parts
        for name in components:
            if name in (b"", b".", b"..") or b"/" in name or len(name) > _NAME_MAX:
                self._damaged(index, f"has a name that is none: {name[:40]!r}")
        if len(parts[-1]) > _TARGET_MAX:
            self._damaged(index, "has a target that is too long")
        return tuple(part.decode(errors="surrogateescape") for part in parts)

    def _complete(self, index: int, row: np.void, requests: list[FolderRequest]) -> None:
        number = int(row["request"])
        if number not in self._open:
            self._damaged(index, "completes a request that is not under way")
        del self._open[number]
        request = requests[number]
        if int(row["op"]) != request.op:
            self._damaged(index, "completes another kind of request")
        if not int(row["flags"]) & EventFlag.FAILED:
            object.__setattr__(request, "completed_ns", int(row["time_ns"]))
