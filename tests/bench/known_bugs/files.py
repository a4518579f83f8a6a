# SPDX-License-Identifier: Apache-2.0
"""A folder that a small program works in: it remembers the calls, as a captured folder does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from bench.known_bugs.case import STEP, Case, Contradiction, Speaker
from powercut.crash.folder import FileState, FolderSpace
from powercut.crash.folder_rows import Promise, SizeChange
from powercut.crash.states import CrashState
from powercut.model.folder import ROOT_OBJECT, FolderOp, FolderRequest, FolderTimeline
from powercut.model.units import Instant

_UNIT = 512

_WRITTEN_BACK = 7
"""Operations; Linux does so after 5 to 30 seconds, in which a product does thousands."""


class Files(Speaker):
    """Calls of one thread, each done before the next; times are in steps.

    Names are of one folder.  `write` appends if no offset is given.
    """

    def __init__(self, before: Mapping[str, bytes] | None = None) -> None:
        """`before`: files that are there, durable, when the run starts; without it see `start`."""
        super().__init__()
        self._requests: list[FolderRequest] = []
        self._data = bytearray()
        self._number = ROOT_OBJECT
        self._names: dict[str, int] = {}
        self._sizes: dict[int, int] = {}
        self._begin = 0
        for name, data in (before or {}).items():
            self.write(name, data)
        for name, data in (before or {}).items():
            if data:
                self.sync(name)
        if before is not None:
            self.sync_folder()
            self.start()

    # --- calls ------------------------------------------------------------------------------

    def create(self, name: str) -> None:
        """open(O_CREAT)."""
        self._number += 1
        self._names[name], self._sizes[self._number] = self._number, 0
        self._add(FolderOp.CREATE, ROOT_OBJECT, other=self._number, names=(name,))

    def write(self, name: str, data: bytes, at: int | None = None) -> None:
        """write(2), or pwrite(2)."""
        if name not in self._names:
            self.create(name)
        number = self._names[name]
        offset = self._sizes[number] if at is None else at
        self._sizes[number] = max(self._sizes[number], offset + len(data))
        place = len(self._data)
        self._data += data
        self._add(FolderOp.WRITE, number, offset=offset, length=len(data), data_offset=place)

    def truncate(self, name: str, size: int) -> None:
        """ftruncate(2)."""
        number = self._names[name]
        self._sizes[number] = size
        self._add(FolderOp.TRUNCATE, number, size=size)

    def sync(self, name: str, *, data_only: bool = False) -> None:
        """fsync(2), or fdatasync(2)."""
        self._add(FolderOp.FLUSH, self._names[name], data_only=data_only)

    def sync_folder(self) -> None:
        """fsync(2) of the folder."""
        self._add(FolderOp.FLUSH, ROOT_OBJECT)

    def rename(self, name: str, new: str) -> None:
        """rename(2)."""
        self._names[new] = self._names.pop(name)
        self._add(FolderOp.RENAME, ROOT_OBJECT, other=ROOT_OBJECT, names=(name, new))

    def unlink(self, name: str) -> None:
        """unlink(2)."""
        del self._names[name]
        self._add(FolderOp.UNLINK, ROOT_OBJECT, names=(name,))

    def start(self) -> None:
        """What was done so far is how the folder was at first."""
        self._now += STEP
        self._begin = self._now

    def try_(self, operation: int) -> None:
        """`? N`.  Now and then the kernel has written back, before, what was not synced."""
        if len(self._tried) % _WRITTEN_BACK == _WRITTEN_BACK - 1:
            self._add(FolderOp.FLUSH, 0)
        super().try_(operation)

    def _add(self, op: FolderOp, number: int, **rest: object) -> None:
        self._now += STEP
        done = self._now + STEP // 2
        self._requests.append(FolderRequest(op, number, self._now, done, **rest))  # type: ignore[arg-type]  # the fields by name

    # --- what came of it ----------------------------------------------------------------------

    def case(
        self,
        check: Callable[[Mapping[str, bytes]], Iterable[int]],
        *,
        promise: Promise = Promise.POSIX,
        sizes_kept: bool = True,
        unit: int = _UNIT,
    ) -> Case:
        """The recording.  Without `sizes_kept` fdatasync forgets what has made a file longer."""
        history = self.history()
        timeline = FolderTimeline(
            requests=tuple(self._requests),
            data=np.frombuffer(bytes(self._data), dtype=np.uint8),
            begin_ns=Instant(self._begin),
            atomic_unit=unit,
            cut_ns=Instant(self._now + STEP),
        )
        space = FolderSpace(timeline, promise, history)
        if not sizes_kept:
            _forget_sizes(space)
        return Case(space, history, lambda state: check(_Tree(space, state)), self._begin)


def _forget_sizes(space: FolderSpace) -> None:
    durable = space.sets.durable_ns.copy()
    for index, row in enumerate(space.rows):
        late = row.request.submitted_ns >= space.folder.begin_ns
        if not (late and isinstance(row.change, SizeChange)):
            continue
        syncs = [
            one.completed_ns
            for one in space.folder.requests
            if one.op is FolderOp.FLUSH
            and one.object == row.request.object
            and not one.data_only
            and one.submitted_ns > row.request.completed_ns
        ]
        durable[index] = min(syncs, default=np.iinfo(np.int64).max)
    space.sets = replace(space.sets, durable_ns=durable)


class _Tree(Mapping[str, bytes]):
    """The files of a state, each read when it is asked for."""

    def __init__(self, space: FolderSpace, state: CrashState) -> None:
        self._space = space
        self._files = dict(space.tree(state).files)
        self._read: dict[str, bytes] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._files))

    def __len__(self) -> int:
        return len(self._files)

    def __contains__(self, name: object) -> bool:
        return name in self._files

    def __getitem__(self, name: str) -> bytes:
        if name not in self._files:
            raise Contradiction(f"{name} is not there")
        if name not in self._read:
            self._read[name] = _content(self._space, self._files[name])
        return self._read[name]


def _content(space: FolderSpace, state: FileState) -> bytes:
    content = bytearray(state.size)
    for part in state.parts:
        if isinstance(part, int):
            content[part:] = bytes(max(0, len(content) - part))
            continue
        row, begin, end = part
        request = space.rows[row].request
        if request.data_offset < 0:
            data = bytes(end - begin)
        else:
            start = begin - request.offset
            data = space.folder.payload(request)[start : start + end - begin].tobytes()
        end = min(end, state.size)
        content[begin:end] = data[: max(0, end - begin)]
    return bytes(content)
