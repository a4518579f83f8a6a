# SPDX-License-Identifier: Apache-2.0
"""Crash states as a part of a verdict: what they say joins what the recording alone says.

A live cut samples one state, and the analysis of the recording knows bytes alone.  Whether what
leads to the bytes (a file system, an image format) is there after a cut, only recovery says.

1. States of each trial are recovered in the one order (powercut.crash.order), after each of which
   the workload may continue: what recovery takes for free may be an acknowledged record.  With the
   default budget none are of a trial that its own cut has convicted.
2. Nor of controls that must be LOSSY: what counts is what their cut lost.
3. A loss in a recovered state makes the trial LOSSY if whoever has the last word loses it, too
   (powercut.explore.confirmation).  A check that contradicts itself, or misses something in a state
   that lacks nothing, convicts nobody: what the cut has lost by it is no loss then, either.
4. SAFE needs recovered states, the one of nothing but what is durable among them.  Without, it
   is INCONCLUSIVE, unless the log lies on the bare disk, where bytes are all there is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Protocol

from powercut.checkers.acks import ACK_WINDOW
from powercut.checkers.judge import Judgement, without_conviction
from powercut.crash.order import AT_ACKS
from powercut.model.confidence import STATES_MIN
from powercut.model.contract import ATOMIC_UNIT
from powercut.model.errors import DamagedRecording, PowercutError
from powercut.model.operations import OperationHistory
from powercut.model.reached import Reached
from powercut.model.verdict import Finding, FindingKind, LsnRange, Origin, Verdict, lsn_ranges
from powercut.recording.reached import files_met
from powercut.recording.sealed import SealedTrial
from powercut.rig import commands
from powercut.scenario.settings import ControlKind
from powercut.store.exploration import ExplorationFinding, ExploreResult
from powercut.store.file_map import read_file_maps
from powercut.store.states_recovered import StatesRecovered
from powercut.store.trial_dir import TrialDir, TrialRecord
from powercut.store.trial_result import FindingRecord, TrialResult, lost_lsns
from powercut.workload.port import AcksByLines
from powercut.workload.table import is_recognised


class CrashStates(Protocol):
    """Recovers crash states of recordings (powercut.explore.trial)."""

    def recovered(self, sealed: SealedTrial, *, decided: bool) -> ExploreResult | None:
        """What the states of a recording that its settings ask for say; None if they ask for none.

        `decided` says that they can no longer change the verdict.  Raises PowercutError if they
        cannot be recovered.
        """

    def map_cut(self, sealed: SealedTrial) -> None:
        """Keeps where files lay at a cut that has convicted its trial, if it keeps anything."""


def with_states(sealed: SealedTrial, result: TrialResult, states: CrashStates) -> TrialResult:
    """`result` with what the crash states of its recording say; see the module.

    An exploration that is not possible makes the trial INCONCLUSIVE at best.
    """
    record = sealed.record
    if record.control not in (None, ControlKind.HONEST) or not _believable(sealed, result):
        return result
    convicted = result.verdict is Verdict.LOSSY
    # What is missing of the evidence keeps it from being SAFE whatever its states say.  Acks whose
    # instants are not known well enough count late, so that what is lost all the same is lost.
    missing = [f for f in result.findings if f.kind is FindingKind.INCOMPLETE]
    late_acks = all(ACK_WINDOW in f.detail for f in missing)
    seen: ExploreResult | None = None
    findings: list[Finding] = []
    try:
        seen = states.recovered(sealed, decided=convicted or not late_acks)
        findings = [] if seen is None else findings_of(seen)
    except PowercutError as error:
        findings = [_unknown(f"its crash states could not be explored: {error}")]
    recovered = None if seen is None else _states(seen)
    if not convicted:
        findings += _missing(record, result.commits_acked, recovered)
    elif seen is None and isinstance(sealed.workload, AcksByLines):
        states.map_cut(sealed)
    every = [*(record.finding() for record in result.findings), *findings]
    verdict = max(result.verdict, *(finding.verdict for finding in findings), Verdict.SAFE)
    if any(finding.kind is FindingKind.CONTROL for finding in findings):
        every, verdict = _unbelievable(every)
    # What a workload was promised that went on after a recovery is no record of this trial.
    lost = _of_this_run(sealed, result.commits_acked, lost_lsns(every))
    spent = {} if seen is None else {"explore": seen.seconds_in_all}
    return result.model_copy(
        update={
            "findings": tuple(FindingRecord.of(finding) for finding in every),
            "verdict": verdict,
            "commits_lost": sum(len(span) for span in lost),
            "lost_lsns": lost,
            "states": recovered,
            "reached": _reached(sealed.directory, result.reached),
            "untested": (*result.untested, *(() if seen is None else untested_states(seen))),
            "timings_s": result.timings_s | spent,
        }
    )


def untested_states(seen: ExploreResult, of: str = "its disk") -> Iterator[str]:
    """Crash states `of` a medium that there was no time for, or no need."""
    states, both, seconds = seen.budget.partition(",")
    looked_at, wanted = seen.coverage.distinct, int(states) if both else 0
    if looked_at < wanted and not seen.coverage.exhausted:
        sure = seen.coverage.makes_certain(looked_at, seen.coverage.lossy)
        why = "a loss was certain" if sure else f"its {seconds} were over"
        yield (
            f"{wanted - looked_at:,} of the {wanted:,} crash states of {of} that --budget asks "
            f"for: {why}"
        )


def _unbelievable(every: list[Finding]) -> tuple[list[Finding], Verdict]:
    """The same where the check was found out after the cut had been judged by it."""
    judgement = without_conviction(
        Judgement(tuple(every), Verdict.INCONCLUSIVE), "its check is not to be believed"
    )
    return list(judgement.findings), judgement.verdict


def _reached(trial: TrialDir, reached: Reached | None) -> Reached | None:
    """With what became of files, where the file system of its states was asked for them."""
    with suppress(DamagedRecording):  # it names files, and no verdict rests on it
        met = files_met(read_file_maps(trial))
        return None if reached is None else replace(reached, files=met)
    return reached


def _of_this_run(
    sealed: SealedTrial, last: int, lost: tuple[LsnRange, ...]
) -> tuple[LsnRange, ...]:
    """The part of `lost` that was acknowledged before the cut: up to `last`; of a program, whose
    operations are names and no count, by its lines.
    """
    if not isinstance(sealed.workload, AcksByLines):
        return tuple(LsnRange(one.first, min(one.last, last)) for one in lost if one.first <= last)
    try:
        claims = sealed.opened.promises.requirements if lost else None
    except PowercutError:
        return lost
    if not isinstance(claims, OperationHistory):
        return lost
    acked = frozenset(claims.acked.tolist())
    return lsn_ranges(one for span in lost for one in span if one in acked)


def _believable(sealed: SealedTrial, result: TrialResult) -> bool:
    """Whether crash states count: not of a disk that was not recorded, nor if the check of a
    program finds operations where none was tried, or misses some where nothing was lost.  The
    judge has said so (powercut.verdict.judge).
    """
    if sealed.is_live:
        return False
    workload = sealed.workload
    if not isinstance(workload, AcksByLines):
        return True
    if result.commits_acked and (result.positive is None or not result.positive.passed):
        return False
    try:
        return not workload.check_untouched(sealed.untouched)
    except DamagedRecording:
        return False


def _states(seen: ExploreResult) -> StatesRecovered:
    coverage = seen.coverage
    unknown = sum(f.states for f in seen.findings if f.kind is FindingKind.INCOMPLETE)
    loses = any(f.verdict is Verdict.LOSSY for f in seen.findings)
    return StatesRecovered(
        engine=seen.engine,
        states=max(0, coverage.distinct + coverage.recovery_states - unknown),
        decided=coverage.pruned - coverage.pruned_rerun,
        went_on=coverage.went_on,
        lossy=coverage.lossy if loses else 0,
        by_policy=coverage.by_policy,
        instants=coverage.instants,
        instants_all=coverage.instants_all,
        legal_log2=coverage.legal_log2,
        at_acks=coverage.at_acks,
    )


def _missing(record: TrialRecord, acked: int, states: StatesRecovered | None) -> Iterator[Finding]:
    recognised = is_recognised(record.parameters)
    if commands.is_bare(record.parameters) and recognised:
        return
    if states is None or not states.states:
        off = record.parameters.explore.budget == "off"
        why = " (explore.budget is off)" if off else ""
        yield _unknown(
            f"no crash state was recovered{why}: that the bytes of each record were durable does "
            "not show that recovery finds its way to them"
            if recognised
            else f"no crash state was recovered{why}, and its bytes cannot be traced on the disk"
        )
    elif states.states < STATES_MIN and not recognised:
        yield _unknown(
            f"only {states.states} states were recovered; SAFE takes {STATES_MIN} where the bytes "
            "cannot be traced on the disk"
        )
    elif acked and not states.by_policy.get(AT_ACKS):
        yield _unknown(
            f"no crash state of nothing but what was durable ({AT_ACKS}) was recovered: whatever "
            "else came back may be owed to writes that a power cut need not leave"
        )


_unknown = partial(Finding.unknown, origin=Origin.EXPLORATION)


def findings_of(result: ExploreResult) -> list[Finding]:
    """What an exploration found, one finding for each kind."""
    return [_finding(result, found) for found in result.findings]


def _finding(result: ExploreResult, found: ExplorationFinding) -> Finding:
    first = found.examples[0]
    doubt = ""
    if first.confirmation and first.confirmed != "yes":
        said = "was not borne out" if first.confirmed == "no" else "could not be asked for"
        who = f"{result.engine} loses it, which {said} by the last word"
        doubt = f" ({who}: {first.confirmation})"
    where = f"in crash state {first.id} ({first.policy}), " if first.id else ""
    more = found.states - 1
    checked = result.coverage.distinct + result.coverage.recovery_states
    others = f"; {more:,} other states of {checked:,} checked are like it" if more > 0 else ""
    torn = ""
    if found.torn_within:
        which = "this state" if found.states == 1 else f"{found.torn_within:,} of these states"
        if found.torn_within == found.states > 1:
            which = "any of these states"
        torn = (
            f"; a disk that writes an aligned block of {ATOMIC_UNIT:,} bytes whole or not at all "
            f"cannot leave {which}"
        )
    return Finding(
        found.kind,
        found.verdict,
        f"{where}{first.message}{others}{torn}{doubt}",
        lsn_ranges(lsn for span in found.lsns for lsn in span),
        {
            "engine": result.engine,
            "state": first.id,
            "policy": first.policy,
            "states": found.states,
            "states_checked": checked,
            "torn_within": found.torn_within,
            "confirmed": first.confirmed,
        },
        Origin.EXPLORATION,
        difference=first.difference,
    )
