# SPDX-License-Identifier: Apache-2.0
"""Whether what `setup` of a program made was durable once operations were acknowledged.

The recording begins on a disk on which all of it is durable.  So a store that survives no power cut
just after its creation would look like any other: where nothing that `setup` made survives one,
the verdict is INCONCLUSIVE at best, and where some files do not they are named.  Files are compared
by name and size.

What `run` syncs before it acknowledges anything is durable in time.  So where a cut at the end of
`setup` loses a file, `run` follows `setup` on one system, and the cut that counts is at the first
ack.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from powercut.model.reads import FileRead, some_of

UNKNOWN_CREATION: Final = (
    "what `setup` made: it was durable before the recording began, so that its creation is no part "
    "of the test; what `run` makes is"
)
"""Instead of the words where nothing else is known."""


@dataclass(frozen=True)
class Creation:
    """Of the `made` files that held something after `setup` a power cut loses those in `lost`, or
    a part of each: at the end of `setup`, or if `acked` at the first ack after it."""

    made: int
    lost: tuple[str, ...] = ()
    acked: bool = False
    unknown: str = ""
    """Why it is not known what a cut at the first ack loses, if it should be."""

    @property
    def doubt(self) -> str:
        """Why the store is not believed to be there; empty if it is."""
        if not self.lost or len(self.lost) < self.made:
            return ""
        return (
            f"a power cut {self._when} loses all that `setup` made ({some_of(self.lost)}), and "
            f"the recording began with all of it durable{self._unsure}: sync it in `setup`, or "
            "make it in `run`"
        )

    @property
    def words(self) -> str:
        """What was not tested, for a sentence."""
        if not self.lost:
            return "a power cut during `setup`; what it made was durable by the first ack"
        return (
            f"{len(self.lost):,} of {self.made:,} files that `setup` made, which a power cut "
            f"{self._when} loses ({some_of(self.lost)}): the recording began with all of them "
            f"durable{self._unsure}"
        )

    @property
    def _when(self) -> str:
        return "at the first ack" if self.acked else "at the end of `setup`"

    @property
    def _unsure(self) -> str:
        if not self.unknown:
            return ""
        return f" (whether `run` syncs it before its first ack is not known: {self.unknown})"


def creation_of(made: Sequence[FileRead], left: Sequence[FileRead]) -> Creation:
    """What a cut at the end of `setup` has left of the files that were `made`."""
    sizes = _sizes(left)
    files = [file for file in made if file.size]
    return Creation(
        len(files), tuple(sorted(one.path for one in files if sizes.get(one.path) != one.size))
    )


def creation_at_ack(
    made: Sequence[FileRead],
    first: Creation,
    left: Sequence[FileRead],
    later: Sequence[FileRead],
) -> Creation:
    """What a cut at the first ack has left of those that the `first` loses.

    `later` are the files of a run that went on: one that it removes, or makes shorter, is no loss.
    """
    sizes, kept = _sizes(left), _sizes(later)
    files = {file.path: min(file.size, kept.get(file.path, 0)) for file in made}
    lost = tuple(path for path in first.lost if sizes.get(path, 0) < files[path])
    return Creation(sum(map(bool, files.values())), lost, acked=True)


def _sizes(files: Sequence[FileRead]) -> dict[str, int]:
    return {file.path: file.size for file in files}
