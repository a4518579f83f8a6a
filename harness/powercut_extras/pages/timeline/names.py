# SPDX-License-Identifier: Apache-2.0
"""What the requests of a recording are called: by the file that they belong to."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Protocol

from powercut.crash.folder import FileState, FolderSpace
from powercut.crash.folder_rows import NameChange
from powercut.crash.states import CrashState
from powercut.model.timeline import RequestKind
from powercut.recording.disk import DiskRecording
from powercut.recording.disk_files import FilePlaces, naming
from powercut.recording.disk_places import NamesWrites, Part
from powercut.recording.folder import FolderRecording
from powercut.recording.folder_names import FolderNames, in_file
from powercut.recording.state_names import plain_state
from powercut.store.file_map import read_file_maps
from powercut.witness.folder_story import FolderStory
from powercut.witness.search import Drop
from powercut.witness.story import why_volatile
from powercut_extras.pages.timeline.contents import FILES_MAX, Excerpt, contents_of, excerpt

_HEAD: Final = 512
_TOLD_MAX: Final = 64 << 10
_PARTS: Final = 3


@dataclass(frozen=True)
class FileRow:
    """A file of a state: its size there, and if nothing were missing; None for what is unknown.

    `differs`: where its contents do; None if they are the same, or were not compared.
    """

    path: str
    size: int | None
    whole: int | None
    differs: Excerpt | None = None


class Names(Protocol):
    """What the requests of a recording are called."""

    def lane(self, request: int) -> str:
        """The file or the place that it belongs to."""

    def told(self, request: int) -> str:
        """What it holds, in words."""

    def missing(self, state: CrashState, drops: Sequence[Drop]) -> Iterator[tuple[str, str]]:
        """Of each write in `drops` what is missing, and why it could be lost."""

    def files(self, state: CrashState) -> list[FileRow]:
        """The files of a state, as far as they are known without recovering it."""


class DiskNames:
    """Names of what a disk was asked; of a program by the files that lay on it at `instant`."""

    def __init__(self, recording: DiskRecording, instant: int) -> None:
        self._recording = recording
        self._places = naming(recording, instant)
        self._mapped = sorted(self._places.instants if isinstance(self._places, FilePlaces) else ())
        self._near = cache(self._by_map)

    def _by_map(self, number: int) -> NamesWrites:
        """What names writes after which that map is the first."""
        assert isinstance(self._places, FilePlaces)
        return self._places.near(self._mapped[number])

    def lane(self, request: int) -> str:
        """By the first sector, so that long recordings are named in seconds."""
        parts = self._parts(request, _HEAD)
        if not parts:
            return "discards and zeroes"
        what = parts[0].what
        return what.partition(" (")[0] if what.startswith("journal (") else what

    def told(self, request: int) -> str:
        parts = [str(part) for part in self._parts(request, _TOLD_MAX)]
        if not parts:
            return RequestKind(self._recording.timeline.requests.kind[request]).name.lower()
        more = f" and {len(parts) - _PARTS} more places" if len(parts) > _PARTS else ""
        return "; ".join(parts[:_PARTS]) + more

    def missing(self, state: CrashState, drops: Sequence[Drop]) -> Iterator[tuple[str, str]]:
        for drop in drops:
            yield self.told(drop.write), why_volatile(self._recording, state.instant, drop.write)

    def files(self, state: CrashState) -> list[FileRow]:
        """Those of the nearest map, as if nothing were lost: a state itself is not mounted."""
        known = read_file_maps(self._recording.directory)
        if known is None or not known.maps:
            return []
        nearest = min(known.maps, key=lambda one: abs(one.instant - state.instant))
        return [
            FileRow(file.path, None, max((at + size for _, at, size in file.extents), default=0))
            for file in nearest.files
            if not file.folder
        ]

    def _parts(self, request: int, length: int) -> list[Part]:
        timeline = self._recording.timeline
        if timeline.requests.data_offset[request] < 0:
            return []
        payload = timeline.payload(request)[:length].tobytes()
        places = self._places
        if self._mapped:
            after = bisect_left(self._mapped, int(timeline.requests.submitted_ns[request]))
            places = self._near(min(after, len(self._mapped) - 1))
        return places.parts(int(timeline.requests.offset[request]), payload)


class TreeNames:
    """Names of the changes of a captured folder."""

    def __init__(self, recording: FolderRecording, space: FolderSpace, instant: int) -> None:
        self._recording = recording
        self._space = space
        self._names = FolderNames(space, instant)

    def lane(self, request: int) -> str:
        """A change of names belongs to the folder in which it is."""
        row = self._space.rows[request]
        if isinstance(row.change, NameChange):
            return self._names.path(row.change.entries[0][0])
        return self._names.path(row.request.object)

    def told(self, request: int) -> str:
        """What it changes; of a sync the file that is synced."""
        row = self._space.rows[request]
        if row.kind is RequestKind.FLUSH:
            return f"sync of {self._names.synced(row.request)}"
        spans = [in_file(row.offset, row.offset + row.length)] if row.length else []
        return self._names.describe(row, spans)

    def missing(self, state: CrashState, drops: Sequence[Drop]) -> Iterator[tuple[str, str]]:
        story = FolderStory(self._recording, self._space, state.instant)
        for drop in drops:
            for lost in story.lost([drop]):
                yield lost.text, lost.why

    def files(self, state: CrashState) -> list[FileRow]:
        """All of them: a state of a folder is known without mounting it."""
        there = dict(self._space.tree(state).files)
        everything = plain_state(self._space, state.instant, everything=True)
        whole = dict(self._space.tree(everything).files)
        left = FILES_MAX
        rows = []
        for path in sorted({*there, *whole}):
            ours, theirs = there.get(path), whole.get(path)
            differs = None
            if left and ours is not None and theirs is not None and ours.parts != theirs.parts:
                left -= 1
                sides = (contents_of(self._space, one) for one in (ours, theirs))
                differs = excerpt(*sides)
            rows.append(FileRow(path, _size(ours), _size(theirs), differs))
        return rows


def _size(file: FileState | None) -> int | None:
    return None if file is None else file.size
