# SPDX-License-Identifier: Apache-2.0
"""The agreement checker: two independent ways to the same answer.

From the recording alone follows which required records have bytes that are not on the
surviving medium (crash/survival.py).  From the machine that recovered follows which
records came back.  So:

1. A record came back although its bytes are not on the medium: impossible.
   DISAGREEMENT, INCONCLUSIVE: a bug in powercut.
2. Raw log: a record did not come back although all its bytes are in its place: the
   same.  Only for a slot that cannot be read the medium is not asked.
3. File system or image format: a record did not come back although its bytes are on the
   medium.  That is a loss like any other, and this says why: what led to the bytes is
   gone.
4. Records whose prediction hangs on a write in flight agree with everything.
"""

from __future__ import annotations

import dataclasses

from powercut.checkers.reading import Fate, LogReading
from powercut.checkers.wal import ranges_text
from powercut.model.exposure import Survival
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict, lsn_ranges
from powercut.model.wal import WalLayout

_LOSSES = frozenset(
    {
        FindingKind.LOST,
        FindingKind.UNSERIALIZABLE,
        FindingKind.STALE,
        FindingKind.TORN,
        FindingKind.CORRUPT,
        FindingKind.MISDIRECTED,
        FindingKind.UNREADABLE,
    }
)
"""Losses of which the medium says whether the bytes themselves are gone."""


def check_agreement(reading: LogReading, predicted: Survival, layout: WalLayout) -> list[Finding]:
    """DISAGREEMENT where recovery and recording cannot both be right."""
    common = _common(reading.required, predicted.required)
    if common is None:
        return []
    uncertain = _lsns(predicted.uncertain, common)
    gone = _lsns(predicted.lost, common) - uncertain
    back = _lsns(reading.intact, common)
    findings = []
    if ghosts := gone & back:
        findings.append(
            _disagreement("came back although their bytes are not on the medium", ghosts)
        )
    if layout.in_place:
        unreadable = _lsns(reading.ranges(Fate.UNREADABLE), common)
        missing = _lsns(reading.lost, common) - gone - uncertain - unreadable
        if missing:
            findings.append(
                _disagreement("did not come back although their bytes are on the medium", missing)
            )
    return findings


def explain_losses(
    findings: list[Finding], predicted: Survival, layout: WalLayout
) -> list[Finding]:
    """The same findings; where a map leads to the bytes, losses say which were only unreachable."""
    if layout.in_place or predicted.required is None:
        return findings
    known = _lsns((predicted.required,), predicted.required)
    on_medium = known - _lsns(predicted.lost, predicted.required)
    on_medium -= _lsns(predicted.uncertain, predicted.required)
    explained = []
    for finding in findings:
        unreachable = {lsn for lsn in _every(finding.lsns) if lsn in on_medium}
        if finding.kind in _LOSSES and unreachable:
            explained.append(dataclasses.replace(finding, unreachable=lsn_ranges(unreachable)))
        else:
            explained.append(finding)
    return explained


def _disagreement(what: str, lsns: set[int]) -> Finding:
    ranges = lsn_ranges(lsns)
    return Finding(
        FindingKind.DISAGREEMENT,
        Verdict.INCONCLUSIVE,
        f"records {ranges_text(ranges)} {what}: a bug in powercut, please report it",
        ranges,
    )


def _common(a: LsnRange | None, b: LsnRange | None) -> LsnRange | None:
    """What both ways were asked about: each knows of attempts that the other may have missed."""
    if a is None or b is None:
        return None
    first, last = max(a.first, b.first), min(a.last, b.last)
    return LsnRange(first, last) if first <= last else None


def _every(ranges: tuple[LsnRange, ...]) -> set[int]:
    return {lsn for r in ranges for lsn in r}


def _lsns(ranges: tuple[LsnRange, ...], within: LsnRange) -> set[int]:
    clipped = (LsnRange(max(r.first, within.first), min(r.last, within.last)) for r in ranges)
    return {lsn for r in clipped for lsn in r}
