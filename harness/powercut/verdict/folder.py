# SPDX-License-Identifier: Apache-2.0
"""The verdict on a captured folder, from its recording and what its check found in crash states.

SAFE needs all of this; what is missing is told, and makes it INCONCLUSIVE:

1. The recording has no gap, and ten operations were acknowledged in it.
2. The check finds nothing in the folder as it was before the program's first attempt, and every
   acknowledged operation where nothing was lost.  Else no state is looked at: the check would
   neither convict nor acquit.  What nothing could carry is let out, and keeps it from being SAFE
   (powercut.model.positive).  What the command was refused, by what it printed, is told as a
   likely reason; of one that did its work all the same it is told as not tested.
3. The control: on a host that ignores every sync the check misses something.
4. Of the files that were written it has read one at least, and not their names and sizes alone;
   those that it did not read are named beside the verdict.  So are files outside of DIR, and
   if DIR leads to one, or has none itself, it is INCONCLUSIVE (powercut.model.outside).
5. `STATES_MIN` states were looked at, or all that there are; in none of them anything was lost,
   and none is unknown.

A state that loses something counts if it does so each time that it is asked
(powercut.checkers.repetition), and lacks something: where all that was written before the cut is
there, a loss is a doubt about the check, and no state convicts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from powercut.checkers.judge import run_checkers
from powercut.model.confidence import STATES_MIN, too_few_operations
from powercut.model.outside import Outside
from powercut.model.reads import some_of
from powercut.model.timeline import RequestKind
from powercut.model.verdict import Finding, FindingKind, Verdict
from powercut.recording.folder import FolderRecording
from powercut.recording.reached import reached_in_folder
from powercut.store.folder import CaptureResult, FolderSeen
from powercut.verdict.states import untested_states
from powercut.verdict.untested import untested_acks, untested_of_boots

_NOTICED: Final = (FindingKind.LOST, FindingKind.CORRUPT)


def verdict_of_capture(
    recording: FolderRecording, seen: FolderSeen, *, state_s: float
) -> CaptureResult:
    """The verdict on a recording of whose states this was `seen`; a check may take `state_s`."""
    explored, start, cut = seen.explored, recording.start_ns, recording.record.cut_ns
    alone = seen.reads is not None and not seen.reads.written
    outside = recording.outside(alone=alone)
    reasons = tuple(dict.fromkeys(_reasons(recording, seen, outside)))
    judgement = run_checkers(
        {
            "recording": lambda: [*map(Finding.unknown, reasons)],
            "states": lambda: [Finding(one.kind, one.verdict, "") for one in explored.findings],
        }
    )
    control = _control(seen)
    rows = [row for row in recording.space.rows if row.request.submitted_ns > start]
    return CaptureResult(
        verdict=judgement.verdict,
        reasons=reasons,
        control="" if control is None else control.name,
        promise=recording.promise.value,
        attempted=len(recording.history.attempted),
        acknowledged=len(recording.history.acked),
        start_ns=start,
        run_s=round((cut - start) / 1e9, 3),
        writes=sum(row.kind is not RequestKind.FLUSH and row.change is None for row in rows),
        syncs=sum(row.kind is RequestKind.FLUSH for row in rows),
        changes=sum(row.change is not None for row in rows),
        state_s=state_s,
        positive=seen.positive,
        reads=seen.reads,
        outside=outside,
        keeps=recording.history.keeps,
        untested=(*_untested(recording, reasons), *untested_states(explored, "its files")),
        reached=reached_in_folder(recording.folder, len(recording.history.acked), start, cut),
        explored=explored,
    )


def _reasons(recording: FolderRecording, seen: FolderSeen, outside: Outside) -> Iterator[str]:
    yield from recording.gaps
    if recording.doubts:
        return  # of the host's making: no state was looked at
    if few := too_few_operations(len(recording.history.acked)):
        yield few
        yield from recording.refused
    yield from seen.doubts
    if seen.positive is not None and not seen.positive.passed:
        yield seen.positive.kept_back if _early(seen) else seen.positive.message
        yield from recording.refused
        if kept := recording.record.inodes:
            yield (
                f"inode numbers of other files stand in {some_of(kept)}, and in a state's folder, "
                "which is made anew, files have others: let the check compare what files hold, or "
                "record the program on a disk (powercut record)"
            )
        if outside.words:
            yield outside.words
    if seen.reads is not None and seen.reads.blind:
        yield seen.reads.blind
    if outside.doubt:
        yield outside.doubt
    for found in seen.explored.findings:
        if found.kind is FindingKind.CONTROL:
            yield found.examples[0].message
    control = _control(seen)
    if control is None:
        return  # what the check says was not believed before
    if control is not Verdict.LOSSY:
        yield (
            "the control did not lose anything: on a host that ignores every sync the check missed "
            "nothing of what was acknowledged; so what it says is no evidence"
        )
    coverage = seen.explored.coverage
    if coverage.distinct < STATES_MIN and not coverage.lossy and not coverage.exhausted:
        yield f"only {coverage.distinct} states were looked at"


def _early(seen: FolderSeen) -> bool:
    """Whether an operation was acknowledged before it was written: a state loses it that lacks
    nothing of what had been issued by then.
    """
    return (
        seen.positive is not None
        and seen.positive.unwritten
        and any(
            found.kind is FindingKind.LOST
            and found.verdict is Verdict.LOSSY
            and any(not one.missing for one in found.examples)
            for found in seen.explored.findings
        )
    )


def _untested(recording: FolderRecording, reasons: Sequence[str]) -> Iterator[str]:
    yield from untested_acks(recording.history.keeps)
    if not recording.record.share:
        yield from untested_of_boots()
    yield from (why for why in recording.refused if why not in reasons)


def _control(seen: FolderSeen) -> Verdict | None:
    """What the same recording comes to on a host that ignores every sync; None if unknown.

    A check that only cannot read what is left there has missed nothing.
    """
    if seen.control is None:
        return None
    if any(finding.kind in _NOTICED for finding in seen.control):
        return Verdict.LOSSY
    return Verdict.INCONCLUSIVE if seen.control else Verdict.SAFE
