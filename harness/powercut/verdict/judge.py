# SPDX-License-Identifier: Apache-2.0
"""The verdict on one recording, from what is on disk and from nothing else.

`verdict_of` is the only way to one: a live run, `powercut verify`, bundles, certificates and hosts
of a cluster call it on the same files; so they cannot differ.

What was claimed chooses the checkers: records of a log, whose bytes are known in the captured
writes (powercut.verdict.records), or operations of a program, which its own check looks for
(powercut.verdict.judge).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import numpy as np

from powercut.checkers.judge import Checker, Judgement, run_checkers, without_conviction
from powercut.crash.states import StateSpace
from powercut.crash.whole import lacks_nothing
from powercut.disk.pclog import injected_errors
from powercut.model.confidence import too_few_operations
from powercut.model.errors import DamagedRecording
from powercut.model.events import Phase
from powercut.model.observation import Observation
from powercut.model.operations import OperationHistory, Sighting
from powercut.model.positive import PositiveControl, Whole
from powercut.model.reached import Reached
from powercut.model.timeline import RequestKind, Timeline
from powercut.model.units import NEVER, Instant
from powercut.model.verdict import Finding, FindingKind, Verdict, lsn_ranges
from powercut.recording.disk import cut_state
from powercut.recording.reached import reached_on_disk
from powercut.recording.sealed import SealedTrial, doubts_of
from powercut.scenario.settings import ControlKind
from powercut.store.loss_story import LossStory
from powercut.store.trial_dir import TrialRecord
from powercut.store.trial_result import AckInstants, DiskShare, TrialResult, lost_lsns
from powercut.verdict.loss_story import program_story_of
from powercut.verdict.reading import Gaps, observation_of
from powercut.verdict.records import RecordsClaimed
from powercut.verdict.states import CrashStates, with_states
from powercut.verdict.untested import untested_acks, untested_of_program
from powercut.workload.port import AcksByLines, Promises
from powercut.workload.program.claims import sighting_of
from powercut.workload.program.promises import ProgramPromises


def verdict_of(
    sealed: SealedTrial,
    states: CrashStates,
    notify: Callable[[Phase], None] = lambda _: None,
) -> TrialResult:
    """The verdict that a recording deserves, with what its crash states say.

    `notify` hears what it is busy with.  Raises DamagedRecording as `judge_recording` does.
    """
    notify(Phase.JUDGE)
    result = judge_recording(sealed)
    notify(Phase.EXPLORE)
    return with_states(sealed, result, states)


def judge_recording(sealed: SealedTrial) -> TrialResult:
    """What a recording says without its crash states.  Writes nothing.

    Raises DamagedRecording if even trial.json cannot be read, or says another level of evidence
    than its settings make; all other damage is a finding and makes the verdict INCONCLUSIVE at
    best.
    """
    record = sealed.record
    by_lines = isinstance(sealed.workload, AcksByLines)
    sealed.check_level()
    gaps = Gaps(sealed)
    timeline = None if sealed.is_live else gaps.read(lambda: sealed.disk_log)
    claimed = (OperationsClaimed if by_lines else RecordsClaimed)(sealed, timeline, gaps)
    checkers = {"recording": lambda: gaps.findings, **claimed.checkers()}
    judgement = claimed.weighed(run_checkers(checkers))
    return TrialResult.judged(
        record.trial,
        verdict=max(judgement.verdict, Verdict.SURVIVED) if sealed.is_live else judgement.verdict,
        evidence_level=record.evidence_level,
        findings=judgement.findings,
        in_flight=timeline.in_flight if timeline is not None else None,
        timings_s=record.timings_s,
        result_directory=sealed.directory.relative,
        binding=sealed.binding.name,
        disks=() if timeline is None else disk_shares(timeline),
        **claimed.told(judgement),
    )


# What each of several disks was asked before the cut: which of them lied, or was never flushed.


def disk_shares(timeline: Timeline) -> tuple[DiskShare, ...]:
    """A share for each of several disks; empty if there is one alone."""
    requests = timeline.requests
    end = int(NEVER) if timeline.cut is None else int(timeline.cut.at)
    done = requests.completed_ns < end
    flush = requests.kind == RequestKind.FLUSH
    shares = []
    for disk in timeline.disks:
        its = done & (requests.offset >= disk.begin) & (requests.offset < disk.end)
        asked = np.flatnonzero(its & (flush | requests.fua)).tolist()
        shares.append(
            DiskShare(
                name=disk.name,
                writes=int((its & ~flush).sum()),
                flushes=len(asked),
                ignored=sum(timeline.ignored(index) for index in asked),
            )
        )
    return tuple(shares)


# Operations of a program: what it claimed against what its own check found.
#
# Its bytes are not recognised, so there is no exposure analysis: SAFE rests on what was recovered,
# after the cut and in crash states (powercut.explore.trial).

_BOTH: Final = (
    "the cut left all that was written before it, and on a disk of the same bytes the check found "
    "every operation: it contradicts itself"
)
_NAMED_MAX: Final = 4
_MUST_LOSE: Final = (ControlKind.LYING_DISK, ControlKind.NO_SYNC)


class OperationsClaimed:
    """The operations that a program claimed, with what there is of its evidence."""

    def __init__(self, sealed: SealedTrial, timeline: Timeline | None, gaps: Gaps) -> None:
        """Tells the `gaps` what is missing; `timeline` is that of the disk."""
        self._sealed, self._timeline = sealed, timeline
        record, self._doubts = sealed.record, tuple[str, ...]()
        packets = gaps.read(lambda: sealed.lines)
        self._observation = gaps.read(lambda: observation_of(sealed))
        self._untouched = None
        # Its trouble explains why there is none.
        if sealed.directory.untouched.exists() or not record.trouble:
            self._untouched = gaps.read(lambda: sealed.untouched)
        if timeline is not None:
            self._doubts = doubts_of(timeline, packets or (), record.damage)
            gaps.add(*self._doubts, *_not_met(record, timeline))
            if timeline.cut is None or int(timeline.cut.at) != record.cut_ns:
                gaps.add("the disk log is not that of this cut")
        elif sealed.is_live:
            self._doubts = record.damage
            gaps.add(*self._doubts, *_no_cut(record))
        self._promises = None if packets is None else sealed.promises
        blind = record.control not in (None, ControlKind.HONEST)
        if blind and isinstance(self._promises, ProgramPromises):
            self._promises = self._promises.of_every_ack()
        if self._promises is not None:
            gaps.add(*_gaps_of(self._promises))
        self._positive = None if self._promises is None else sealed.positive

    def checkers(self) -> dict[str, Checker]:
        """By their names."""
        checkers: dict[str, Checker] = {}
        workload, promises, seen = self._sealed.workload, self._promises, self._observation
        assert isinstance(workload, AcksByLines)
        if self._untouched is not None:
            unbelievable = list(workload.check_untouched(self._untouched))
            checkers["untouched"] = lambda: unbelievable
            if not unbelievable and promises is not None and seen is not None:
                live = self._sealed.is_live
                checkers["operations"] = lambda: _after_cut(promises, seen, live=live)
        checkers["control"] = lambda: [*_blind(self._sealed.record, self._positive)]
        return checkers

    def weighed(self, judgement: Judgement) -> Judgement:
        """Without conviction where the host, the check or the control is in doubt."""
        judgement = _with_unwritten(judgement, self._sealed, self._positive)
        if self._doubts:
            return without_conviction(judgement, "; ".join(self._doubts))
        if why := _unbelieved(self._timeline, self._promises, self._positive, judgement):
            return without_conviction(judgement, why)
        if _must_notice(self._sealed.record, judgement) and not _noticed(judgement):
            return without_conviction(judgement, "its check has missed nothing")
        return judgement

    def told(self, judgement: Judgement) -> dict[str, Any]:
        """What a result says of operations."""
        promises, timeline = self._promises, self._timeline
        history = None if promises is None else promises.requirements
        keeps = history.keeps if isinstance(history, OperationHistory) else "every"
        untested = untested_of_program(self._sealed.record, self._positive)
        return {
            "acked": promises.acked if promises is not None else 0,
            "attempted": promises.attempted if promises is not None else 0,
            "acks": None if promises is None else _how_well_dated(promises),
            "loss": _story(timeline, promises, judgement),
            "positive": self._positive,
            "keeps": keeps,
            "untested": (*untested_acks(keeps), *untested),
            "reached": _reached(timeline, promises),
            "injected": () if timeline is None else tuple(_injected(timeline)),
        }


def _with_unwritten(
    judgement: Judgement, sealed: SealedTrial, positive: PositiveControl | None
) -> Judgement:
    """`judgement`, which names what was lost because the disk was never given it.

    No write could carry what the check does not find with every write that was issued, if it finds
    such operations after a run that ended without a cut.
    """
    if positive is None or positive.where is not Whole.ENDED or not positive.passed:
        return judgement
    with suppress(DamagedRecording):
        issued = sealed.issued
        if issued is not None and issued.recovered and issued.complete:
            seen = sighting_of(issued)
            wrong = {operation for operation, _ in seen.wrong}
            findings = tuple(_unwritten(one, seen, wrong) for one in judgement.findings)
            return replace(judgement, findings=findings)
    return judgement


def _unwritten(finding: Finding, issued: Sighting, wrong: set[int]) -> Finding:
    if finding.kind is not FindingKind.LOST:
        return finding
    lost = {operation for span in finding.lsns for operation in span}
    never = lsn_ranges(lost - issued.those_present(lost) - wrong)
    if not never:
        return finding
    named = ", ".join(map(str, never[:_NAMED_MAX])) + (" and more" if never[_NAMED_MAX:] else "")
    told = f"never written: no write that was issued before the cut carries {named}"
    return replace(finding, message=f"{finding.message}; {told}")


def _unbelieved(
    timeline: Timeline | None,
    promises: Promises | None,
    positive: PositiveControl | None,
    judgement: Judgement,
) -> str:
    """Why the check convicts nobody; empty if it may.

    Where the cut lacks nothing, the check has found every ack on a disk of the same bytes: what it
    misses after such a cut is a doubt about the check, or about the machine.
    """
    if positive is not None and not positive.passed:
        return "the check does not see what is there"
    if timeline is None or promises is None or judgement.verdict is not Verdict.LOSSY:
        return ""
    if positive is None or positive.where is not Whole.ISSUED or timeline.cut is None:
        return ""
    space = StateSpace(timeline, promises.requirements)
    whole = lacks_nothing(space, cut_state(space), int(timeline.cut.at))
    return _BOTH if whole else ""


def _reached(timeline: Timeline | None, promises: Promises | None) -> Reached | None:
    if timeline is None or promises is None:
        return None
    return reached_on_disk(timeline, promises.acked, promises.start_ns)


def _not_met(record: TrialRecord, timeline: Timeline) -> Iterator[str]:
    if record.parameters.disk.errors and not injected_errors(timeline):
        yield "no request met an error of disk.errors: nothing of them was tested"


def _injected(timeline: Timeline) -> Iterator[str]:
    """Of each kind that was made the first request, and how many there were."""
    kinds: dict[str, list[tuple[Instant, str]]] = {}
    for at, what in injected_errors(timeline):
        kinds.setdefault(re.sub("(, | of )[^:]*", "", what), []).append((at, what))
    for made in kinds.values():
        at, what = made[0]
        told = f"{what}, {(int(at) - int(timeline.start_ns)) / 1e9:.3f} s after power-on"
        yield told if len(made) == 1 else f"{told}, the first of {len(made):,}"


def _blind(record: TrialRecord, positive: PositiveControl | None) -> Iterator[Finding]:
    if record.creation is not None and record.creation.doubt:
        yield Finding(FindingKind.CONTROL, Verdict.INCONCLUSIVE, record.creation.doubt)
    if positive is not None and not positive.passed:
        yield Finding(FindingKind.CONTROL, Verdict.INCONCLUSIVE, positive.message)
    if record.reads is not None and record.reads.blind:
        yield Finding(FindingKind.CONTROL, Verdict.INCONCLUSIVE, record.reads.blind)
    if record.outside is not None and record.outside.doubt:
        yield Finding(FindingKind.CONTROL, Verdict.INCONCLUSIVE, record.outside.doubt)


def _no_cut(record: TrialRecord) -> list[str]:
    return ["there was no cut"] if record.cut_ns is None else []


def _gaps_of(promises: Promises) -> Iterator[str]:
    yield from promises.gaps
    if few := too_few_operations(promises.acked):
        yield few


def _story(
    timeline: Timeline | None, promises: Promises | None, judgement: Judgement
) -> LossStory | None:
    if timeline is None or promises is None or judgement.verdict is not Verdict.LOSSY:
        return None
    history = promises.requirements
    if not isinstance(history, OperationHistory):
        return None
    lost = [one for one in judgement.findings if one.kind is FindingKind.LOST]
    return program_story_of(timeline, history, lost_lsns(lost))


def _how_well_dated(promises: Promises) -> AckInstants | None:
    """Lines from User-Mode Linux have the disk's clock; those of a virtual machine its own, which
    is bounded; others count from their receipt."""
    history = promises.requirements
    if not isinstance(history, OperationHistory) or not history.by_receipt:
        return None
    assert history.proof is not None
    return AckInstants.of(history.proof)


def _must_notice(record: TrialRecord, judgement: Judgement) -> bool:
    """Whether a control is worth nothing if its check has missed nothing.

    That no flush was needed says something of the disk, and so stands.
    """
    if record.control is ControlKind.NO_FLUSH:
        return judgement.verdict is Verdict.LOSSY
    return record.control in _MUST_LOSE


def _noticed(judgement: Judgement) -> bool:
    """Whether the check missed something: a disk that does not mount is not of its doing."""
    kinds = {finding.kind for finding in judgement.findings if finding.verdict is Verdict.LOSSY}
    return not kinds.isdisjoint({FindingKind.LOST, FindingKind.CORRUPT})


def _after_cut(promises: Promises, observation: Observation, *, live: bool) -> list[Finding]:
    """Against all that was received.

    Where nothing but the cut is seen, what came back was attempted, even if the cut swallowed the
    announcement (as in powercut.verdict.records).
    """
    found = promises.check(promises.claims_received(), observation)
    return [one for one in found if not live or one.kind is not FindingKind.NEVER_ATTEMPTED]
