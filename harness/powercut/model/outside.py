# SPDX-License-Identifier: Apache-2.0
"""What a program wrote outside of its folder, which no crash state has.

After a real cut the places in memory are empty, and a check finds them so.  A check that is
lenient about what is missing there says nothing of it.  So a recording whose folder leads to such a
file by a symbolic link, or that has files there and none in its folder, is INCONCLUSIVE at best;
otherwise what was written there is named.  Sockets, locks and caches are what honest programs
leave there: `scratch` declares places that no promise rests on, and of them nothing is said.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from powercut.model.reads import some_of

UNKNOWN_OUTSIDE: Final = "what the program wrote outside of DIR: nothing tells"
"""Instead of the words where it cannot be known."""

MEMORY_PLACES: Final = ("/tmp", "/run", "/var/tmp", "/dev/shm")
"""What is in memory, and empty after a cut; a program may write there, and in DIR."""

_DECLARE: Final = "declare what no promise rests on with --scratch, or workload.scratch"
_SAME: Final = (("/var/run", "/run"), ("/var/lock", "/run/lock"))
"""Places that have another name on usual systems."""


@dataclass(frozen=True)
class Link:
    """A symbolic link in the folder, by its path there, and what it says."""

    path: str
    target: str


@dataclass(frozen=True)
class LeftFiles:
    """Files that hold something, and symbolic links, in places in memory; `cut`: there were more
    than could be listed."""

    paths: tuple[str, ...] = ()
    cut: bool = False

    def without(self, scratch: Sequence[str]) -> LeftFiles:
        """The same, but for what lies in one of the `scratch` places."""
        paths = tuple(one for one in self.paths if not _lies_in(one, scratch))
        return LeftFiles(paths, self.cut)


@dataclass(frozen=True)
class Outside:
    """The `files` outside of the folder `name` that no `scratch` declares, the links in it that
    lead there, in words, and whether nothing that was written in it holds anything (`alone`)."""

    files: tuple[str, ...] = ()
    led_out: tuple[str, ...] = ()
    alone: bool = False

    @property
    def doubt(self) -> str:
        """Why the recording does not have what was acknowledged; empty if nothing says so."""
        if self.led_out:
            return f"{'; '.join(self.led_out)}: {_DECLARE}"
        if self.files and self.alone:
            return (
                f"the program wrote {some_of(self.files)}, outside of DIR, and no file in DIR "
                f"that holds anything: no crash state has it; {_DECLARE}"
            )
        return ""

    @property
    def words(self) -> str:
        """What was not tested, for a sentence; empty if nothing was written there."""
        if not self.files:
            return ""
        return f"what the program wrote outside of DIR: {some_of(self.files)} ({_DECLARE})"


def outside_of(
    name: str, links: Iterable[Link], left: LeftFiles, scratch: Sequence[str], *, alone: bool
) -> Outside:
    """What is outside of the folder `name`, an absolute path."""
    left = left.without(scratch)
    return Outside(left.paths, led_out(name, links, left, scratch), alone)


def led_out(
    name: str, links: Iterable[Link], left: LeftFiles, scratch: Sequence[str] = ()
) -> tuple[str, ...]:
    """Of the `links` in the folder `name` those that lead to what is `left`, in words.

    Where not all of that could be listed, each that leads to its places counts.
    """
    found = []
    for link in links:
        place = _same(os.path.normpath(Path(name, link.path).parent / link.target))
        there = [file for file in left.paths if Path(file).is_relative_to(place)]
        if left.cut and not there and not _lies_in(place, (name, *scratch)):
            there = [place] if _lies_in(place, MEMORY_PLACES) else []
        if there:
            found.append(
                f"{link.path} leads to {place}, outside of {name}: what the program wrote there, "
                f"such as {there[0]}, is in no crash state"
            )
    return tuple(found)


def _same(place: str) -> str:
    for other, usual in _SAME:
        if Path(place).is_relative_to(other):
            return usual + place.removeprefix(other)
    return place


def _lies_in(path: str, places: Sequence[str]) -> bool:
    return any(Path(path).is_relative_to(place) for place in places)
