# SPDX-License-Identifier: Apache-2.0
"""How far a run came: a fault that begins later, or in a call that was not made, was not met."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_UNITS: Final = ("bytes", "kB", "MB", "GB", "TB")


@dataclass(frozen=True)
class FilesMet:
    """What became of files between the program's start and the cut.

    `renamed` are all renames, `replacing` those over another file; both, and `truncated`, are None
    of a disk, where names were compared at `looks` instants; 0 looks: every call was recorded.
    """

    made: int
    removed: int
    renamed: int | None = None
    replacing: int | None = None
    truncated: int | None = None
    looks: int = 0

    @property
    def words(self) -> str:
        """What was met, then what was not."""
        named = (("made", self.made), ("renamed", self.renamed), ("removed", self.removed))
        counts = [*named, ("truncated", self.truncated)]
        met = [f"{many:,} {what}{self._over(what)}" for what, many in counts if many]
        never = [what for what, many in counts if many == 0]
        told = ", ".join([*met, *([f"none {_listed(never)}"] if never else [])])
        if self.looks:
            told += f" (names at {self.looks} instants; renames and truncations are not seen)"
        return f"files: {told}"

    def _over(self, what: str) -> str:
        return f" ({self.replacing:,} over another)" if what == "renamed" and self.replacing else ""


@dataclass(frozen=True)
class Reached:
    """Acknowledged `operations`, the `size` in bytes of all that was written, and the `seconds`
    from the program's start to the cut; `files` is None where nobody looked at them."""

    operations: int
    size: int
    seconds: float
    files: FilesMet | None = None

    @property
    def words(self) -> str:
        """In one line."""
        operations = "1 operation" if self.operations == 1 else f"{self.operations:,} operations"
        files = "which files it made, renamed, removed or truncated was not looked at"
        if self.files is not None:
            files = self.files.words
        return f"{operations}, {_size_text(self.size)}, {self.seconds:.1f} s; {files}"


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _size_text(size: int) -> str:
    value, unit = float(size), _UNITS[0]
    for unit in _UNITS:
        if value < 1000 or unit == _UNITS[-1]:
            break
        value /= 1000
    return f"{value:.3g} {unit}"
