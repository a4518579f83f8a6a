# SPDX-License-Identifier: Apache-2.0
"""The rule of repetition: what loses something is asked again, and counts only if it is the same.

A check may fail for reasons of its own, and so may a recovery:

1. A state that loses something is recovered a second time.  What it does not lose again is a
   disagreement, which does not convict and lets nothing be SAFE.
2. A state that convicts is asked `ASKED` times in all, and must lose the same each time; no more is
   asked once one answer differs.  Of each kind of loss the first states are asked, until one
   convicts: the others, which were asked twice, say how far the check is to be believed.
3. Where more than one in `DIFFER_ONE_IN` of all repeats differs from the first answer, the check
   contradicts itself: no state convicts, whatever it has lost how often.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from powercut.model.positive import WHOLE_LOSES
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict, losses, merged_ranges

ASKED: Final = 5
TWICE: Final = 2
DIFFER_ONE_IN: Final = 10


@dataclass(frozen=True)
class Repeats:
    """How often states that lose something were asked again, and how many answers differed."""

    asked: int = 0
    differed: int = 0

    def __add__(self, other: Repeats) -> Repeats:
        return Repeats(self.asked + other.asked, self.differed + other.differed)

    @property
    def doubt(self) -> str:
        """Why the check convicts nobody; empty if it agrees with itself."""
        if self.differed * DIFFER_ONE_IN <= self.asked:
            return ""
        return (
            f"the check contradicts itself: asked again of the same states, it gave another answer "
            f"in {self.differed:,} of {self.asked:,} cases; so what it misses is no evidence"
        )


NOT_ASKED: Final = Repeats()


def loses(findings: Sequence[Finding]) -> bool:
    """Whether one of them is a loss."""
    return any(finding.verdict is Verdict.LOSSY for finding in findings)


def lose_the_same(one: Sequence[Finding], other: Sequence[Finding], *, nodes: Any = ()) -> bool:
    """Whether two looks at one state lost the same records, or both nothing.

    Of the `nodes` of a cluster some of the same: of the others decides who is elected.
    """
    if nodes and loses(one):
        return bool(losses(one) & losses(other))
    return losses(one) == losses(other)


Look = Callable[[], Sequence[Finding]]


def repeated(
    first: Sequence[Finding], look_again: Look, *, looks: int = TWICE, nodes: Any = ()
) -> tuple[tuple[Finding, ...], Repeats]:
    """The findings that count of a state of which `first` was found, after so many `looks` in all.

    Only a state that loses something is looked at again, until it says something else.
    """
    if not loses(first):
        return tuple(first), NOT_ASKED
    for number in range(1, looks):
        again = look_again()
        if not lose_the_same(first, again, nodes=nodes):
            kept = (finding for finding in first if finding.verdict is not Verdict.LOSSY)
            return (*kept, _not_repeated(first, again, number + 1)), Repeats(number, 1)
    return tuple(first), Repeats(looks - 1)


def without_whole(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """`findings` of a state that lacks nothing of what was written before the cut.

    What is lost there is a doubt about the check, or about the machine, and convicts nobody.
    """
    return tuple(
        Finding(
            FindingKind.CONTROL,
            Verdict.INCONCLUSIVE,
            f"{WHOLE_LOSES}: {finding.message}",
            finding.lsns,
        )
        if finding.verdict is Verdict.LOSSY
        else finding
        for finding in findings
    )


def _not_repeated(first: Sequence[Finding], again: Sequence[Finding], looks: int) -> Finding:
    lost = [finding for finding in first if finding.verdict is Verdict.LOSSY]
    said = "; ".join(finding.message for finding in again if finding.verdict is not Verdict.SAFE)
    spans: list[LsnRange] = [span for finding in lost for span in finding.lsns]
    often = "twice" if looks == TWICE else f"{looks} times"
    return Finding(
        FindingKind.DISAGREEMENT,
        Verdict.INCONCLUSIVE,
        f"not repeated: the state was recovered {often}, and what it loses differs: first "
        f"({'; '.join(finding.message for finding in lost)}), then ({said or 'nothing'})",
        merged_ranges(spans),
    )
