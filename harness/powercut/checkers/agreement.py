# SPDX-License-Identifier: Apache-2.0
"""The agreement checker: two independent ways to the same answer.

From the recording alone follows which required records have bytes that are not on the
surviving medium (crash/survival.py).  From the machine that recovered follows which
records came back.  So:

1. A record came back although its bytes are not on the medium: impossible.
   DISAGREEMENT, INCONCLUSIVE: a bug in powercut.  But if no write at all shows its bytes,
   something stores them in a form that the scan does not recognise: INCOMPLETE,
   INCONCLUSIVE, and what exposure analysis says of bytes never written is worth nothing.
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
from powercut.model.exposure import Survival
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict, lsn_ranges
from powercut.wal.layout import WalLayout

NOT_JUDGED = "bytes: not judged"
"""How a finding says that the scan does not recognise the records of this workload."""

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


def check_agreement(
    reading: LogReading,
    predicted: Survival,
    layout: WalLayout,
    unrecognised: tuple[LsnRange, ...] = (),
) -> list[Finding]:
    """DISAGREEMENT where recovery and recording cannot both be right.

    `unrecognised` are the required records of which no write shows all the bytes.
    """
    common = _common(reading.required, predicted.required)
    if common is None:
        return []
    uncertain = _lsns(predicted.uncertain, common)
    gone = _lsns(predicted.lost, common) - uncertain
    back = _lsns(reading.intact, common)
    findings = []
    ghosts = gone & back
    blind = ghosts & _lsns(unrecognised, common)
    if ghosts - blind:
        findings.append(
            _disagreement("came back although their bytes are not on the medium", ghosts - blind)
        )
    if blind:
        findings.append(bytes_not_judged(lsn_ranges(blind), "came back"))
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


def bytes_not_judged(lsns: tuple[LsnRange, ...], what: str) -> Finding:
    """Nothing follows from not having seen the bytes of records that `what`."""
    return Finding.unknown(
        f"{NOT_JUDGED}: records {LsnRange.text_of(lsns)} {what}, and no write to the disk shows "
        "all their bytes: something keeps them in another form (compressed, encrypted, at odd "
        "addresses); only recovered states can say whether they were durable",
        lsns,
        {"bytes": "not judged"},
    )


def _disagreement(what: str, lsns: set[int]) -> Finding:
    ranges = lsn_ranges(lsns)
    return Finding(
        FindingKind.DISAGREEMENT,
        Verdict.INCONCLUSIVE,
        f"records {LsnRange.text_of(ranges)} {what}: a bug in powercut, please report it",
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
