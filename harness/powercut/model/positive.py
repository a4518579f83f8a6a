# SPDX-License-Identifier: Apache-2.0
"""The positive control of a program's check: where nothing was lost it finds every ack.

A check that misses operations where nothing was lost says nothing by what it misses anywhere
else.  So before any verdict it is held against a state that lacks nothing, the first of these
that is one:

1. `CUT`: the state that the cut left, or the folder as it was at the cut.  If the check finds every
   ack in it, it sees.
2. `ISSUED`: the disk with every write that it had been given by the cut.  Nothing that reached the
   disk is missing; a disk that lies has it all.
3. `ENDED`: the same program, run once more on the disk that `setup` left, until it has acknowledged
   as many operations.  Then it is killed, and its file system unmounted.  No power was lost, so
   that whatever it gave to the kernel is there: what was never synced, too.  This is for a program
   that acknowledges what is in the page cache alone, and so loses it in 1 and 2.  If something is
   missing it runs once more, until it has acknowledged a few more, which need not be there: a
   thread of its own may have been about to write what it had acknowledged.

If the check misses something in all of them, either the check does not see it, or the program
acknowledges what it never wrote (what is in its own memory goes with the process), or takes away
what it acknowledged.  Evidence cannot tell these apart: the verdict is INCONCLUSIVE, and no state
convicts.  Nor is it ever SAFE.  Operations that were tried and not acknowledged count in none.

But for one case (`unwritten`), of captured folders, where nobody else writes: the check finds some
operations, and of the others it says nothing, and nothing at all was written from the first attempt
of these to the cut.  So nothing could carry them, and no check could find them.  It is believed of
those that it finds; the others count as tried.  Whether the program kept them in its memory is
shown by states of the others: if it acknowledged one of these before it wrote it, too, the verdict
is LOSSY, and they were never written.  Else they may have nothing of their own to write (a key
deleted that is not there, the same value again): INCONCLUSIVE.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from powercut.model.verdict import LsnRange

_NAMED_MAX: Final = 4

WHOLE_LOSES: Final = (
    "the check, or the machine that it ran on, is not to be believed: in a state that lacks "
    "nothing of what was written before the cut, it misses something"
)
"""Why no loss counts: a sentence without what the check said."""


class Whole(enum.Enum):
    """A state in which nothing was lost."""

    CUT = "cut"
    ISSUED = "issued"
    ENDED = "ended"

    @property
    def words(self) -> str:
        """Where that is, for a sentence."""
        return _WORDS[self]


_WORDS: Final = {
    Whole.CUT: "after the cut",
    Whole.ISSUED: "with every write that was issued before the cut",
    Whole.ENDED: "after a run that ended without a power cut",
}


@dataclass(frozen=True)
class PositiveControl:
    """What a check found in the state `where`, of the operations `acknowledged` by then.

    `missing` are those that it did not find, or called wrong.  `trouble` is why it does not count
    whatever it found; empty if it does.  `unwritten`: nothing could carry what is missing.
    """

    where: Whole
    found: int
    acknowledged: int
    missing: tuple[LsnRange, ...] = ()
    trouble: str = ""
    unwritten: bool = False

    @property
    def passed(self) -> bool:
        """Whether the check sees what is there."""
        return not self.missing and not self.trouble

    @property
    def believed(self) -> bool:
        """Whether something follows from what it misses of the operations that it has found."""
        return self.passed or self.unwritten

    @property
    def told(self) -> str:
        """What was found, in words."""
        return f"{self.found:,} of {self.acknowledged:,} operations {self.where.words}"

    @property
    def words(self) -> str:
        """The same as a sentence, without its end."""
        return f"the check found {self.told}" if self.passed else self.message

    @property
    def message(self) -> str:
        """Why nothing follows from what the check misses; for one that has not passed."""
        if self.where is Whole.CUT:
            return (
                f"nothing shows that the check sees what is there: it found {self.told}, and was "
                "tried in no state where nothing was lost"
            )
        what = "the check does not see what is there"
        if not self.missing:
            return f"{what}: {self.where.words}, where nothing was lost, {self.trouble}"
        if self.unwritten:
            return (
                f"{self.kept_back}, or they have nothing to write and the check does not report "
                "them"
            )
        also = f"; {self.trouble}" if self.trouble else ""
        return (
            f"{what}: it found {self.told}, where nothing was lost; not found: {self._named}{also}"
        )

    @property
    def kept_back(self) -> str:
        """The same where the program has kept back others, which it wrote after their acks."""
        return f"{self._unwritten}: the program kept them in its own memory, which ends with it"

    @property
    def _unwritten(self) -> str:
        return (
            f"never written: {self._named} were acknowledged, and nothing was written from their "
            "first attempt to the cut"
        )

    @property
    def _named(self) -> str:
        return LsnRange.text_of(self.missing, _NAMED_MAX)


def best_of(tried: Sequence[PositiveControl]) -> PositiveControl | None:
    """The first that passed, else the last; None if none was tried."""
    return next((one for one in tried if one.passed), tried[-1] if tried else None)
