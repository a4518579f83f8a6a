# SPDX-License-Identifier: Apache-2.0
"""The witness: the smallest loss of writes that still loses a record, and its explanation.

The search starts from a crash state that loses something.  Relative to everything
issued before the cut, it lacks volatile writes, whole or in part, and may have others out
of order: these are the items.  ddmin removes items as long as recovery still loses one of
the same records in the same way; then each write that is left is reduced to the atomic
units that matter.  States that the contract does not permit count as harmless, so the
witness is a state that the contract permits.

Every state is really recovered and checked.  Nothing is random; so the same recording
and the same state give the same witness.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from powercut import __version__
from powercut.checkers.judge import confirms
from powercut.crash.exposure import exposure
from powercut.crash.legality import why_illegal
from powercut.crash.states import CrashState, Kept, Move, StateSpace
from powercut.explore.clock import Clock, confirmation_s
from powercut.explore.request import Budget
from powercut.explore.state_judge import (
    Judgement,
    StateJudge,
    judge_in_guest,
    open_judge,
    require_recorded_kernel,
)
from powercut.model.errors import PowercutError, UsageError
from powercut.model.verdict import Confirmed, LsnRange, Verdict, losses, lsn_ranges
from powercut.model.versions import HOST
from powercut.recording import state_ref
from powercut.recording.materialize import cut_state, resolve_state
from powercut.recording.open_recording import Recording
from powercut.rig.engines import boots_recorded_kernel, reader_alone
from powercut.store.exploration import read_exploration
from powercut.store.witness import Witness
from powercut.witness.ddmin import OutOfBudget, ddmin
from powercut.witness.story import cause_of, dropped_writes, events_of
from powercut.workload.port import Recognised

__all__ = ["Drop", "minimize"]

_SECTOR = 512
BUDGET = Budget(states=2000)
"""What a search may take."""

Progress = Callable[[int, int], None]
"""Told after each state: how many were recovered, how many writes are still dropped."""


@dataclass(frozen=True, order=True)
class Drop:
    """The bytes `begin` to `end` - 1 of a volatile write did not survive."""

    write: int
    begin: int
    end: int


Item = Drop | Move


def items_of(space: StateSpace, state: CrashState) -> list[Item]:
    """What distinguishes `state` from everything issued at its instant, in rising order."""
    kept: dict[int, list[Kept]] = {}
    for part in state.torn:
        kept.setdefault(part.write, []).append(part)
    survivors = set(state.survivors)
    items: list[Item] = []
    for write in space.volatile(state.instant).tolist():
        begin, end = int(space.begin[write]), int(space.end[write])
        if write not in survivors:
            items.append(Drop(write, begin, end))
            continue
        for part in sorted(kept.get(write, []), key=lambda part: part.begin):
            if part.begin > begin:
                items.append(Drop(write, begin, part.begin))
            begin = max(begin, part.end)
        if write in kept and begin < end:
            items.append(Drop(write, begin, end))
    return [*items, *state.moves]


def state_of(space: StateSpace, instant: int, items: Sequence[Item]) -> CrashState:
    """The opposite of `items_of`: everything issued but for `items`."""
    drops: dict[int, list[Drop]] = {}
    for item in items:
        if isinstance(item, Drop):
            drops.setdefault(item.write, []).append(item)
    survivors: list[int] = []
    torn: list[Kept] = []
    for write in space.volatile(instant).tolist():
        begin, end = int(space.begin[write]), int(space.end[write])
        parts = []
        for drop in sorted(drops.get(write, [])):
            if drop.begin > begin:
                parts.append(Kept(write, begin, drop.begin))
            begin = max(begin, drop.end)
        if write not in drops:
            survivors.append(write)
            continue
        if begin < end:
            parts.append(Kept(write, begin, end))
        if parts:
            survivors.append(write)
            torn += parts
    moves = tuple(item for item in items if isinstance(item, Move))
    return CrashState(instant, tuple(survivors), tuple(torn), moves, policy="witness")


def minimize(
    recording: Recording,
    state_name: str | None = None,
    *,
    lsn: int | None = None,
    budget: Budget = BUDGET,
    confirm: bool = False,
    begun: float | None = None,
    engine: str = "auto",
    kernel: str = HOST,
    progress: Progress = lambda _tests, _left: None,
) -> Witness:
    """The witness of a loss in `recording`; keeps its state beside the recording.

    Without a state the search begins at one that is known to lose something: the live cut,
    what an exploration found, or what the exposure analysis names.  With `lsn` that record
    must stay lost, else any one of those lost at the beginning.  `engine` recovers the states, and
    `kernel` is its User-Mode Linux: the host's, or that of a Debian suite.
    `confirm` also recovers the witness with the recorded kernel, in a guest.  A budget of time runs
    from `begun` (time.monotonic), by default from now, and includes start and confirmation.

    Raises UsageError if nothing is lost, and HostError if no engine can recover a state.
    """
    clock = Clock(budget, budget, 1, begun=begun)
    with open_judge(recording, engine, kernel=kernel) as judge:
        clock.work()
        name, state, first = _start(recording, judge, state_name)
        if lsn is not None and lsn not in first.lsns:
            raise UsageError(
                f"state {name} does not lose record {lsn}",
                hint=f"it loses {', '.join(map(str, first.lost)) or 'none'}",
            )
        limit = SearchLimit(budget, clock, _set_aside(recording, judge.choice.name, confirm))
        search = _Search(recording.space, state.instant, judge, first, lsn, limit, progress)
        items = search.run(items_of(recording.space, state))
        witness_state = state_of(recording.space, state.instant, items)
        judgement = judge.judge(witness_state)
        minimal = not (search.out_of_budget or search.unknown)
    drops = [item for item in items if isinstance(item, Drop)]
    dropped = dropped_writes(recording, state.instant, [(d.write, d.begin, d.end) for d in drops])
    confirmed, confirmation = _confirmed(
        recording, witness_state, judgement, judge.choice.name, confirm
    )
    told = lsn if lsn is not None else judgement.lost[0].first if judgement.lost else None
    return Witness(
        powercut=__version__,
        recording=recording.title,
        start=name,
        state=state_ref.save(recording.directory, witness_state),
        crash_state=state_ref.serialise(witness_state),
        instant_ns=state.instant,
        start_ns=recording.start_ns,
        imported=recording.imported,
        required=judgement.required[0] if judgement.required else None,
        lost=judgement.lost,
        unit="record" if isinstance(recording.promises, Recognised) else "operation",
        kinds=tuple(sorted(judgement.kinds, key=lambda kind: kind.value)),
        message=judgement.message,
        volatile=len(recording.space.volatile(state.instant)),
        dropped_before=len({i.write for i in search.first_items if isinstance(i, Drop)}),
        dropped=dropped,
        out_of_order=len(items) - len(drops),
        minimal=minimal,
        tests=judge.tests,
        engine=judge.choice.name,
        engine_reason=judge.choice.reason,
        confirmed=confirmed,
        confirmation=confirmation,
        events=events_of(recording, state.instant, dropped, told),
        cause=cause_of(recording, state.instant, dropped, len(items) - len(drops), told),
    )


@dataclass(frozen=True)
class SearchLimit:
    """How far a search may go; `set_aside` are the seconds that confirmation will take."""

    budget: Budget
    clock: Clock
    set_aside: float

    def allows_one_more(self, tests: int) -> bool:
        """Whether another state may be recovered after `tests`, and the witness at the end."""
        if self.budget.states is not None and tests >= self.budget.states:
            return False
        return self.clock.has_time(2, tests, self.set_aside)


@dataclass
class _Search:
    """ddmin over items, then over the atomic units of each write that is left."""

    space: StateSpace
    instant: int
    judge: StateJudge
    first: Judgement
    lsn: int | None
    limit: SearchLimit
    progress: Progress
    first_items: list[Item] = field(default_factory=list)
    out_of_budget: bool = False
    unknown: bool = False  # a state could not be judged: it may well lose the record
    _known: dict[tuple[Item, ...], bool] = field(default_factory=dict)

    def run(self, items: list[Item]) -> list[Item]:
        """The smallest part of `items` that was found to lose a record."""
        self.first_items = items
        self._known[tuple(items)] = True
        items = ddmin(items, self._loses)
        for drop in [item for item in items if isinstance(item, Drop)]:
            if self.out_of_budget:
                break
            units = self._units(drop)
            if len(units) < 2:
                continue
            others = [item for item in items if item is not drop]
            self._known[tuple(others + list[Item](units))] = True
            smallest = ddmin(units, lambda part, rest=others: self._loses([*rest, *part]))  # type: ignore[misc]
            items = [*others, *_joined(smallest)]
        return sorted(items, key=lambda item: (isinstance(item, Move), item.write))

    def _units(self, drop: Drop) -> list[Drop]:
        """The atomic units of a drop; sectors, where the disk tears anywhere."""
        unit = max(self.space.unit, _SECTOR)
        edges = list(range((drop.begin // unit + 1) * unit, drop.end, unit))
        begins, ends = [drop.begin, *edges], [*edges, drop.end]
        return [Drop(drop.write, b, e) for b, e in zip(begins, ends, strict=True)]

    def _loses(self, items: Sequence[Item]) -> bool:
        key = tuple(items)
        if key not in self._known:
            state = state_of(self.space, self.instant, items)
            if why_illegal(self.space, state):
                self._known[key] = False
            else:
                if not self.limit.allows_one_more(self.judge.tests):
                    self.out_of_budget = True
                    raise OutOfBudget
                judgement = self.judge.judge(state)
                self.unknown |= judgement.verdict is Verdict.INCONCLUSIVE
                self._known[key] = self._same_loss(judgement)
                self.progress(self.judge.tests, len(items))
        return self._known[key]

    def _same_loss(self, judgement: Judgement) -> bool:
        """Whether one of the records of the beginning is still lost, in the same way.

        How a record is gone depends on its neighbours: lost, a hole, torn or stale is one
        way.  That the system does not come back is another, and so is a record that
        nobody wrote.
        """
        common = losses(judgement.findings) & losses(self.first.findings)
        if self.lsn is not None:
            return any(lsn == self.lsn for _, lsn in common)
        return bool(common)


def _set_aside(recording: Recording, engine: str, confirm: bool) -> float:
    """Seconds that confirmation will take, where it boots a guest."""
    settled = recording.known_promises is not None or recording.imported
    if not confirm or settled or reader_alone(engine) or boots_recorded_kernel(engine):
        return 0.0
    return confirmation_s(recording.directory.read_record().timings_s)


def _confirmed(
    recording: Recording, state: CrashState, judgement: Judgement, engine: str, wanted: bool
) -> tuple[Confirmed, str]:
    """Whether the recorded kernel agrees.  A raw log is read by the reader of the guest."""
    if recording.known_promises is not None:  # it was recovered in what it was recorded in
        return "yes", ""
    if not wanted or recording.imported:
        return "not tried", "the guest of this log is not known" if wanted else ""
    if reader_alone(engine):
        return "yes", ""
    try:
        if boots_recorded_kernel(engine):  # it has just done so, if that is the kernel it has
            require_recorded_kernel(recording, engine)
            return "yes", ""
        seen = judge_in_guest(recording, state)
    except PowercutError as error:
        return "not tried", str(error)
    told = confirms(seen.findings, judgement.findings)
    return told, "" if told == "yes" else seen.message or "everything came back"


def _joined(drops: Sequence[Drop]) -> list[Drop]:
    """Neighbours as one."""
    joined: list[Drop] = []
    for drop in drops:
        if joined and joined[-1].write == drop.write and joined[-1].end == drop.begin:
            joined[-1] = Drop(drop.write, joined[-1].begin, drop.end)
        else:
            joined.append(drop)
    return joined


def _start(
    recording: Recording, judge: StateJudge, name: str | None
) -> tuple[str, CrashState, Judgement]:
    """A state that loses something, and what it loses."""
    if name is not None:
        state = resolve_state(recording, name)
        if state.again is not None:
            raise UsageError(
                f"state {name} was cut again during its recovery: which writes of the recording "
                "would have to be there says nothing about it",
                hint="look at it with `powercut materialize` or `powercut shell`",
            )
        judgement = judge.judge(state)
        if judgement.verdict is not Verdict.LOSSY:
            raise UsageError(
                f"state {name} loses nothing: {judgement.message or 'everything came back'}",
                hint="name another state; `powercut explore` finds those that lose something",
            )
        return name, state, judgement
    tried = []
    for candidate, state in _candidates(recording):
        judgement = judge.judge(state)
        if judgement.verdict is Verdict.LOSSY:
            return candidate, state, judgement
        tried.append(candidate)
    raise UsageError(
        "no loss is known in this recording" + (f": tried {', '.join(tried)}" if tried else ""),
        hint="name a state, or let `powercut explore` look for one",
    )


def _candidates(recording: Recording) -> list[tuple[str, CrashState]]:
    """States that may lose something, most telling first."""
    candidates = []
    if recording.timeline.cut is not None:
        candidates.append(("cut", cut_state(recording.space)))
    explored = read_exploration(recording.directory)
    for finding in explored.findings if explored else ():
        if finding.verdict is Verdict.LOSSY:
            name = finding.examples[0].id
            state = resolve_state(recording, name)
            if state.again is None:
                candidates.append((name, state))
    first = _first_exposed(recording)
    if first is not None:
        name = f"ack:{first.first}"
        candidates.append((name, resolve_state(recording, name)))
    return candidates


def _first_exposed(recording: Recording) -> LsnRange | None:
    if not isinstance(recording.promises, Recognised):
        return None
    report = exposure(recording.evidence)
    ranges = lsn_ranges(np.asarray(report.lsn[report.exposed]).tolist())
    return ranges[0] if ranges else None
