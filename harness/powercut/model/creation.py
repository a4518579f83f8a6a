# SPDX-License-Identifier: Apache-2.0
"""Whether what `setup` of a program made was durable once operations were acknowledged.

The recording begins on a disk on which all of it is durable.  So a store that survives no power cut
just after its creation would look like any other: where nothing that `setup` made survives one,
the verdict is INCONCLUSIVE at best, and where some files do not they are named.  Files are compared
by name, size and content: what was synced, and then overwritten without a sync, is lost.

What `run` syncs before it acknowledges anything is durable in time.  So where a cut at the end of
`setup` loses a file, `run` follows `setup` on one system, and the cut that counts is at the first
ack.  A content is lost then if it is still what the first cut had left: what `run` has written
there is none of `setup`'s.  One file may be all that matters: so where the check misses there what
had been acknowledged the verdict is INCONCLUSIVE, too.
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
    missed: str = ""
    """What the check does not find after that cut, although it was acknowledged before."""

    unknown: str = ""
    """Why it is not known what a cut at the first ack loses, if it should be."""

    @property
    def doubt(self) -> str:
        """Why the store is not believed to be there; empty if it is."""
        if self.missed and len(self.lost) < self.made:
            return (
                f"a power cut {self._when} loses what was acknowledged ({self.missed}), with "
                f"{some_of(self.lost)} of `setup`, and the recording began with all of it durable: "
                "sync it in `setup`, or make it in `run`"
            )
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
            return "a power cut during `setup`; its files were durable before the first ack"
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
    there = _contents(left)
    files = [file for file in made if file.size]
    lost = (one.path for one in files if there.get(one.path) != (one.size, one.crc))
    return Creation(len(files), tuple(sorted(lost)))


def creation_at_ack(
    made: Sequence[FileRead],
    cut: Sequence[FileRead],
    left: Sequence[FileRead],
    later: Sequence[FileRead],
) -> Creation:
    """What a cut at the first ack has `left` of those that one at the end of `setup` loses, which
    has left those of `cut`.

    `later` are the files of a run that went on: one that it removes, or makes shorter, is no loss.
    """
    whole, first, there = _contents(made), _contents(cut), _contents(left)
    kept = {file.path: file.size for file in later}
    files = {file.path: min(file.size, kept.get(file.path, 0)) for file in made}

    def is_lost(path: str) -> bool:
        size = there[path][0] if path in there else 0
        stale = first.get(path, whole[path]) != whole[path] and there.get(path) == first.get(path)
        return size < files[path] or (stale and size == files[path] == whole[path][0])

    lost = tuple(path for path in creation_of(made, cut).lost if is_lost(path))
    return Creation(sum(map(bool, files.values())), lost, acked=True)


def _contents(files: Sequence[FileRead]) -> dict[str, tuple[int, int]]:
    return {file.path: (file.size, file.crc) for file in files}
