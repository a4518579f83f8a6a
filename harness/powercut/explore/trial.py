# SPDX-License-Identifier: Apache-2.0
"""Crash states as a part of a trial: what they say joins its verdict.

A live cut samples one state, and the analysis of the recording knows bytes alone.  Whether what
leads to the bytes (a file system, an image format) is there after a cut, only recovery says.

1. Each trial is surveyed (powercut.crash.survey), by default with `AUTO_STATES` states, after
   each of which the workload goes on: what recovery takes for free may be an acknowledged
   record.  With the default budget a trial that its own cut has convicted is not.
2. Controls that must be LOSSY are not surveyed: what counts is what their cut lost.
3. A loss in a recovered state makes the trial LOSSY if the recorded kernel loses it, too
   (powercut.explore.findings).
4. SAFE needs recovered states, the one of nothing but what is durable among them.  Without, it
   is INCONCLUSIVE, unless the log lies on the bare disk, where bytes are all there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Final

from powercut.checkers.acks import ACK_WINDOW
from powercut.crash.explore import InstantKind
from powercut.crash.legality import why_illegal
from powercut.crash.states import Model
from powercut.crash.survey import FIRST
from powercut.explore.explorer import explore
from powercut.explore.file_maps import map_losses
from powercut.explore.request import Budget, ExploreProgress, ExploreRequest
from powercut.model.contract import ATOMIC_UNIT
from powercut.model.enough import STATES_MIN
from powercut.model.errors import DamagedRecording, PowercutError
from powercut.model.machine import ImageFormat
from powercut.model.operations import OperationHistory
from powercut.model.verdict import (
    EvidenceLevel,
    Finding,
    FindingKind,
    LsnRange,
    Origin,
    Verdict,
    lsn_ranges,
)
from powercut.recording import state_ref
from powercut.recording.trial_recording import open_trial
from powercut.rig import commands
from powercut.rig.engine_shelf import EngineShelf
from powercut.scenario.settings import ControlKind, Parameters
from powercut.store.exploration import ExplorationFinding, ExploreResult, read_exploration
from powercut.store.trial_dir import TrialDir, TrialRecord
from powercut.store.trial_result import FindingRecord, StatesRecovered, TrialResult, lost_lsns
from powercut.workload.port import AcksByLines, Continues
from powercut.workload.table import is_recognised, workload_of

AUTO_STATES: Final = 64
"""States of one recording that budget `auto` recovers."""

AUTO_AFTER: Final = 16
"""Records by which the workload then goes on after each recovery."""

_PER_POLICY: Final = 64
"""States that one policy draws at one instant at most, where a recording has few."""


def wanted_by(
    parameters: Parameters, seed: int, *, jobs: int = 1, convicted: bool = False
) -> ExploreRequest | None:
    """What the scenario asks for; None if nothing.

    `convicted` says that the cut itself has lost something: `auto` then spends nothing.
    """
    settings = parameters.explore
    auto = settings.budget == "auto"
    if settings.budget == "off" or (auto and convicted):
        return None
    grows = parameters.machine.format is not ImageFormat.RAW
    workload = workload_of(parameters)
    # Starting a program twice for a state takes several times what its check does: by request.
    continues = isinstance(workload, Continues) and not isinstance(workload, AcksByLines)
    goes_on = continues and (grows or (auto and not commands.is_bare(parameters)))
    budget = Budget(AUTO_STATES) if auto else Budget.parse(settings.budget)
    if (auto or grows) and not settings.depth:
        # All of them of the recording itself: guests, which formats need, record no recoveries.
        budget = replace(budget, first=budget.states)
    return ExploreRequest(
        model=Model(settings.model.value),
        policies=tuple(policy.value for policy in settings.policies),
        at=tuple(InstantKind),
        budget=budget,
        engine=settings.engine.value,
        jobs=jobs,
        seed=seed,
        after=settings.after or (AUTO_AFTER if goes_on else 0),
        depth=settings.depth,
        per_policy=_PER_POLICY,
        survey=True,
    )


def as_before(trial: TrialDir, wanted: ExploreRequest) -> ExploreRequest:
    """`wanted`, to be done once more: what was found must be found again.

    The states that the earlier exploration named are looked at first; besides them as many
    are drawn as it had time for.  Second cuts are not named: what they rest on is not sealed.
    Raises DamagedRecording for a named state that is not legal.
    """
    earlier = read_exploration(trial)
    if earlier is None:
        if trial.read_binding().bound:
            return wanted
        # Recorded when states were no part of a verdict, and 512 bytes the unit of every disk: what
        # is asked of its states is what is asked of those of today.
        unit = trial.read_record().parameters.disk.atomic_unit
        return replace(wanted, atomic_unit=max(unit, ATOMIC_UNIT))
    space = open_trial(trial).space
    named = []
    for name in dict.fromkeys(one.id for found in earlier.findings for one in found.examples):
        if not name:
            continue
        state = state_ref.load(trial, name)
        if state.again is not None:
            continue
        problems = why_illegal(space, state)
        if problems:
            raise DamagedRecording(f"{trial.path}: state {name} is not legal: {problems[0]}")
        named.append(state)
    budget = wanted.budget
    if budget.seconds is not None:
        coverage = earlier.coverage
        states = max(1, coverage.distinct + coverage.recovery_states)
        budget = Budget(states=states, first=max(1, coverage.distinct))
    return replace(wanted, named=tuple(named), budget=budget)


def explored(
    trial: TrialDir,
    result: TrialResult,
    *,
    again: bool = False,
    jobs: int = 1,
    shelf: EngineShelf | None = None,
    on_event: Callable[[ExploreProgress], None] = lambda _: None,
) -> TrialResult:
    """`result` with what the crash states of its recording say; see the module.

    An exploration that is not possible makes the trial INCONCLUSIVE at best.  `again`
    repeats an earlier one and changes nothing on disk.
    """
    record = trial.read_record()
    if record.control not in (None, ControlKind.HONEST) or not _believable(trial, record):
        return result
    convicted = result.verdict is Verdict.LOSSY
    # What is missing of the evidence keeps it from being SAFE whatever its states say.  Acks whose
    # instants are not known well enough count late, so that what is lost all the same is lost.
    missing = [f for f in result.findings if f.kind is FindingKind.INCOMPLETE]
    late_acks = all(ACK_WINDOW in f.detail for f in missing)
    if again and missing and read_exploration(trial) is None:
        late_acks = False  # an older version did not look
    decided = convicted or not late_acks
    wanted = wanted_by(record.parameters, record.trial.seed, jobs=jobs, convicted=decided)
    seen: ExploreResult | None = None
    findings: list[Finding] = []
    if wanted is not None:
        try:
            if again:
                wanted = as_before(trial, wanted)
            seen = explore(trial, wanted, keep=not again, on_event=on_event, shelf=shelf)
            findings = findings_of(seen)
        except PowercutError as error:
            findings = [_unknown(f"its crash states could not be explored: {error}")]
    states = None if seen is None else _states(seen)
    spent = seen and ((read_exploration(trial) if again else None) or seen).seconds_in_all
    if not convicted:
        findings += _missing(record, result.commits_acked, states)
    elif seen is None and not again:
        _map_cut(trial, record)
    every = [*(record.finding() for record in result.findings), *findings]
    # What a workload was promised that went on after a recovery is no record of this trial.
    lost = _of_this_run(trial, record, result.commits_acked, lost_lsns(every))
    return result.model_copy(
        update={
            "findings": tuple(FindingRecord.of(finding) for finding in every),
            "verdict": max(
                result.verdict, *(finding.verdict for finding in findings), Verdict.SAFE
            ),
            "commits_lost": sum(len(span) for span in lost),
            "lost_lsns": lost,
            "states": states,
            "timings_s": result.timings_s | ({} if spent is None else {"explore": spent}),
        }
    )


def _of_this_run(
    trial: TrialDir, record: TrialRecord, last: int, lost: tuple[LsnRange, ...]
) -> tuple[LsnRange, ...]:
    """The part of `lost` that was acknowledged before the cut: up to `last`; of a program, whose
    operations are names and no count, by its lines.
    """
    if not isinstance(workload_of(record.parameters), AcksByLines):
        return tuple(LsnRange(one.first, min(one.last, last)) for one in lost if one.first <= last)
    try:
        claims = open_trial(trial).promises.requirements if lost else None
    except PowercutError:
        return lost
    if not isinstance(claims, OperationHistory):
        return lost
    acked = frozenset(claims.acked.tolist())
    return lsn_ranges(one for span in lost for one in span if one in acked)


def _map_cut(trial: TrialDir, record: TrialRecord) -> None:
    """Keeps where the files of a program lay at a cut that lost something; its states were not
    looked at.  Without, the story names fewer writes; the verdict stands.
    """
    if isinstance(workload_of(record.parameters), AcksByLines):
        with suppress(PowercutError):
            map_losses(open_trial(trial))


def _believable(trial: TrialDir, record: TrialRecord) -> bool:
    """Whether crash states count: not of a disk that was not recorded, nor if the check of a
    program finds operations where none was tried.  The judge has said so
    (powercut.trial.judge_lines).
    """
    if record.evidence_level is EvidenceLevel.LIVE_ONLY:
        return False
    workload = workload_of(record.parameters)
    if not isinstance(workload, AcksByLines):
        return True
    try:
        return not workload.check_untouched(trial.read_untouched())
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
    )


def _missing(record: TrialRecord, acked: int, states: StatesRecovered | None) -> Iterator[Finding]:
    """What a SAFE on a file system or in an image format would lack."""
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
            else f"no crash state was recovered{why}, and bytes are not recognised"
        )
    elif states.states < STATES_MIN and not recognised:
        yield _unknown(f"only {states.states} states were recovered, and bytes are not recognised")
    elif acked and not states.by_policy.get(FIRST):
        yield _unknown(
            f"no crash state of nothing but what was durable ({FIRST}) was recovered: whatever "
            "else came back may be owed to writes that a power cut need not leave"
        )


def _unknown(message: str) -> Finding:
    return Finding(FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE, message, origin=Origin.EXPLORATION)


def findings_of(result: ExploreResult) -> list[Finding]:
    """What an exploration found, one finding for each kind."""
    return [_finding(result, found) for found in result.findings]


def _finding(result: ExploreResult, found: ExplorationFinding) -> Finding:
    first = found.examples[0]
    doubt = ""
    if first.confirmation and first.confirmed != "yes":
        said = "loses nothing of it" if first.confirmed == "no" else "could not be asked"
        doubt = f" (User-Mode Linux loses it, and the recorded kernel {said}: {first.confirmation})"
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
