# SPDX-License-Identifier: Apache-2.0
"""Variables of the caller's environment that did not reach a program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from powercut.model.units import count

_PASS: Final = "pass one with --env, or workload.env"


@dataclass(frozen=True)
class Withheld:
    """Those to be told by their `names`, and how many `others` there are, whose names no file of
    the program has.  `searched`: its files could be read; else all of them are in `names`."""

    names: tuple[str, ...] = ()
    others: int = 0
    searched: bool = False

    @property
    def words(self) -> str:
        """What was not tested, for a sentence; empty if all reached it."""
        hidden = len(self.names) + self.others
        if not hidden:
            return ""
        named = ", ".join(self.names)
        told = f"{count(hidden, 'environment variable')} not passed ({_PASS})"
        if not self.searched:
            return f"{told}: {named}"
        return f"{told}; the program's files mention {named or 'none of them'}"
