# SPDX-License-Identifier: Apache-2.0
"""Which files a program consists of, so that a refusal can name those that have changed.

The digests that decide are those of `versions` (powercut.rig.host_files, powercut.disk.root_image):
nothing follows from these but words.
"""

from __future__ import annotations

import functools
import hashlib
import stat
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from powercut.brought import brought
from powercut.scenario.place import Files, place_of
from powercut.scenario.settings import Parameters, ProgramSettings
from powercut.workload.port import Run
from powercut.workload.program.workload import ProgramWorkload
from powercut.workload.table import workload_of

_FILES_MAX: Final = 500  # of a folder with more none is kept
_NAMED: Final = 5
_DIGITS: Final = 16


def program_files(parameters: Parameters) -> dict[str, str]:
    """A word for each file of the program's folder that comes into a root of its own, and for each
    that its command names on this host; it changes as the file does.

    Empty for what has none, and where they cannot be read.
    """
    settings = parameters.workload
    if not isinstance(settings, ProgramSettings):
        return {}
    try:
        if place_of(parameters).files is Files.IMAGE:
            brought = workload_of(parameters).contents(Run(bytes(16))).program
            return {} if brought is None else dict(_of_folder(brought))
        return _of_command(settings.command, Path(settings.folder))
    except OSError:
        return {}


def own_files(parameters: Parameters) -> list[Path]:
    """The files of this host that the program consists of: its folder that goes along, or those
    that its command names; none where it lies elsewhere.  Raises OSError."""
    workload = ProgramWorkload(parameters)
    goes_along = workload.contents(Run(bytes(16))).program
    if goes_along is not None:
        return [path for path in brought(goes_along) if path.is_file()]
    if place_of(parameters).files is not Files.HOST:
        return []
    folder = Path(workload.settings.folder)
    paths = [_in(folder, word) for word in (workload.executable, *workload.settings.command[1:])]
    return [path for path in paths if path is not None]


def files_beside(parameters: Parameters) -> list[Path]:
    """Files that lie beside the program, below the folder of its scenario: it may call them."""
    settings = parameters.workload
    if place_of(parameters).files is not Files.HOST or not isinstance(settings, ProgramSettings):
        return []
    own, folder = own_files(parameters), Path(settings.folder)
    below = {path.parent for path in own if path.is_relative_to(folder)}
    found = (path for parent in sorted(below) for path in parent.iterdir() if path.is_file())
    return sorted({*islice(found, _FILES_MAX)} - {*own})


def _in(folder: Path, word: str) -> Path | None:
    try:
        return folder / word if (folder / word).is_file() else None
    except OSError:  # a word that is too long for a path
        return None


def changed_files(then: Mapping[str, str], now: Mapping[str, str]) -> str:
    """What differs, for the end of a sentence; empty if that is not known."""
    if not then or not now:
        return ""
    names = sorted({*then, *now})
    words = [_change(name, then.get(name), now.get(name)) for name in names]
    told = [word for word in words if word]
    more = len(told) - _NAMED
    return "; ".join([*told[:_NAMED], *([f"and {more} more"] if more > 0 else [])])


def _change(name: str, then: str | None, now: str | None) -> str:
    if then == now:
        return ""
    if then is None:
        return f"{name} is new"
    if now is None:
        return f"{name} is gone"
    return f"{name} differs"


@functools.cache  # as the image of such a folder is
def _of_folder(folder: Path) -> tuple[tuple[str, str], ...]:
    paths = [path for path in brought(folder) if path.is_symlink() or path.is_file()]
    if len(paths) > _FILES_MAX:
        return ()
    return tuple((str(path.relative_to(folder)), _word(path)) for path in paths)


def _of_command(command: Sequence[str], folder: Path) -> dict[str, str]:
    paths = {word: _in(folder, word) for word in command}
    return {word: _word(path.resolve()) for word, path in paths.items() if path is not None}


def _word(path: Path) -> str:
    if path.is_symlink():
        return f"-> {path.readlink()}"
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:_DIGITS]
    return f"{digest} {stat.S_IMODE(path.stat().st_mode) & 0o755:o}"
