# SPDX-License-Identifier: Apache-2.0
"""Variables of the caller's environment that did not reach a program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

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
        told = ", ".join(self.names)
        if self.names and not self.searched:
            return (
                "the program with these variables of the environment, which did not reach it "
                f"({_PASS}): {told}"
            )
        more = f"{self.others} other" + ("" if self.others == 1 else "s")
        if self.names:
            rest = f"; nor with {more}, which its files do not name" if self.others else ""
            return (
                "the program with these variables of the environment, which its files name and "
                f"which did not reach it ({_PASS}): {told}{rest}"
            )
        if self.others:
            return (
                f"the program with {more.replace(' other', ' variable')} of the environment, which "
                f"did not reach it, and which its files do not name ({_PASS})"
            )
        return ""
