# SPDX-License-Identifier: Apache-2.0
"""The checker of operations: what a program acknowledged, against what its own check found.

1. Acknowledged and not there: lost.  But a program may promise less: a `prefix` of what it
   acknowledged, of which only a hole is lost, one that is not there though a higher number is; or
   that it `opens` with what there is.
2. There and wrong: corrupt, if it was acknowledged.  If not, it is what a cut leaves of an
   operation that was under way, and no promise is broken: INCONCLUSIVE, as the check should have
   left it out.  But a program may promise that an operation is there whole, or not at all
   (`atomic`); then it is corrupt, too.
3. There and never tried: a phantom.  There, and tried only after the cut by what the program
   says: no disk does that; the program says it late, and the verdict is INCONCLUSIVE.
4. Tried and not acknowledged, or failed: may be there or not.
5. The store contradicts itself: not recovered.

A checker that did not look at everything says nothing by what it leaves out, so only 2, 3 and 5
remain; and what it leaves out makes the verdict INCONCLUSIVE at best.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection
from dataclasses import replace
from itertools import pairwise

from powercut.model.operations import OperationHistory, Sighting
from powercut.model.verdict import (
    Difference,
    Finding,
    FindingKind,
    LsnRange,
    Verdict,
    count_in,
    lsn_ranges,
    merged_ranges,
)

_NAMED_MAX = 4
_NOT_THERE = {
    "every": "acknowledged and not there",
    "prefix": "acknowledged and not there, though a later one is",
}
_WORDS_MAX = 100


def check_operations(
    history: OperationHistory,
    instant: int,
    sighting: Sighting,
    *,
    promised: frozenset[int] = frozenset(),
    tried: frozenset[int] = frozenset(),
) -> list[Finding]:
    """What is wrong with a state that a cut at `instant` (nanoseconds) has left.

    `promised` and `tried` are operations of a program that went on after an earlier recovery of
    the same disk.  The numbers of operations stand in the findings' `lsns`.
    """
    required = history.acked_before(instant) | promised
    attempted = history.attempted_before(instant) | tried
    wrong = {operation for operation, _ in sighting.wrong}
    difference = difference_of(required, attempted, sighting)
    findings = [
        Finding(FindingKind.NOT_RECOVERED, Verdict.LOSSY, f"the program's check says: {text}")
        for text in sighting.bad
    ]
    corrupt = wrong if history.atomic else wrong & required
    if corrupt:
        what = f"there and wrong ({_reasons(sighting, corrupt)})"
        findings.append(_of(FindingKind.CORRUPT, corrupt, what))
    if torn := wrong - corrupt:
        findings.append(_unfinished(sighting, torn))
    if not sighting.incomplete:
        missing = required - wrong - sighting.those_present(required)
        # Of operations of another life nobody knows the order.
        lost = _broken(history, missing, promised, sighting.those_present(attempted - tried))
        if lost:
            findings.append(_of(FindingKind.LOST, lost, _NOT_THERE[history.keeps]))
    findings += _never_tried(history, attempted, sighting)
    findings += [Finding.unknown(f"the program's check: {why}") for why in sighting.incomplete]
    return [
        replace(one, difference=difference) if one.verdict is Verdict.LOSSY else one
        for one in findings
    ]


def _broken(
    history: OperationHistory,
    missing: frozenset[int],
    promised: frozenset[int],
    there: frozenset[int],
) -> frozenset[int]:
    """Which of the acknowledged operations that are `missing` the program has promised to keep."""
    match history.keeps:
        case "every":
            return missing
        case "prefix":
            last = max(there, default=0)
            return frozenset(one for one in missing - promised if one < last)
        case "opens":
            return frozenset()


def doubts_before(
    sighting: Sighting,
    *,
    where: str = "on the disk on which only `setup` has run",
    of: str = "the disk after `setup` alone",
) -> list[str]:
    """Why a check cannot be believed by what it says before any operation was tried."""
    doubts = [f"the check, of {of}: {why}" for why in (*sighting.bad, *sighting.incomplete)]
    if sighting.present or sighting.wrong:
        doubts.insert(0, f"the check finds operations {where}")
    return doubts


def difference_of(
    required: frozenset[int], attempted: frozenset[int], sighting: Sighting
) -> Difference:
    """What the check found, against the operations that had to be there and those that might."""
    wrong = {operation for operation, _ in sighting.wrong}
    present = merged_ranges(sighting.present)
    there = sighting.those_present(attempted | required)
    missing = set() if sighting.incomplete else required - there - wrong
    words = [*sighting.bad, *(f"{number}: {text}" for number, text in sighting.wrong)]
    return Difference(
        acknowledged=len(required),
        found=count_in(present),
        missing=lsn_ranges(missing),
        changed=lsn_ranges(wrong),
        unacknowledged=lsn_ranges(there - required),
        never_tried=tuple(_phantoms(present, attempted | required)),
        words=tuple(words[:_WORDS_MAX]),
        complete=not sighting.incomplete,
    )


def _never_tried(
    history: OperationHistory, attempted: frozenset[int], sighting: Sighting
) -> list[Finding]:
    findings = []
    phantoms = _phantoms(sighting.present, history.names | attempted)
    if phantoms:
        count = sum(len(span) for span in phantoms)
        message = f"{count} operations are there and were never tried: {LsnRange.text_of(phantoms)}"
        # A program that does not keep to its own words may have tried them silently; and the last
        # words of a guest may have been on their way when its power went.
        silent = history.trouble or history.by_receipt
        verdict = Verdict.INCONCLUSIVE if silent else Verdict.LOSSY
        findings.append(Finding(FindingKind.NEVER_ATTEMPTED, verdict, message, tuple(phantoms)))
    late = sighting.those_present(history.names - attempted)
    if late:
        message = (
            f"{len(late)} operations are there whose attempt was announced later: "
            f"{LsnRange.text_of(lsn_ranges(late))}; `? N` comes before anything that N does"
        )
        findings.append(Finding.unknown(message))
    return findings


def _reasons(sighting: Sighting, operations: Collection[int]) -> str:
    told = [f"{number}: {text}" for number, text in sighting.wrong if number in operations]
    return "; ".join(told[:_NAMED_MAX])


def _unfinished(sighting: Sighting, operations: Collection[int]) -> Finding:
    """Of operations that are there and wrong and were never acknowledged."""
    spans = lsn_ranges(operations)
    message = (
        f"the check calls {LsnRange.text_of(spans)} wrong ({_reasons(sighting, operations)}), "
        "which was never acknowledged: an unfinished operation is no loss.  Leave it out of what "
        "`check` says, or have `run` say `atomic` if the program promises that none is ever seen"
    )
    return Finding.unknown(message, spans)


def _of(kind: FindingKind, operations: Collection[int], what: str) -> Finding:
    spans = lsn_ranges(operations)
    noun = "operation is" if len(operations) == 1 else "operations are"
    message = f"{len(operations)} {noun} {what}: {LsnRange.text_of(spans)}"
    return Finding(kind, Verdict.LOSSY, message, spans)


def _phantoms(present: Collection[LsnRange], attempted: frozenset[int]) -> list[LsnRange]:
    """The parts of `present` that were never tried, without counting through a huge range."""
    tried = sorted(attempted)
    gaps: list[LsnRange] = []
    for span in present:
        inside = tried[bisect_left(tried, span.first) : bisect_right(tried, span.last)]
        edges = [span.first - 1, *inside, span.last + 1]
        gaps += [LsnRange(low + 1, high - 1) for low, high in pairwise(edges) if high - low > 1]
    return gaps
