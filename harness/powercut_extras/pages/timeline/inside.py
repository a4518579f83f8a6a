# SPDX-License-Identifier: Apache-2.0
"""The files of a state of a disk, after recovery in User-Mode Linux, beside those that it would
have if nothing were missing.  No check is run, and nothing is judged.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from powercut.crash.states import CrashState
from powercut.explore.file_maps import files_of, mappable
from powercut.model.errors import HostError, PowercutError
from powercut.recording.disk import DiskRecording
from powercut.recording.materialize import write_image
from powercut.recording.state_names import resolve_state
from powercut.store.file_map import MappedFile
from powercut_extras.pages.timeline.contents import COMPARED_MAX, FILES_MAX, excerpt, laid_out
from powercut_extras.pages.timeline.names import FileRow

_KEPT: Final = 64
_NAME_MAX: Final = 200


class Inside:
    """Looks into states of one recording, one after the other; what was seen is kept."""

    def __init__(self, recording: DiskRecording) -> None:
        self._recording = recording
        self._lock = threading.Lock()
        self._seen: dict[str, list[FileRow]] = {}

    @classmethod
    def of(cls, recording: DiskRecording) -> Inside | None:
        return cls(recording) if mappable(recording) else None

    def files(self, name: str) -> list[FileRow]:
        """Of the state that `name` means, as a person types it.

        Raises PowercutError, in words, if there is none, or if it does not mount.
        """
        state = resolve_state(self._recording, name[:_NAME_MAX])
        with self._lock:
            if name not in self._seen:
                if len(self._seen) >= _KEPT:
                    del self._seen[next(iter(self._seen))]
                self._seen[name] = self._look(state)
            return self._seen[name]

    def _look(self, state: CrashState) -> list[FileRow]:
        volatile = tuple(self._recording.space.volatile(state.instant).tolist())
        whole = CrashState(state.instant, volatile)
        try:
            everything, there = files_of(self._recording, [whole, state])
        except HostError as error:
            raise PowercutError(f"this state cannot be listed: {error}") from error
        sizes, wanted = _sizes(there), _sizes(everything)
        compared = self._contents(state, there), self._contents(whole, everything)
        return [
            FileRow(
                path,
                sizes.get(path),
                wanted.get(path),
                excerpt(compared[0][path], compared[1][path])
                if path in compared[0] and path in compared[1]
                else None,
            )
            for path in sorted({*sizes, *wanted})
        ]

    def _contents(self, state: CrashState, files: Iterable[MappedFile]) -> dict[str, bytes]:
        """The bytes as the cut has left them, where recovery has found the files."""
        small = [file for file in files if not file.folder][:FILES_MAX]
        with tempfile.TemporaryDirectory() as folder:
            image = Path(folder, "disk")
            write_image(self._recording, self._recording.space.image_writes(state), image)
            with image.open("rb") as disk:
                return {file.path: laid_out(_parts(disk, file)) for file in small}


def _parts(disk: BinaryIO, file: MappedFile) -> Iterator[tuple[int, bytes]]:
    for place, at, size in file.extents:
        disk.seek(place)
        yield at, disk.read(min(size, max(COMPARED_MAX - at, 0)))


def _sizes(files: Iterable[MappedFile]) -> dict[str, int]:
    """Up to where each file has a place on the disk."""
    return {
        file.path: max((at + size for _, at, size in file.extents), default=0)
        for file in files
        if not file.folder
    }
