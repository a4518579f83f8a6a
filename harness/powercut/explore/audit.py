# SPDX-License-Identifier: Apache-2.0
"""What each flush and FUA of a recording was worth: by bytes, and by recovered states.

The analysis (crash/audit.py) decides two classes of promises: those that carry records, where the
workload's bytes are recognised, and those that are idle.  Between them lie promises that made
something durable which is no acknowledged record: a journal, an inode, or whatever a program
writes.  For these, states are recovered that are legal only on a disk that ignores just them:

1. at acks between its completion and the instant at which what hangs on it is durable anyway,
   the last first, since most is promised then; then at the completions of other promises in
   that time, for an order between two writes can be what it is there for;
2. at each, the state of nothing but what is durable, the one in which everything survives but
   what hangs on it, and one in which half of the rest survives, drawn: a journal of undo records
   is missed only by those who wrote a part of what it undoes;
3. a state that loses something is recovered once more with what hangs on the promise, which
   makes it a state of the real disk.  Only if that loses nothing was the promise needed.

Promises that made the same kinds of things durable form a group.  Groups take turns, and in each
group promises in an order of which every beginning is spread over the run: a small budget has
looked at all groups and all parts of the run.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Final

import numpy as np

from powercut import __version__
from powercut.crash.audit import Carried, Dependence, carried, delayed, dependence, promises
from powercut.crash.evidence import Evidence, last_event_ns
from powercut.crash.explore import InstantKind, events
from powercut.crash.exposure import exposure
from powercut.crash.states import CrashState, StateSpace
from powercut.crash.survey import spread
from powercut.explore.audit_callers import callers_of
from powercut.explore.request import Budget
from powercut.explore.state_judge import StateJudge
from powercut.model.errors import HostError
from powercut.model.exposure import ranges_of
from powercut.model.timeline import RequestKind, Timeline
from powercut.model.units import NEVER
from powercut.model.verdict import Finding, LsnRange, Verdict, lsn_ranges
from powercut.recording.disk_places import Places
from powercut.recording.several_places import places_on
from powercut.recording.trial_recording import TrialRecording
from powercut.rig import commands
from powercut.rig.engine_choice import EngineChoice
from powercut.rig.rig import require_recorded_program
from powercut.store.audit import Audit, AuditedPromise, LatePromise, PromiseKind, Worth
from powercut.workload.port import Recognised

RECORDS: Final = "records of the log"
_PER_PROMISE: Final = 8
"""Instants at which one promise is looked at, at most."""

_DETAIL: Final = re.compile(r" \(.*\)|, level \d+| of group \d+")

Listener = Callable[[int, int], None]
"""Hears how many states were recovered, and of how many promises."""


@dataclass
class _StatesOfPromise:
    """What the states of one promise have said."""

    states: int = 0
    lost: int = 0
    lsns: set[LsnRange] = field(default_factory=set)
    message: str = ""


@dataclass
class _Looks:
    """What recovered states have said, by promise."""

    engine: str = ""
    seen: dict[int, _StatesOfPromise] = field(default_factory=dict)
    undecided: dict[str, None] = field(default_factory=dict)

    @property
    def states(self) -> int:
        """States recovered in all."""
        return sum(one.states for one in self.seen.values())


def audit(
    recorded: TrialRecording,
    *,
    budget: Budget,
    engine: str,
    seed: int = 0,
    listener: Listener = lambda *_: None,
) -> Audit:
    """Audits every promise of the recording; `budget` is for recovered states, 0 for none.

    `engine` names the one that recovers; logs on the bare disk need none.
    """
    start = time.monotonic()
    claimed, timeline = recorded.promises, recorded.timeline
    evidence = claimed.evidence if isinstance(claimed, Recognised) else None
    hang = dependence(timeline)
    bytes_of = {one.promise: one for one in carried(evidence)} if evidence else {}
    kept = promises(timeline)
    places = places_on(recorded.directory.base_image, recorded.timeline.disks)
    before = [_audited(recorded, evidence, hang, promise, places) for promise in kept.tolist()]
    looks = _Looks()
    open_ones = [one for one in before if one.hanging and one.request not in bytes_of]
    if open_ones and budget.states != 0 and not commands.is_bare(recorded.parameters):
        order = _in_turns(open_ones, seed)
        looks = _StateAudit(recorded, hang, engine, seed, listener).look(order, budget)
    audited = [
        _by_bytes(one, bytes_of[one.request])
        if one.request in bytes_of
        else _by_states(one, looks.seen.get(one.request))
        for one in before
    ]
    record, callers = recorded.record, callers_of(recorded)
    return Audit(
        powercut=__version__,
        scenario=record.scenario,
        cell=record.cell,
        trial=record.trial.number,
        counted="record" if evidence else "operation",
        acknowledged=claimed.acked,
        run_ms=round((last_event_ns(timeline) - recorded.start_ns) / 1e6, 3),
        promises=tuple(callers.asked(timeline, audited)),
        late=_late(evidence, hang) if evidence else (),
        sites=callers.sites,
        unsynced=callers.unsynced,
        untraced=callers.beyond,
        engine=looks.engine,
        states_from=len(looks.seen),
        states=looks.states,
        undecided=tuple(looks.undecided),
        seconds=round(time.monotonic() - start, 2),
    )


def _audited(
    recorded: TrialRecording,
    evidence: Evidence | None,
    hang: Dependence,
    promise: int,
    places: Places,
) -> AuditedPromise:
    """What is known of `promise` before bytes and states are asked."""
    requests = recorded.timeline.requests
    flush = requests.kind[promise] == RequestKind.FLUSH
    writes = hang.hanging(promise)
    took_ns = int(requests.completed_ns[promise] - requests.submitted_ns[promise])
    return AuditedPromise(
        request=promise,
        kind=PromiseKind.FLUSH if flush else PromiseKind.FUA,
        at_ms=round((int(requests.submitted_ns[promise]) - recorded.start_ns) / 1e6, 3),
        took_us=round(took_ns / 1e3, 1),
        worth=Worth.UNSEEN if len(writes) else Worth.IDLE,
        hanging=len(writes),
        hanging_bytes=int(requests.length[writes].sum()),
        holds=_holds(recorded.timeline, evidence, writes.tolist(), places),
    )


def _in_turns(wanted: list[AuditedPromise], seed: int) -> list[int]:
    """The requests of `wanted` in the order of the module."""
    groups: dict[tuple[PromiseKind, frozenset[str]], list[int]] = {}
    for one in wanted:
        groups.setdefault((one.kind, frozenset(one.holds)), []).append(one.request)
    orders = [spread(np.array(group, dtype=np.int64), seed).tolist() for group in groups.values()]
    turns = zip_longest(*orders)
    return [promise for turn in turns for promise in turn if promise is not None]


def _holds(
    timeline: Timeline, evidence: Evidence | None, writes: list[int], places: Places
) -> tuple[str, ...]:
    """What `writes` hold, in kinds: without numbers of records, levels and groups."""
    names: dict[str, None] = {}
    carriers: set[int] = set()
    if evidence is not None:
        carriers = set(evidence.runs.write[np.isin(evidence.runs.write, writes)].tolist())
    for write in writes:
        if timeline.requests.kind[write] != RequestKind.WRITE:
            names[
                "discards" if timeline.requests.kind[write] == RequestKind.DISCARD else "zeroes"
            ] = None
        elif write in carriers:
            names[RECORDS] = None
        else:
            payload = timeline.payload(write).tobytes()
            for part in places.parts(int(timeline.requests.offset[write]), payload):
                names[_DETAIL.sub("", part.what)] = None
    return tuple(names)


def _by_bytes(one: AuditedPromise, carried: Carried) -> AuditedPromise:
    longest_ms = round(carried.longest_ns / 1e6, 3)
    update = {"worth": Worth.CARRIES, "lsns": carried.lsns, "longest_ms": longest_ms}
    return one.model_copy(update=update)


def _by_states(one: AuditedPromise, seen: _StatesOfPromise | None) -> AuditedPromise:
    if seen is None:
        return one
    update = {
        "worth": Worth.LEADS if seen.lost else Worth.UNSEEN,
        "states": seen.states,
        "states_lost": seen.lost,
        "lsns": lsn_ranges(lsn for span in seen.lsns for lsn in span),
        "message": seen.message,
    }
    return one.model_copy(update=update)


def _late(evidence: Evidence, hang: Dependence) -> tuple[LatePromise, ...]:
    """What was acknowledged before it was durable, with no promise taken away."""
    report = exposure(evidence)
    found = []
    at = np.flatnonzero(report.exposed)
    by = np.where(
        (report.write[at] >= 0) & (report.durable_ns[at] != NEVER),
        hang.promise[report.write[at]],
        np.int64(-1),
    )
    for group in np.split(np.arange(len(at)), np.flatnonzero(np.diff(by)) + 1):
        if len(group):
            rows = at[group]
            longest_ms = round(int(report.exposed_ns[rows].max()) / 1e6, 3)
            spans = ranges_of(report.lsn[rows])
            found.append(LatePromise(lsns=spans, promise=int(by[group[0]]), longest_ms=longest_ms))
    return tuple(found)


class _StateAudit:
    """Recovers states that only the lack of one promise makes legal, and judges them."""

    def __init__(
        self,
        recorded: TrialRecording,
        hang: Dependence,
        engine: str,
        seed: int,
        listener: Listener,
    ) -> None:
        self._seed = seed
        self._recorded = recorded
        self._hang = hang
        self._events = {
            kind: events(recorded.space, [kind])
            for kind in (InstantKind.ACK, InstantKind.FLUSH, InstantKind.FUA)
        }
        self._looks = _Looks(engine)
        self._listener = listener

    def look(self, order: list[int], budget: Budget) -> _Looks:
        """Looks at promises in this order, one state each in turn, until the budget is spent."""
        deadline = None if budget.seconds is None else time.monotonic() + budget.seconds
        turns = {promise: self._states(promise) for promise in order}
        record = self._recorded.record
        require_recorded_program(self._recorded.parameters, record.versions, record.program_files)
        with StateJudge(self._recorded, EngineChoice(self._looks.engine)) as states:
            while turns:
                for promise in list(turns):
                    if self._spent(budget, deadline):
                        return self._looks
                    state = next(turns[promise], None)
                    if state is None or not self._judge(states, promise, *state):
                        del turns[promise]
        return self._looks

    def _spent(self, budget: Budget, deadline: float | None) -> bool:
        if deadline is not None and time.monotonic() > deadline:
            return True
        return budget.states is not None and self._looks.states >= budget.states

    def _space(self, promise: int) -> StateSpace:
        """The crash states of a disk that ignores `promise`."""
        space, hang = self._recorded.space, self._hang
        late = hang.hangs & (hang.promise == promise)
        return StateSpace(space.timeline, space.claims, delayed(space.sets, hang, late))

    def _states(self, promise: int) -> Iterator[tuple[StateSpace, CrashState]]:
        """The states of the module's list, of one promise; its space with each."""
        space = self._space(promise)
        hanging = self._hang.hanging(promise)
        for instant in self._instants(promise):
            yield space, CrashState(instant, (), policy="durable-only")
            rest = np.setdiff1d(space.volatile(instant), hanging)
            if len(rest):
                yield space, CrashState(instant, tuple(rest.tolist()), policy="all-but-hanging")
            if len(rest) > 1:
                draw = np.random.default_rng([self._seed, promise, instant])
                half = np.sort(draw.choice(rest, size=len(rest) // 2, replace=False))
                yield space, CrashState(instant, tuple(half.tolist()), policy="half-but-hanging")

    def _instants(self, promise: int) -> list[int]:
        hanging = self._hang.hanging(promise)
        begin = int(self._hang.durable_ns[hanging].min())
        until = int(self._hang.without_ns[hanging].max())
        until = min(until, last_event_ns(self._recorded.timeline) + 1)
        chosen: dict[int, None] = {}
        for kind in (InstantKind.ACK, InstantKind.FUA, InstantKind.FLUSH):
            all_of = self._events[kind]
            within = all_of[(all_of > begin) & (all_of <= until)][::-1]
            chosen |= dict.fromkeys(within.tolist()[: _PER_PROMISE // 2])
        chosen |= {until: None}
        return list(chosen)[:_PER_PROMISE]

    def _judge(
        self, states: StateJudge, promise: int, space: StateSpace, state: CrashState
    ) -> bool:
        """Recovers `state`; False once nothing more has to be known of `promise`."""
        seen = self._looks.seen.setdefault(promise, _StatesOfPromise())
        losses = self._losses(states, space, state)
        if losses is None:
            return False
        seen.states += 1
        # With what hangs on it the same state is legal on the real disk: if that loses
        # something, too, the promise is not what was missing.
        if losses and self._losses(states, space, self._with_hanging(promise, state)) == []:
            seen.lost += 1
            seen.message = losses[0].message
            seen.lsns.update(*(finding.lsns for finding in losses))
        self._listener(self._looks.states, len(self._looks.seen))
        return not seen.lost

    def _with_hanging(self, promise: int, state: CrashState) -> CrashState:
        survivors = np.union1d(
            np.array(state.survivors, dtype=np.int64), self._hang.hanging(promise)
        )
        return replace(state, survivors=tuple(survivors.tolist()))

    def _losses(
        self, states: StateJudge, space: StateSpace, state: CrashState
    ) -> list[Finding] | None:
        """What recovery of `state` loses; None if nobody can say."""
        try:
            findings = states.judge(state, space, received=False).findings
        except HostError as error:
            self._looks.undecided[str(error)] = None
            return None
        losses = [finding for finding in findings if finding.verdict is Verdict.LOSSY]
        if findings and not losses:
            self._looks.undecided[findings[0].message] = None
            return None
        return losses
