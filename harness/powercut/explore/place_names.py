# SPDX-License-Identifier: Apache-2.0
"""What the file system of a recording calls the place of a write, to tell kinds of writes."""

from __future__ import annotations

from functools import cache
from typing import Final

from powercut.crash.kinds import Names
from powercut.model.machine import ImageFormat
from powercut.recording.disk_places import UNKNOWN
from powercut.recording.open_recording import Recording
from powercut.recording.several_places import places_on

_HEAD: Final = 512


def names_of(recording: Recording) -> Names | None:
    """By the first sector of a write; None if the disk is not laid out by a known file system.

    Names are made when they are asked for.
    """
    if recording.image_format is not ImageFormat.RAW or not recording.filesystem:
        return None
    places = cache(lambda: places_on(recording.base, recording.timeline.disks, recording.layers))
    timeline = recording.timeline

    def name(write: int) -> str:
        head = b""
        if timeline.requests.data_offset[write] >= 0:
            head = timeline.payload(write)[:_HEAD].tobytes()
        parts = places().parts(int(timeline.requests.offset[write]), head)
        what = parts[0].what if parts else UNKNOWN
        return "" if what == UNKNOWN else what

    return name
