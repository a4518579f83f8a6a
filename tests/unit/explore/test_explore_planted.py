# SPDX-License-Identifier: Apache-2.0
"""Faults planted into the explorer's own parts; each must be called a disagreement."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from powercut.crash.explore import InstantKind
from powercut.crash.states import CrashState, StateSpace
from powercut.explore import disks, state_judge
from powercut.explore import worker as explore_worker
from powercut.explore.confirmation import last_word
from powercut.explore.disks import DiskMedium, OneWorker
from powercut.explore.explorer import ExplorerRun
from powercut.explore.request import Budget, ExploreRequest, Prune
from powercut.explore.state_images import AnswerCache
from powercut.explore.state_judge import Judgement
from powercut.explore.work import Work
from powercut.explore.worker import LocalWorker
from powercut.model.contract import Honour
from powercut.model.observation import Extent, Observation
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut.recover import raw
from powercut.recover.raw import Moment, RawLog, unavailable
from powercut.rig.engine_choice import EngineChoice
from powercut.rig.host_reader import read_on_host
from powercut.rig.image_open import write_image
from powercut.wal.layout import SlotState
from powercut.witness import minimize as witness

pytestmark = pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable()))


def kinds(result):
    return {finding.kind for finding in result.findings}


def lying(world, **more):
    made = world.disk(flush=Honour.IGNORED, fua=Honour.IGNORED)
    return world.recorded(made, world.commits(made, 8, **more))


def honest(world, **more):
    made = world.disk()
    return world.recorded(made, world.commits(made, 8, **more))


def with_durable(recorded, change):
    """The recording with other instants of durability, in the explorer's eyes only."""
    sets = recorded.evidence.sets
    wrong = replace(sets, durable_ns=change(sets.durable_ns.copy(), sets.submitted_ns))
    timeline, claims = recorded.evidence.timeline, recorded.evidence.claims
    planted = replace(recorded)
    vars(planted)["space"] = StateSpace(timeline, claims, wrong)  # as if it had come to this itself
    return planted


# --- a flush counted too early, or too late ------------------------------------------------


def test_a_flush_counted_too_early_is_caught(world):
    recorded = honest(world, early=5)
    early = with_durable(recorded, lambda durable, _: durable - 30)
    result = world.explore(early, policies=("durable-only",), at=(InstantKind.ACK,))
    assert kinds(result) == {FindingKind.DISAGREEMENT}
    assert result.verdict is Verdict.INCONCLUSIVE
    (found,) = result.findings
    assert "exposed, but came back" in found.examples[0].message


def test_a_flush_counted_too_late_is_caught(world):
    late = with_durable(honest(world), lambda durable, _: durable + 30)
    result = world.explore(late, policies=("durable-only",), at=(InstantKind.ACK,))
    assert FindingKind.DISAGREEMENT in kinds(result)
    messages = [f.examples[0].message for f in result.findings]
    assert any("lost in some state, but not exposed" in message for message in messages)


# --- raw: wrong order, leaks, wrong tears ---------------------------------------------------


def overlapping(world):
    """Each commit writes the record before it again, as a page cache does."""
    made = world.disk(flush=Honour.IGNORED, fua=Honour.IGNORED)
    acks = []
    for lsn in range(1, 9):
        at = 100 * lsn
        first = max(1, lsn - 1)
        data = b"".join(world.record(n) for n in range(first, lsn + 1))
        made.write((first - 1) * 512, data, at=at, done=at + 20)
        made.zero(lsn * 512, 512, at=at + 25, done=at + 28)
        acks.append((lsn, at + 50))
    return world.recorded(made, acks)


def test_without_a_fault_nothing_disagrees(world):
    recorded = overlapping(world)
    result = world.explore(recorded, budget=Budget(states=600))
    assert FindingKind.DISAGREEMENT not in kinds(result)
    assert result.coverage.compared > 10


def test_an_overwrite_in_the_wrong_order_is_caught(world, monkeypatch):
    recorded = overlapping(world)
    real = Moment.read

    def oldest_shows(self, pieces):
        """Of several survivors in a cell the first one shows."""
        first = pieces.copy()
        for at in range(1, pieces.shape[1]):
            if self.piece_cell[at] == self.piece_cell[at - 1]:
                cell = self.piece_cell[:at] == self.piece_cell[at]
                first[:, at] &= ~first[:, :at][:, cell].any(axis=1)
        return real(self, first)

    monkeypatch.setattr(Moment, "read", oldest_shows)
    result = world.explore(recorded, budget=Budget(states=600))
    assert FindingKind.DISAGREEMENT in kinds(result)


def test_a_state_that_leaks_into_the_next_is_caught(world, monkeypatch):
    recorded = lying(world)
    real = Moment.read

    def leaks(self, pieces):
        """What survived in one state is still there in the one after it."""
        leaked = pieces.copy()
        leaked[1:] |= pieces[:-1]
        return real(self, leaked)

    monkeypatch.setattr(Moment, "read", leaks)
    result = world.explore(recorded, budget=Budget(states=600))
    assert FindingKind.DISAGREEMENT in kinds(result)


def test_the_background_of_a_later_instant_is_caught(world, monkeypatch):
    recorded = honest(world, early=5)
    real = RawLog.at

    def never_goes_on(self, instant):
        """What became durable is not noticed."""
        self._done = len(self._by_durable)
        self._reset = lambda: None
        return real(self, instant)

    monkeypatch.setattr(RawLog, "at", never_goes_on)
    result = world.explore(recorded, budget=Budget(states=600))
    assert FindingKind.DISAGREEMENT in kinds(result)


def test_a_reader_that_is_too_kind_is_caught(world, monkeypatch):
    recorded = lying(world)
    real = raw.Answers.learn

    def all_intact(self, keys, extents):
        extents = extents.copy()
        extents["state"] = 1
        extents["lsn"] = np.where(extents["lsn"] == 0, extents["slot"] + 1, extents["lsn"])
        return real(self, keys, extents)

    monkeypatch.setattr(raw.Answers, "learn", all_intact)
    result = world.explore(recorded, budget=Budget(states=600))
    assert FindingKind.DISAGREEMENT in kinds(result)


def test_an_engine_that_was_wrong_convicts_nobody(world, monkeypatch):
    recorded = honest(world)
    real = raw.Answers.learn

    def all_absent(self, keys, extents):
        extents = extents.copy()
        extents["state"], extents["lsn"] = SlotState.ABSENT, 0
        return real(self, keys, extents)

    monkeypatch.setattr(raw.Answers, "learn", all_absent)
    result = world.explore(recorded, budget=Budget(states=300))
    assert kinds(result) == {FindingKind.DISAGREEMENT}
    assert result.verdict is Verdict.INCONCLUSIVE


# --- engines that recover state by state ---------------------------------------------------


class ReaderEngine:
    """The real reader on an image of each state, as a recovery engine."""

    boots = 1
    reads = None

    def __init__(self, recorded):
        self.recorded = recorded

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def start(self, *, timeout_s):
        pass

    def recover(self, writes, *, timeout_s):
        image = self.recorded.directory.path / "engine.img"
        image.unlink(missing_ok=True)
        write_image(self.recorded.directory.base_image, writes, image)
        run_id = self.recorded.run_id
        return read_on_host(self.recorded.parameters, run_id, image, timeout_s=timeout_s)


class LeakingEngine(ReaderEngine):
    """Its disk still has what the state before had."""

    before = ()

    def recover(self, writes, *, timeout_s):
        leaked = [*self.before, *writes]
        self.before = tuple(writes)
        return super().recover(leaked, timeout_s=timeout_s)


def run_with(recorded, engine, monkeypatch, **wanted):
    """An exploration by an engine that takes one state after the other."""
    monkeypatch.setattr(state_judge, "open_engine", lambda *_: engine(recorded))
    request = ExploreRequest(confirm=False, **wanted)
    run = ExplorerRun(DiskMedium(recorded, request), request)
    work = Work(recorded.directory.path, recorded.directory.run, "test", Prune.BYTES, 0)
    with LocalWorker(work, recorded) as worker:
        run._judge_all(OneWorker(worker))
    run._compare_with_other_ways()
    return run.result(1.0)


def test_an_engine_agrees_with_the_raw_engine(world, monkeypatch):
    recorded = lying(world)
    policies = ("durable-only", "only-one", "all-but-one", "prefixes")
    mine = world.explore(recorded, policies=policies)
    other = run_with(recorded, ReaderEngine, monkeypatch, policies=policies)
    assert {(f.kind, f.lsns, f.distinct) for f in mine.findings} == {
        (f.kind, f.lsns, f.distinct) for f in other.findings
    }
    assert other.coverage.pruned > 0


def test_an_engine_whose_states_leak_is_caught(world, monkeypatch):
    recorded = honest(world, early=5)
    # Every state shows what the one before it had, so early acks seem to be durable.
    monkeypatch.setattr(explore_worker, "RERUN_ONE_IN", 1)
    result = run_with(recorded, LeakingEngine, monkeypatch)
    assert FindingKind.DISAGREEMENT in kinds(result)
    good = run_with(recorded, ReaderEngine, monkeypatch)
    assert FindingKind.DISAGREEMENT not in kinds(good)
    assert good.coverage.pruned_rerun == good.coverage.pruned > 0


class Several:
    """Workers of their own, each with its own answers of earlier states, in turn."""

    def __init__(self, workers):
        self.workers = workers

    def answers(self, batches):
        for number, batch in enumerate(batches):
            worker = number % len(self.workers)
            yield worker, batch, self.workers[worker].answer(batch)


def recoveries_drawn(recorded, monkeypatch, *, workers=1, **wanted):
    """The states whose recoveries an exploration would put on record."""
    monkeypatch.setattr(state_judge, "open_engine", lambda *_: ReaderEngine(recorded))
    request = ExploreRequest(budget=Budget(states=200), depth=1, **wanted)
    run = ExplorerRun(DiskMedium(recorded, request), request)
    work = Work(recorded.directory.path, recorded.directory.run, "test", Prune.BYTES, 0)
    with ExitStack() as stack:
        each = [stack.enter_context(LocalWorker(work, recorded)) for _ in range(workers)]
        run._judge_all(Several(each))
    return [replace(state, policy="") for state in run.chosen.drawn()]


def test_which_recoveries_are_cut_depends_neither_on_jobs_nor_on_named_states(world, monkeypatch):
    recorded = lying(world)
    monkeypatch.setattr(disks, "choose_engine", lambda *_, **__: EngineChoice("uml"))
    alone = recoveries_drawn(recorded, monkeypatch)
    assert len(alone) > 20
    assert recoveries_drawn(recorded, monkeypatch, workers=3) == alone
    assert recoveries_drawn(recorded, monkeypatch, named=tuple(alone[:5])) == alone


def test_what_time_had_bounded_gets_the_same_recoveries_again(world, monkeypatch):
    recorded = lying(world)
    monkeypatch.setattr(disks, "choose_engine", lambda *_, **__: EngineChoice("uml"))
    states = [CrashState(1, (number,)) for number in range(9)]
    request = ExploreRequest(budget=Budget(seconds=60.0), depth=1)
    before = ExplorerRun(DiskMedium(recorded, request), request)
    (tasks,) = [before._round(states)]
    # 120 states of the recording, then 5 recoveries of 10 states; then once more, with 3 named.
    budget = Budget(states=170, first=120)
    request = ExploreRequest(budget=budget, depth=1, named=tuple(states[:3]))
    again = ExplorerRun(DiskMedium(recorded, request), request)
    assert again.first_share == Budget(states=120)
    again.tally.checked = 120
    asked = []
    while len(asked) < len(states) and (some := again._round(states[len(asked) :])):
        asked += some
        again.tally.recoveries.states += 10 * len(some)
        again.tally.recoveries.recorded += 2 * len(some)
    assert asked == tasks[: len(asked)]
    assert len(asked) == 5


def test_pruning_that_overlooks_changes_is_caught(world, monkeypatch):
    recorded = lying(world)
    monkeypatch.setattr(explore_worker, "RERUN_ONE_IN", 5)
    real = AnswerCache.advance

    def forgets(self, writes):
        """Only ever looks at the first writes."""
        real(self, list(writes)[:1])

    monkeypatch.setattr(AnswerCache, "advance", forgets)
    result = run_with(recorded, ReaderEngine, monkeypatch)
    assert FindingKind.DISAGREEMENT in kinds(result)


# --- the recorded kernel's last word -------------------------------------------------------


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (Observation((), complete=False, failure="the guest hangs"), "not tried"),
        (Observation((Extent(0, 1, SlotState.INTACT, 1),)), "no"),
        (Observation((Extent(0, 8, SlotState.ABSENT),)), "yes"),
        (Observation((), recovered=False, failure="it does not mount"), "no"),
    ],
)
def test_a_guest_that_hangs_contradicts_nobody(world, monkeypatch, seen, told):
    recorded = honest(world, early=5)

    class Guest(ReaderEngine):
        def require_kernel(self, versions):
            assert versions == recorded.record.versions

        def recover(self, writes, *, timeout_s):
            return seen

    monkeypatch.setattr(state_judge, "open_engine", lambda *_: Guest(recorded))
    last = last_word(recorded, EngineChoice("uml"), after=0, kernels=True)
    state = CrashState(int(recorded.evidence.claims.ack_ns[0]) + 1, ())
    assert recorded.evidence.claims.required(state.instant) == LsnRange(1, 1)
    lost = Finding(FindingKind.LOST, Verdict.LOSSY, "lost", (LsnRange(1, 1),))
    assert (last.confirm(state, lost).confirmed, last.doubt()) == (told, "")


@pytest.mark.parametrize(
    ("findings", "told"),
    [
        ([Finding(FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE, "it hangs")], "not tried"),
        ([], "no"),
        ([Finding(FindingKind.TORN, Verdict.LOSSY, "torn", (LsnRange(1, 1),))], "yes"),
    ],
)
def test_a_guest_that_hangs_contradicts_no_witness(monkeypatch, findings, told):
    lost = Finding(FindingKind.LOST, Verdict.LOSSY, "lost", (LsnRange(1, 2),))
    found = Judgement((lost,), (LsnRange(1, 2),))
    seen = Judgement(tuple(findings), (LsnRange(1, 2),))
    monkeypatch.setattr(witness, "judge_in_guest", lambda *_: seen)
    recording = SimpleNamespace(imported=False, known_promises=None)
    assert witness._confirmed(recording, CrashState(1, ()), found, "uml", wanted=True)[0] == told
