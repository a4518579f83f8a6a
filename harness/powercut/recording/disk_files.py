# SPDX-License-Identifier: Apache-2.0
"""Names writes by the file that they belong to, where files.json says so, else as `Places` does.

A block may belong to one file after the other.  The map of the state's own instant is asked first,
then those nearest to it: a file that was being made at an instant stands in a later map only.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Final

from powercut.model.machine import ImageFormat
from powercut.model.operations import OperationHistory
from powercut.model.timeline import DiskRange
from powercut.recording.disk import DiskRecording
from powercut.recording.disk_places import UNKNOWN, NamesWrites, Part, Places, places_of
from powercut.store.file_map import FilesAt, read_file_maps
from powercut.workload.program.workload import DIR

_ROOT: Final = "the root folder"

_Extent = tuple[int, int, int, str, bool]  # begin and end on the disk, in the file, name, folder


class FilePlaces:
    """The parts of writes by file; `maps` in the order in which they are asked."""

    def __init__(self, places: Places, maps: list[FilesAt], below: str = "") -> None:
        self.filesystem = places.filesystem
        self._places = places
        self._maps = [_sorted(one, below) for one in maps]
        self._begins = [[extent[0] for extent in extents] for extents in self._maps]
        self.instants = [one.instant for one in maps]

    def near(self, instant: int) -> FilePlaces:
        """The same, for a write of `instant`: maps nearest to that are asked first, of two as near
        the later one, by which a file that was being made has its name.
        """
        order = sorted(
            range(len(self.instants)),
            key=lambda at: (abs(self.instants[at] - instant), -self.instants[at]),
        )
        other = copy(self)
        other._maps = [self._maps[at] for at in order]
        other._begins = [self._begins[at] for at in order]
        other.instants = [self.instants[at] for at in order]
        return other

    def parts(self, offset: int, payload: bytes) -> list[Part]:
        """What the write of `payload` at `offset` (bytes) holds, in order."""
        parts: list[Part] = []
        at, end = offset, offset + len(payload)
        while at < end:
            found, until = self._at(at, end)
            if found is not None:
                parts.append(found)
            else:
                parts += self._places.parts(at, payload[at - offset : until - offset])
            at = until
        return _merged(parts)

    def _at(self, at: int, end: int) -> tuple[Part | None, int]:
        """The stretch of a file that begins at `at`, or None and where the next one begins."""
        nearest = end
        for extents, begins in zip(self._maps, self._begins, strict=True):
            index = bisect_right(begins, at) - 1
            if index >= 0 and at < extents[index][1]:
                begin, stop, inside, name, folder = extents[index]
                until = min(stop, nearest)
                return Part(at, until, name, None if folder else inside + at - begin), until
            if index + 1 < len(begins):
                nearest = min(nearest, begins[index + 1])
        return None, nearest


def _sorted(files: FilesAt, below: str) -> list[_Extent]:
    extents = []
    for file in files.files:
        path = file.path.removeprefix(f"{below}/") if below else file.path
        name = path or _ROOT
        if file.folder and path:
            name = f"folder {path}"
        extents += [
            (disk, disk + length, inside, name, file.folder)
            for disk, inside, length in file.extents
            if length
        ]
    return sorted(extents)


def _merged(parts: list[Part]) -> list[Part]:
    merged: list[Part] = []
    for part in parts:
        last = merged[-1] if merged else None
        follows = last is not None and (last.end, last.what) == (part.begin, part.what)
        if last is not None and follows and last.next_at == part.at:
            merged[-1] = replace(last, end=part.end)
        else:
            merged.append(part)
    return merged


def naming(recording: DiskRecording, instant: int) -> NamesWrites:
    """What names the writes of a state at `instant`, whatever was recorded: files of a program,
    as far as their maps are kept, else structures of the file system.

    Raises DamagedRecording for a files.json that is none.
    """
    if recording.image_format is not ImageFormat.RAW:
        return Places("", [], unknown=f"{recording.image_format.value} image")
    if recording.known_promises is not None:
        return names_of(recording, instant)
    return places_on(recording.base, recording.timeline.disks, recording.layers)


def names_of(recording: DiskRecording, instant: int) -> FilePlaces:
    """What names the writes of a state at `instant`; a program's paths begin at its own folder.

    Raises DamagedRecording for a files.json that is none.
    """
    is_program = isinstance(recording.promises.requirements, OperationHistory)
    below = PurePath(DIR).name if is_program else ""
    known = read_file_maps(recording.directory)
    maps = [] if known is None else sorted(known.maps, key=lambda one: abs(one.instant - instant))
    return FilePlaces(
        places_on(recording.base, recording.timeline.disks, recording.layers), maps, below
    )


# What lies where on several disks that were captured as one: each write's disk, and its place.

_HOLDS_XFS_LOG: Final = "xfs-log"
_HOLDS_XFS_REALTIME: Final = "xfs-realtime"
_HOLDS_STRIPE: Final = "stripe"


class SeveralPlaces(Places):
    """Names the disk of a write first, then what it holds there."""

    def __init__(self, image: Path, disks: Sequence[DiskRange]) -> None:
        self._disks = [(disk, _places_on(image, disk, disks)) for disk in disks]
        super().__init__(self._disks[0][1].filesystem, [])

    def parts(self, offset: int, payload: bytes) -> list[Part]:
        """What the write of `payload` at `offset` holds, in order."""
        for disk, places in self._disks:
            if disk.begin <= offset < disk.end:
                return [
                    replace(
                        part,
                        begin=part.begin + disk.begin,
                        end=part.end + disk.begin,
                        what=f"disk {disk.name}: {part.what}",
                    )
                    for part in places.parts(offset - disk.begin, payload)
                ]
        return super().parts(offset, payload)


def places_on(image: Path, disks: Sequence[DiskRange], layers: str) -> Places:
    """The places on `image`, which holds one disk, or `disks` one behind the other.

    Where `layers` lie between them and the file system, by their names, a place says nothing.
    """
    if layers:
        return Places("", [], unknown=f"something below {layers}")
    return SeveralPlaces(image, disks) if disks else places_of(image)


def _places_on(image: Path, disk: DiskRange, disks: Sequence[DiskRange]) -> Places:
    """A file system that lies in stripes over all disks names no place on one of them."""
    if any(other.holds == _HOLDS_STRIPE for other in disks):
        return Places("", [], unknown="a stripe of the file system")
    if disk.holds == _HOLDS_XFS_LOG:
        return Places("", [], unknown="journal")
    if disk.holds == _HOLDS_XFS_REALTIME:
        return Places("", [], unknown="file data")
    places = places_of(image, disk.begin)
    return places if places.filesystem else Places("", [], unknown=UNKNOWN)
