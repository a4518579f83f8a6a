# SPDX-License-Identifier: Apache-2.0
"""What lies where on several disks that were captured as one: each write's disk, and its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from powercut.model.timeline import DiskRange
from powercut.recording.disk_places import UNKNOWN, Part, Places, places_of

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
