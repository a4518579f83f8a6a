# SPDX-License-Identifier: Apache-2.0
"""Findings, the verdicts that they add up to, and the evidence that a verdict rests on."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

Confirmed = Literal["yes", "no", "not tried"]
"""What the recorded system says of a loss that another found; "not tried": it said nothing."""


class EvidenceLevel(enum.Enum):
    """What a trial leaves to be judged; fixed before the run, and sealed with it."""

    RECORDED = "recorded"  # every request of its disk, and what the cut left
    LIVE_ONLY = "live-only"  # what came back after the cut, and nothing of its disk


class Verdict(enum.IntEnum):
    """The worst wins.  What is unknown is not a pass.

    SURVIVED is the best that cuts alone can come to (`EvidenceLevel.LIVE_ONLY`): each of them lost
    nothing, and of what another cut may leave nothing is known.  It is no SAFE, which rests on
    every request of the disk; what asks for SAFE does not get by with it.
    """

    SAFE = 0
    SURVIVED = 1
    INCONCLUSIVE = 2
    LOSSY = 3

    @staticmethod
    def worst(verdicts: Iterable[Verdict]) -> Verdict:
        """The worst of `verdicts`; INCONCLUSIVE if there is none to go by."""
        return max(verdicts, default=Verdict.INCONCLUSIVE)


class FindingKind(enum.Enum):
    """What is wrong.  The kinds before NOT_RECOVERED say so of single records."""

    LOST = "lost"  # a required record is gone, and so is everything after it
    UNSERIALIZABLE = "unserializable"  # it is gone, and a later required one is there
    TORN = "torn"
    CORRUPT = "corrupt"
    STALE = "stale"
    MISDIRECTED = "misdirected"
    NEVER_ATTEMPTED = "never-attempted"  # a record came back that was never written
    UNREADABLE = "unreadable"
    EXPOSED = "exposed"  # acked while a legal crash state still lost it
    NOT_RECOVERED = "not-recovered"  # the system did not come back
    DISAGREEMENT = "disagreement"  # two ways to the same answer differ: a bug in powercut
    NOT_AS_CONFIGURED = "not-as-configured"  # the guest does not see what was configured
    INCOMPLETE = "incomplete"  # part of the evidence is missing
    CONTROL = "control"  # a run whose outcome is known in advance went otherwise


@dataclass(frozen=True)
class LsnRange:
    """LSNs from `first` to `last`, both included."""

    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.last + 1))

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"

    @staticmethod
    def text_of(ranges: Iterable[LsnRange], shown: int = 8) -> str:
        """The first of `ranges`, how many LSNs the rest has: "1-3, 7 and 27 more", or "none"."""
        spans = list(ranges)
        left = sum(map(len, spans[shown:]))
        text = ", ".join(map(str, spans[:shown])) or "none"
        return f"{text} and {left:,} more" if left else text


def lsn_ranges(lsns: Iterable[int]) -> tuple[LsnRange, ...]:
    """The fewest ranges that cover exactly `lsns`, in rising order."""
    ranges: list[LsnRange] = []
    for lsn in sorted(set(lsns)):
        if ranges and ranges[-1].last == lsn - 1:
            ranges[-1] = LsnRange(ranges[-1].first, lsn)
        else:
            ranges.append(LsnRange(lsn, lsn))
    return tuple(ranges)


class Origin(enum.Enum):
    """What a finding is about."""

    CUT = "cut"  # what came back after the cut, or the recording of the run
    EXPLORATION = "exploration"  # crash states that the cut might have left instead


def merged_ranges(spans: Iterable[LsnRange]) -> tuple[LsnRange, ...]:
    """The fewest ranges that cover exactly what `spans` do, in rising order."""
    ranges: list[LsnRange] = []
    for span in sorted(spans, key=lambda span: span.first):
        if ranges and span.first <= ranges[-1].last + 1:
            ranges[-1] = LsnRange(ranges[-1].first, max(ranges[-1].last, span.last))
        else:
            ranges.append(span)
    return tuple(ranges)


def count_in(spans: Iterable[LsnRange]) -> int:
    """How many numbers `spans` hold, which share none; `len` ends at 2^63."""
    return sum(span.last - span.first + 1 for span in spans)


@dataclass(frozen=True)
class Difference:
    """What a program's check found in a store, against what was acknowledged.

    `acknowledged` operations had to be there; `found` are there and right.  `missing` are
    acknowledged and not there, `changed` there and wrong; of those found `unacknowledged` had
    been tried without an ack, and `never_tried` not even that.  `words` are the check's own on
    what is wrong.  A check that did not look at everything is not `complete`: what it does not
    name may be there, and nothing is `missing`.
    """

    acknowledged: int
    found: int
    missing: tuple[LsnRange, ...] = ()
    changed: tuple[LsnRange, ...] = ()
    unacknowledged: tuple[LsnRange, ...] = ()
    never_tried: tuple[LsnRange, ...] = ()
    words: tuple[str, ...] = ()
    complete: bool = True


@dataclass(frozen=True)
class Finding:
    """One thing that a checker has to say; `verdict` is what it alone implies.

    `unreachable` are those of `lsns` whose bytes are on the medium all the same: what led to them
    is gone.  `difference` is all that the check of a program found in the same state.
    """

    kind: FindingKind
    verdict: Verdict
    message: str
    lsns: tuple[LsnRange, ...] = ()
    detail: dict[str, object] = field(default_factory=dict)
    origin: Origin = Origin.CUT
    unreachable: tuple[LsnRange, ...] = ()
    difference: Difference | None = None

    @classmethod
    def unknown(
        cls,
        message: str,
        lsns: tuple[LsnRange, ...] = (),
        detail: dict[str, object] | None = None,
        origin: Origin = Origin.CUT,
    ) -> Finding:
        """Part of the evidence is missing: what of it nothing can be said, and why."""
        return cls(
            FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE, message, lsns, detail or {}, origin
        )


def losses(findings: Iterable[Finding]) -> set[tuple[FindingKind, int]]:
    """Every record that LOSSY findings name, with the way in which it is lost; LSN 0 for none.

    Torn, corrupt and missing are one way: which of them a reader says is a matter of its own.
    """
    own = (FindingKind.NOT_RECOVERED, FindingKind.NEVER_ATTEMPTED)
    return {
        (finding.kind if finding.kind in own else FindingKind.LOST, lsn)
        for finding in findings
        if finding.verdict is Verdict.LOSSY
        for lsn in ([lsn for span in finding.lsns for lsn in span] or [0])
    }
