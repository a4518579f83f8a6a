# SPDX-License-Identifier: Apache-2.0
"""Exploration of raw logs: exact records, and the same as the real reader sees."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from patience import AMPLE_S

from powercut.crash.explore import Exploration, InstantKind, events
from powercut.crash.exposure import exposure
from powercut.crash.legality import why_illegal
from powercut.crash.policies import POLICIES
from powercut.crash.states import Model
from powercut.explore.findings import FindingCollector
from powercut.explore.raw import RawExploration, RawOptions
from powercut.explore.request import Budget
from powercut.explore.state_images import StateImages
from powercut.explore.state_map import StateMapper
from powercut.model.confidence import AcksLookedAt
from powercut.model.contract import Honour
from powercut.model.errors import UsageError
from powercut.model.verdict import FindingKind, LsnRange, Verdict
from powercut.recording import state_ref
from powercut.recover.raw import RawLog, unavailable
from powercut.rig.engine_choice import choose_engine
from powercut.rig.host_reader import read_on_host
from powercut.rig.image_open import write_image
from powercut.wal.layout import SlotState

pytestmark = pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable()))


def lossy(result):
    """LSNs that some state lost, by kind."""
    return {f.kind: f.lsns for f in result.findings if f.verdict is Verdict.LOSSY}


def test_an_honest_disk_loses_nothing(world):
    made = world.disk()
    recorded = world.recorded(made, world.commits(made, 12))
    result = world.explore(recorded, budget=Budget(states=4000))
    assert result.findings == ()
    assert result.verdict is Verdict.SAFE
    assert result.coverage.exhausted
    assert result.coverage.compared > 0
    # The disk changes with each flush, the claims with each ack, and from record 9 on an
    # attempt gives up the record that stood in its slot.
    assert result.coverage.by_policy["durable-only"] == 1 + 2 * 12 + 4
    assert result.coverage.legal_log2 > 0


@pytest.mark.parametrize("group", [1, 3])
def test_an_early_ack_is_found_with_exactly_its_records(world, group):
    made = world.disk()
    acks = world.commits(made, 2, group=group, early=5)
    recorded = world.recorded(made, acks)
    result = world.explore(recorded, policies=("durable-only",), at=(InstantKind.ACK,))
    every = (LsnRange(1, 2 * group),)
    assert exposure(recorded.evidence).exposed_lsns == every
    assert lossy(result) == {FindingKind.LOST: every}
    assert result.verdict is Verdict.LOSSY
    (finding,) = result.findings
    assert [example.lsns for example in finding.examples] == [
        (LsnRange(1, group),),
        (LsnRange(group + 1, 2 * group),),
    ]
    first = state_ref.load(recorded.directory, finding.examples[0].id)
    assert first.survivors == ()
    assert why_illegal(recorded.space, first) == []


def test_named_states_are_looked_at_whatever_the_budget(world):
    made = world.disk()
    recorded = world.recorded(made, world.commits(made, 2, early=5))
    first = world.explore(recorded, policies=("durable-only",))
    (finding,) = first.findings
    names = [example.id for example in finding.examples]
    named = tuple(state_ref.load(recorded.directory, name) for name in names)

    result = world.explore(
        recorded, named=named, policies=("everything-issued",), budget=Budget(states=1)
    )
    assert lossy(result) == lossy(first)
    assert [example.id for example in result.findings[0].examples] == names
    assert result.coverage.distinct == len(names) + 1


@pytest.mark.parametrize("states", [40, 2000])
def test_a_state_that_is_named_and_drawn_is_looked_at_once(world, states):
    """Whether states are drawn one by one or many at a time."""
    made = world.disk(flush=Honour.IGNORED, fua=Honour.IGNORED)
    recorded = world.recorded(made, world.commits(made, 4))
    wanted = {"budget": Budget(states=states)}
    first = world.explore(recorded, **wanted)
    names = dict.fromkeys(one.id for found in first.findings for one in found.examples)
    named = tuple(state_ref.load(recorded.directory, name) for name in names)
    assert len(named) > 1
    again = world.explore(recorded, named=named, **wanted)
    assert again.coverage == first.coverage
    assert (again.findings, again.map) == (first.findings, first.map)


def test_a_disk_that_ignores_flushes_loses_everything_in_every_kind(world):
    made = world.disk(flush=Honour.IGNORED, fua=Honour.IGNORED)
    recorded = world.recorded(made, world.commits(made, 6))
    result = world.explore(recorded, budget=Budget(states=2000))
    found = lossy(result)
    assert found[FindingKind.LOST] == (LsnRange(1, 6),)
    # The last record cannot be missing before a later one that is there.
    assert found[FindingKind.UNSERIALIZABLE] == (LsnRange(1, 5),)
    assert set(found) == {FindingKind.LOST, FindingKind.UNSERIALIZABLE}


def test_records_that_are_larger_than_a_sector_are_torn(world):
    made = world.disk(flush=Honour.IGNORED, fua=Honour.IGNORED)
    two = world.record(1) + world.record(2)
    made.write(0, two, at=100, done=120)
    made.flush(at=130, done=140)
    recorded = world.recorded(made, [(2, 150)])
    result = world.explore(recorded, policies=("torn",), at=(InstantKind.ACK,))
    # A tear between the two leaves one of them whole: one is gone before the other, or after.
    assert lossy(result) == {
        FindingKind.LOST: (LsnRange(1, 2),),
        FindingKind.UNSERIALIZABLE: (LsnRange(1, 1),),
    }


def test_a_log_that_goes_round_loses_each_record_to_the_older_one(world):
    made = world.disk()
    recorded = world.recorded(made, world.commits(made, 12, early=5))
    result = world.explore(recorded, policies=("durable-only",), at=(InstantKind.ACK,))
    (found,) = result.findings
    assert (found.kind, found.lsns) == (FindingKind.LOST, (LsnRange(1, 12),))
    assert (found.states, found.distinct) == (12, 12)


def test_a_record_is_missed_in_states_of_other_slots(world):
    """Record 2 is never written: all states that differ in record 3 alone lack it."""
    made = world.disk()
    acks = world.commits(made, 1)
    made.write(world.layout.position_of(3), world.record(3), at=300, done=320)
    made.flush(at=330, done=340)
    recorded = world.recorded(made, [*acks, (2, 250), (3, 350)])
    result = world.explore(recorded, at=(InstantKind.COMPLETION,), budget=Budget(states=4000))
    (found,) = (one for one in result.findings if one.kind is FindingKind.LOST)
    assert (found.verdict, found.lsns) == (Verdict.LOSSY, (LsnRange(2, 2),))
    assert found.states == 2, "with record 3 and without it"


def test_every_model_and_policy_comes_to_its_end(world):
    made = world.disk()
    recorded = world.recorded(made, world.commits(made, 3, group=2))
    for model in Model:
        result = world.explore(recorded, model=model, budget=Budget(states=3000))
        assert result.verdict is Verdict.SAFE
        assert result.coverage.distinct > 3
        assert result.coverage.exhausted, model


@pytest.mark.parametrize("slots", [9, 12])
def test_a_log_that_ends_within_a_page_is_read_to_its_end(world, slots):
    """A cached log on a device with an atomic unit of 4 KiB: every write is whole pages."""
    world = replace(world, slots=slots)
    made = world.disk(atomic_unit=4096)
    acks = []
    for lsn in range(1, slots + 1):
        log = b"".join(world.record(number) for number in range(1, lsn + 1)).ljust(8192, b"\0")
        made.write(0, log[:4096], at=100 * lsn, done=100 * lsn + 10)
        made.write(4096, log[4096:], at=100 * lsn + 11, done=100 * lsn + 20)
        made.flush(at=100 * lsn + 30, done=100 * lsn + 40)
        acks.append((lsn, 100 * lsn + 50))
    result = world.explore(world.recorded(made, acks))
    assert result.findings == ()
    assert result.verdict is Verdict.SAFE


def test_what_time_cut_short_has_not_come_to_its_end(world):
    made = world.disk()
    recorded = world.recorded(made, world.commits(made, 12, group=4))
    options = RawOptions(
        Model.EXACT, tuple(POLICIES), tuple(InstantKind), 0, 64, None, world.folder
    )

    def until(calls):
        raw = RawExploration(
            recorded, options, FindingCollector(), StateMapper(recorded.space, 0, 0)
        )
        left = iter(range(calls))
        raw.run(lambda: next(left, None) is not None)
        return raw.coverage()

    whole = until(10**9)
    assert whole.exhausted
    assert whole.acks == AcksLookedAt(12, 12, 0)
    assert until(1).acks == AcksLookedAt(12, 0, 0), "not all were looked at: none is told"
    # In the third sweep: every policy had drawn some states of every instant.
    for calls in (190, 200, 220):
        short = until(calls)
        assert short.distinct < whole.distinct
        assert short.instants == short.instants_all
        assert not short.exhausted


def test_repetitions_are_no_other_states(world):
    made = world.disk()
    recorded = world.recorded(made, world.commits(made, 2, group=4))
    every = world.explore(recorded).coverage
    assert every.exhausted
    coverage = world.explore(recorded, budget=Budget(states=every.distinct - 1)).coverage
    assert coverage.distinct == every.distinct - 1
    assert 2**coverage.legal_log2 < coverage.distinct + coverage.repeated
    assert coverage.not_looked_at.startswith("perhaps some of 2^")


def test_a_device_that_keeps_order_is_explored_state_by_state(world):
    made = world.disk(ordered=True, flush=Honour.IGNORED)
    recorded = world.recorded(made, world.commits(made, 3))
    result = world.explore(recorded, budget=Budget(states=500))
    assert lossy(result) == {FindingKind.LOST: (LsnRange(1, 3),)}, "nothing out of order"


def test_the_raw_engine_is_refused_where_it_cannot_read(world):
    made = world.disk()
    recorded = world.recorded(made, world.commits(made, 1))
    assert choose_engine(recorded.parameters, "auto").name == "raw"
    with pytest.raises(UsageError, match="nothing to mount"):
        choose_engine(recorded.parameters, "uml")


def random_timeline(world, rng):
    """Writes of one to four slots at random times, some of them in flight together."""
    made = world.disk(atomic_unit=int(rng.choice([512, 4096])))
    at = 0
    for _ in range(10):
        at += int(rng.integers(1, 12))
        done = at + int(rng.integers(1, 30))
        kind = rng.random()
        first = int(rng.integers(1, 3 * world.slots))
        slot = world.layout.slot_of(first)
        count = min(int(rng.integers(1, 5)), world.slots - slot)
        if kind < 0.2:
            made.flush(at=at, done=done)
        elif kind < 0.3:
            made.zero(slot * 512, count * 512, at=at, done=done)
        else:
            data = b"".join(world.record(first + n) for n in range(count))
            made.write(slot * 512, data, at=at, done=done, fua=bool(rng.random() < 0.2))
    return made


@pytest.mark.parametrize("seed", range(12))
def test_it_sees_what_the_real_reader_sees(world, seed):
    rng = np.random.default_rng(seed)
    made = random_timeline(world, rng)
    recorded = world.recorded(made, [(1, 1)])
    space = recorded.space
    log = RawLog(recorded.directory.base_image, space, world.layout, bytes(range(16)))
    images = StateImages(space)
    states = list(Exploration(space, events(space, list(InstantKind)), per_policy=6, limit=400))
    rng.shuffle(states)
    compared = 0
    for state in states[:40]:
        moment = log.at(state.instant)
        pieces = moment.pieces_of(state)
        if pieces is None:
            assert state.moves
            continue
        reading = moment.read(pieces[None, :])
        image = world.folder / "image"
        image.unlink(missing_ok=True)
        write_image(recorded.directory.base_image, images.writes(state), image)
        seen = read_on_host(recorded.parameters, bytes(range(16)), image, timeout_s=AMPLE_S)
        assert seen.stretches == log.observation(reading, 0).stretches, state
        # And back: the pieces make the same state, as far as it can be seen.
        again = moment.pieces_of(moment.state(pieces, "again"))
        assert np.array_equal(again, pieces)
        assert why_illegal(space, moment.state(pieces, "again")) == []
        compared += 1
    assert compared > 10


def test_states_of_an_instant_are_read_alike_one_by_one_and_together(world):
    made = world.disk(flush=Honour.IGNORED)
    recorded = world.recorded(made, world.commits(made, 12))
    log = RawLog(recorded.directory.base_image, recorded.space, world.layout, bytes(range(16)))
    rng = np.random.default_rng(1)
    moment = log.at(900)
    pieces = rng.random((200, len(moment.piece_cell))) < 0.5
    together = moment.read(pieces)
    fresh = RawLog(recorded.directory.base_image, recorded.space, world.layout, bytes(range(16)))
    for row in range(200):
        alone = fresh.at(900).read(pieces[row : row + 1])
        assert alone.content[0] == together.content[row]
        assert fresh.observation(alone, 0) == log.observation(together, row)
    # Back to an earlier instant, and again: nothing of the later ones is left.
    log.at(1200)
    assert log.at(900).read(pieces).content.tolist() == together.content.tolist()


def test_a_disk_that_was_never_written_to_has_lost_all_that_was_acknowledged(world):
    """A workload that never syncs, cut before its guest wrote anything back."""
    made = world.disk()
    recorded = world.recorded(made, [(1, 100), (2, 200), (3, 300)])
    log = RawLog(recorded.directory.base_image, recorded.space, world.layout, bytes(range(16)))
    moment = log.at(350)
    reading = moment.read(np.zeros((1, len(moment.piece_cell)), dtype=bool))
    states = {extent.state for extent in log.observation(reading, 0).stretches}
    assert states <= {SlotState.ABSENT}
