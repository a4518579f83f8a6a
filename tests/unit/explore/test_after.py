# SPDX-License-Identifier: Apache-2.0
"""Life after recovery: what must be there, and what of it is nobody's fault."""

from __future__ import annotations

from dataclasses import replace

import pytest

from powercut.crash.states import Again, CrashState
from powercut.explore.recovery_timeline import durability_during_recovery
from powercut.explore.request import Budget, Reservoir
from powercut.model.contract import DeviceContract, Honour
from powercut.model.errors import UsageError
from powercut.model.observation import Continuation, Extent, Observation
from powercut.model.verdict import FindingKind, LsnRange, Verdict
from powercut.recording import state_ref
from powercut.scenario.settings import MachineSettings
from powercut.wal.layout import LayoutKind, SlotState, WalLayout
from powercut.workload.wal.promises import check_state

LOG = WalLayout(LayoutKind.APPEND, record=512)


def read(count: int) -> Observation:
    return Observation((Extent(0, count, SlotState.INTACT, 1),))


def lived(before: int, after: Observation, **more) -> Observation:
    first = before + 1
    later = Continuation(first, first + 3, first + 3, after, **more)
    return Observation(read(before).extents, later=later)


REQUIRED = (LsnRange(1, 8),)


def found(observation: Observation):
    return [(f.kind, f.verdict, f.lsns) for f in check_state(REQUIRED, 10, observation, LOG)]


def test_everything_before_and_after_is_there():
    assert found(lived(10, read(14))) == []


def test_what_was_acknowledged_before_is_lost_later():
    gone = Observation((Extent(0, 2, SlotState.ABSENT), Extent(2, 12, SlotState.INTACT, 3)))
    assert found(lived(10, gone)) == [
        (FindingKind.UNSERIALIZABLE, Verdict.LOSSY, (LsnRange(1, 2),))
    ]


def test_what_was_acknowledged_after_is_lost():
    assert found(lived(10, read(12))) == [(FindingKind.LOST, Verdict.LOSSY, (LsnRange(13, 14),))]


def test_records_that_nobody_promised_may_go():
    """9 and 10 came back, were never acknowledged, and are gone: no finding."""
    holes = (
        Extent(0, 8, SlotState.INTACT, 1),
        Extent(8, 2, SlotState.ABSENT),
        Extent(10, 4, SlotState.INTACT, 11),
    )
    assert found(lived(10, Observation(holes))) == []


def test_a_state_that_lost_something_at_once_is_not_judged_twice():
    assert found(lived(6, read(6))) == [(FindingKind.LOST, Verdict.LOSSY, (LsnRange(7, 8),))]


def test_a_second_mount_that_fails_is_a_loss():
    refused = Observation((), recovered=False, failure="mount ext4: Structure needs cleaning")
    kinds = {(kind, verdict) for kind, verdict, _ in found(lived(10, refused))}
    assert kinds == {(FindingKind.NOT_RECOVERED, Verdict.LOSSY)}


@pytest.mark.parametrize(
    ("no_room", "expected"),
    [(True, []), (False, [(FindingKind.NOT_RECOVERED, Verdict.INCONCLUSIVE, ())])],
)
def test_a_workload_that_cannot_go_on_is_unknown_unless_there_is_no_room(no_room, expected):
    later = Continuation(11, 14, 0, read(10), "pwrite: Input/output error", no_room)
    assert found(Observation(read(10).extents, later=later)) == expected


def test_a_log_that_wraps_gives_up_its_oldest_records():
    ring = WalLayout(LayoutKind.RECYCLED, record=512, capacity=12 * 512)
    extents = (Extent(0, 2, SlotState.INTACT, 13), Extent(2, 10, SlotState.INTACT, 3))
    first = Observation((Extent(0, 10, SlotState.INTACT, 1),))
    seen = Observation(first.extents, later=Continuation(11, 14, 14, Observation(extents)))
    assert check_state((LsnRange(1, 8),), 10, seen, ring) == ()


@pytest.mark.parametrize(
    ("machine", "fua_seen", "flush", "fua", "through"),
    [
        ({}, False, Honour.HONOURED, Honour.HONOURED, False),
        ({"cache": "unsafe"}, False, Honour.IGNORED, Honour.HONOURED, False),
        ({"cache": "writethrough"}, True, Honour.IGNORED, Honour.HONOURED, True),
        ({"guest_write_cache": "write-through"}, False, Honour.IGNORED, Honour.IGNORED, False),
        # Parts of a cache mode by themselves count as the mode does.
        ({"no_flush": "on"}, False, Honour.IGNORED, Honour.HONOURED, False),
        ({"write_cache": "off"}, True, Honour.IGNORED, Honour.HONOURED, True),
        ({"write_cache": "off", "no_flush": "on"}, False, Honour.IGNORED, Honour.HONOURED, False),
        ({"cache": "unsafe", "no_flush": "off"}, False, Honour.HONOURED, Honour.HONOURED, False),
        (
            {"cache": "writethrough", "write_cache": "on"},
            False,
            Honour.HONOURED,
            Honour.HONOURED,
            False,
        ),
        ({"bus": "nvdimm"}, False, Honour.IGNORED, Honour.HONOURED, False),
        ({"bus": "virtio-pmem"}, False, Honour.HONOURED, Honour.HONOURED, False),
    ],
)
def test_what_makes_writes_of_a_recovery_durable(world, machine, fua_seen, flush, fua, through):
    made = world.disk()
    made.write(0, bytes(512), at=1, done=2, fua=fua_seen)
    got = durability_during_recovery(made.timeline(), MachineSettings(**machine))
    assert got.contract == DeviceContract(flush=flush, fua=fua)
    assert got.through is through


@pytest.mark.parametrize("flush", list(Honour))
def test_on_a_file_what_is_written_through_is_as_durable_as_a_flush(world, flush):
    contract = DeviceContract(flush=flush, fua=Honour.IGNORED)
    timeline = replace(world.disk().timeline(), contract=contract)
    machine = MachineSettings(cache="writethrough", aio="threads")
    got = durability_during_recovery(timeline, machine)
    assert (got.through, got.contract.fua) == (True, flush)


def test_a_state_that_was_cut_again_is_kept_whole():
    state = CrashState(7, (1, 2), again=Again(((4096, b"x" * 512),), (LsnRange(9, 12),), 13))
    assert state_ref.parse(state_ref.serialise(state)) == state
    plain = CrashState(7, (1, 2))
    assert state_ref.state_id(plain) != state_ref.state_id(state)
    assert "again" not in state_ref.serialise(plain), "names of other states stay what they were"


def test_a_raw_log_has_no_life_after_recovery(world):
    recorded = world.recorded(made := world.disk(), world.commits(made, 8))
    for wanted in ({"after": 16}, {"depth": 1}):
        with pytest.raises(UsageError, match="reads it and writes nothing"):
            world.explore(recorded, **wanted)


def test_a_budget_is_shared_and_a_sample_is_seeded():
    assert Budget(states=100).first_share(after=0, depth=0) == Budget(states=100)
    assert Budget(states=100).first_share(after=16, depth=0) == Budget(states=90)
    assert Budget(seconds=60).first_share(after=16, depth=1) == Budget(seconds=30)
    drawn = []
    for _ in range(2):
        reservoir = Reservoir(3, 5)
        for number in range(50):
            reservoir.offer(CrashState(number, ()))
        drawn.append(reservoir.drawn())
    assert drawn[0] == drawn[1]
    assert len({state.instant for state in drawn[0]}) == 5
