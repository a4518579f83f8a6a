# SPDX-License-Identifier: Apache-2.0
"""The WAL checker: claims against what was read back after recovery.

What it finds, and what that means:

1. A required record is gone.  LOST if no later required record came back; else
   UNSERIALIZABLE, or STALE where an older generation stands in the hole.  LOSSY.
2. A required record is TORN, CORRUPT, MISDIRECTED or UNREADABLE.  LOSSY.
3. A whole record came back that was never attempted: NEVER_ATTEMPTED.  LOSSY: recovery
   invented something.  Only parts of one: INCONCLUSIVE, since no reader would take it for
   a record, but an attempt must have been missed.
4. Where no required record belongs: bytes that were never written (CORRUPT), a record that
   belongs elsewhere (MISDIRECTED), a slot that cannot be read (UNREADABLE).  Nothing
   acknowledged is lost by it, and nothing of the kind may happen on a healthy machine:
   INCONCLUSIVE.  Absent, stale, torn or whole is all that an unacknowledged record may
   lawfully be, and no finding.
5. The system did not come back: NOT_RECOVERED.  LOSSY, if recovery was tried to its end
   (the observation is complete).
6. Recovery or the reader did not finish for a reason that is not the disk's, or nothing had
   been acknowledged: INCOMPLETE.  INCONCLUSIVE.  model/failure.py says which failure is which.
"""

from __future__ import annotations

import os

import numpy as np

from powercut.checkers.reading import Fate, LogReading, reading_of
from powercut.model.exposure import ranges_of
from powercut.model.failure import Failure
from powercut.model.history import History
from powercut.model.observation import Observation
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut.wal.layout import WalLayout


def required_after(
    history: History, layout: WalLayout, attempted: int | None = None
) -> LsnRange | None:
    """The records that must come back after the run that `history` tells of; None if none.

    `attempted` as in `check_wal`.
    """
    attempted = history.attempted if attempted is None else attempted
    first, last = layout.oldest_required(attempted), history.acked
    return LsnRange(first, last) if first <= last else None


def check_wal(
    history: History, observation: Observation, layout: WalLayout, attempted: int | None = None
) -> list[Finding]:
    """What recovery gave back after a whole run, against all its claims.

    `attempted` is the highest LSN that is known to have been attempted, where more is known
    than `history` says: a cut can swallow the message of an attempt whose write reached the
    disk, since a guest's writes and its messages travel separately.
    """
    findings = []
    attempted = history.attempted if attempted is None else attempted
    required = required_after(history, layout, attempted)
    if not history.acked:
        findings.append(Finding.unknown("nothing had been acknowledged, so nothing could be lost"))
    return findings + check_log(required, attempted, observation, layout)


def check_log(
    required: LsnRange | None, attempted: int, observation: Observation, layout: WalLayout
) -> list[Finding]:
    """What recovery of one crash state gave back: `required` records, `attempted` at most."""
    if not observation.recovered:
        return [_not_recovered(required, observation)]
    reading = reading_of(required, attempted, observation, layout)
    findings = _losses(reading) + _bystanders(reading)
    if not observation.complete:
        findings.append(_incomplete(reading, observation.failure, observation.cause))
    elif reading.unread:
        numbers = ", ".join(os.strerror(number) for number in sorted(reading.unread))
        findings.append(_incomplete(reading, numbers, Failure.SLOT_UNREAD))
    return findings


def _not_recovered(required: LsnRange | None, observation: Observation) -> Finding:
    why = observation.failure or "no reason was given"
    if not observation.complete:
        return _trouble(f"recovery could not be judged: {why}", (), observation.cause)
    return Finding(
        FindingKind.NOT_RECOVERED,
        Verdict.LOSSY,
        f"the system did not recover: {why}",
        (required,) if required else (),
        {"failure": why} | _named(observation.cause),
    )


def _incomplete(reading: LogReading, why: str, cause: Failure | None) -> Finding:
    unseen = reading.ranges(Fate.UNSEEN)
    why = why or "no reason was given"
    told = f"the log was not read to its end ({why}); unknown: {LsnRange.text_of(unseen)}"
    return _trouble(told, unseen, cause)


def _trouble(message: str, lsns: tuple[LsnRange, ...], cause: Failure | None) -> Finding:
    """What says nothing about the disk, with what to do next."""
    if cause is not None:
        message = f"{message}\n{cause.reason}; what to do: {cause.remedy}"
    return Finding.unknown(message, lsns, dict(_named(cause)))


def _named(cause: Failure | None) -> dict[str, object]:
    return {"cause": cause.label} if cause else {}


def _losses(reading: LogReading) -> list[Finding]:
    intact = reading.lsns(Fate.INTACT)
    last_intact = int(intact[-1]) if len(intact) else 0
    absent, stale = reading.lsns(Fate.ABSENT), reading.lsns(Fate.STALE)
    tail_absent, tail_stale = absent[absent > last_intact], stale[stale > last_intact]
    tail = ranges_of(np.union1d(tail_absent, tail_stale))
    text = LsnRange.text_of
    older = {"older generation in their slots": text(ranges_of(tail_stale))}
    losses = [
        (FindingKind.LOST, tail, "gone, and nothing required after them came back",
         older if len(tail_stale) else {}),
        (FindingKind.UNSERIALIZABLE, ranges_of(absent[absent < last_intact]),
         f"gone, although record {last_intact} came back", {}),
        (FindingKind.STALE, ranges_of(stale[stale < last_intact]),
         f"gone and an older generation is back, although record {last_intact} came back", {}),
        (FindingKind.TORN, reading.ranges(Fate.TORN), "there in part only", {}),
        (FindingKind.CORRUPT, reading.ranges(Fate.CORRUPT), "altered: never written so", {}),
        (FindingKind.MISDIRECTED, reading.ranges(Fate.MISDIRECTED), "in another record's place",
         {}),
        (FindingKind.UNREADABLE, reading.ranges(Fate.UNREADABLE), "impossible to read", {}),
    ]  # fmt: skip
    return [
        Finding(kind, Verdict.LOSSY, f"acknowledged and {what}: {text(lsns)}", lsns, dict(detail))
        for kind, lsns, what, detail in losses
        if lsns
    ]


def _bystanders(reading: LogReading) -> list[Finding]:
    others = reading.bystanders
    unknown, lossy = Verdict.INCONCLUSIVE, Verdict.LOSSY
    kinds = FindingKind
    bystanders = [
        (kinds.NEVER_ATTEMPTED, lossy, others.never_attempted,
         "records came back that were never attempted", True),
        (kinds.NEVER_ATTEMPTED, unknown, others.never_attempted_part,
         "parts of records came back that were never attempted", True),
        (kinds.MISDIRECTED, unknown, others.misdirected,
         "records stand where they do not belong, none of them missing", True),
        (kinds.CORRUPT, lossy, others.emptied_slots,
         "records of the earlier log in the backing image are gone, and no write came there: slots",
         False),
        (kinds.CORRUPT, unknown, others.corrupt_slots,
         "bytes that were never written, where no required record belongs, in slots", False),
        (kinds.UNREADABLE, unknown, others.unreadable_slots,
         "cannot be read, but no required record belongs there: slots", False),
    ]  # fmt: skip
    findings = []
    for kind, verdict, ranges, what, are_lsns in bystanders:
        if ranges:
            text = LsnRange.text_of(ranges)
            lsns = tuple(ranges) if are_lsns else ()
            detail = {} if are_lsns else {"slots": text}
            findings.append(Finding(kind, verdict, f"{what}: {text}", lsns, dict(detail)))
    return findings


# What a restart may have lost has to stay where it can be missed.


def wrapped_after_restart(history: History, layout: WalLayout, attempted: int) -> str:
    """Why a loss at a restart may not be seen, in words; empty if it would be.

    A log that wraps after its guest was restarted takes the places of records that were to be
    there when it booted, which was not observed.
    """
    restarts = [each for each in history.handovers if each.restarted]
    if not restarts or not layout.wraps:
        return ""
    before = int(history.attempt_lsn[: restarts[-1].attempts].max(initial=0))
    if layout.oldest_required(attempted) == layout.oldest_required(before):
        return ""
    return "the log wrapped after a restart, over records that the restart may have lost"


def check_restarts(history: History, layout: WalLayout, attempted: int) -> list[Finding]:
    """INCONCLUSIVE if a loss at a restart may not be seen."""
    why = wrapped_after_restart(history, layout, attempted)
    return [Finding.unknown(why)] if why else []
