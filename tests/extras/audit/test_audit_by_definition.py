# SPDX-License-Identifier: Apache-2.0
"""The audit of flushes against its definition: each promise taken away by itself, and the states
that it recovers.

The worlds, and what may be lost in them, are those of the tests of exposure; they know nothing
of the analysis.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
from dataclasses import dataclass, field

from hypothesis import given, settings
from small_worlds import DISK_UNITS, RUN_ID, UNIT, chunk_bytes, without, worlds

from powercut.crash.claims import claims_of
from powercut.crash.evidence import gather
from powercut.crash.sets import durability_sets
from powercut.crash.states import StateSpace
from powercut.model.contract import Honour
from powercut_extras.audit.promise_worth import carried, dependence, promises, until_next
from powercut_extras.audit.without_promise import StatesWithout, with_hanging


def kept_promises(world):
    """Flushes and writes with FUA that completed on a disk that keeps such promises."""
    if not world.contract.volatile_cache:
        return []
    until = world.last_instant() if world.cut_at is not None else world.last_instant() + 1
    honoured = {"flush": world.contract.flush, "fua": world.contract.fua}
    return [
        i
        for i, op in enumerate(world.ops)
        if (op.kind == "flush" or op.fua)
        and honoured["flush" if op.kind == "flush" else "fua"] is Honour.HONOURED
        and not world.lies(op)
        and op.completed is not None
        and op.completed < until
    ]


def lost_records(world):
    """Every record that some legal crash state loses while it is required."""
    instants = range(1, world.last_instant() + 1)
    return set().union(*(world.lost_in_some_state(t) & world.required(t) for t in instants))


@contextlib.contextmanager
def ignored(world, promise):
    """The world of a disk that ignores one promise."""
    op = world.ops[promise]
    kind, fua = op.kind, op.fua
    # A flush that covers nothing: as a write-zeroes of no unit it makes nothing durable.
    op.kind, op.fua = ("zero" if kind == "flush" else kind), False
    try:
        yield
    finally:
        op.kind, op.fua = kind, fua


def lost_without(world, promise):
    """The same on a disk that ignores one promise."""
    with ignored(world, promise):
        return lost_records(world)


def check_audit(world):
    timeline = world.made()
    kept = kept_promises(world)
    assert promises(timeline).tolist() == kept
    hang = dependence(timeline)
    durable_ns = durability_sets(timeline).durable_ns
    for promise in kept:
        alone = durability_sets(without(timeline, promise)).durable_ns
        later = (alone > durable_ns).nonzero()[0]
        assert hang.hanging(promise).tolist() == later.tolist()
        assert hang.without_ns[later].tolist() == alone[later].tolist()
    before = lost_records(world)
    expected = {promise: lost_without(world, promise) - before for promise in kept}
    found = {
        one.promise: {lsn for span in one.lsns for lsn in range(span.first, span.last + 1)}
        for one in carried(gather(timeline, world.history(), RUN_ID, world.layout))
    }
    assert found == {promise: lsns for promise, lsns in expected.items() if lsns}
    check_joined(world, expected)


def check_joined(world, expected):
    """Without an ack until the next promise no bytes are lost, without a write no state is new."""
    timeline = world.made()
    hang = dependence(timeline)
    claims = claims_of(world.history(), world.layout, timeline)
    for promise, lsns in expected.items():
        following = until_next(timeline, hang, promise, claims.ack_ns)
        if following is None or following.acks:
            continue
        assert not lsns
        if not following.writes:
            hanging = hang.hanging(promise)
            done, until = int(hang.durable_ns[hanging[0]]), int(hang.without_ns[hanging].max())
            before = legal_units(world, done)
            with ignored(world, promise):
                for t in range(done + 1, until + 1):
                    assert all(map(operator.le, legal_units(world, t), before))


@settings(max_examples=250, deadline=None)
@given(worlds())
def test_promises_carry_what_is_lost_without_them(world):
    check_audit(world)


@settings(max_examples=60, deadline=None)
@given(worlds(cut=True))
def test_promises_of_a_disk_that_lost_its_power(world):
    check_audit(world)


def shows(world, write, t):
    """Whether some state at `t` of a disk with this world's promises shows `write` and need not."""
    durable = world.durable(t)
    return write not in durable and any(
        not any(world.precedes(write, d) for d in durable if unit in world.ops[d].units)
        for unit in world.ops[write].units
    )


def units_of(space, state):
    """What a state's disk shows, unit by unit."""
    disk = bytearray(DISK_UNITS * UNIT)
    for write in space.image_writes(state):
        data = bytes(write.length) if write.data is None else write.data.tobytes()
        disk[write.offset : write.offset + write.length] = data
    return [bytes(disk[unit * UNIT : (unit + 1) * UNIT]) for unit in range(DISK_UNITS)]


def legal_units(world, t):
    """What each unit may show after a legal cut at `t`."""
    return [
        {
            b"".join(chunk_bytes(tag, wraps=world.layout.wraps) for tag in tags)
            for tags in world.contents(unit, t)
        }
        for unit in range(DISK_UNITS)
    ]


@dataclass
class At:
    """By definition, a cut at one instant on a disk with all promises, and without one."""

    durable: set
    legal: list
    late: set  # of `durable`, what is not durable without the promise
    able: set  # of those that hang on it, the ones that a state may lack
    legal_without: list
    found: set = field(default_factory=set)

    @classmethod
    def of(cls, world, promise, hanging, t):
        durable, legal = world.durable(t), legal_units(world, t)
        with ignored(world, promise):
            able = {write for write in hanging if shows(world, write, t)}
            return cls(durable, legal, durable - world.durable(t), able, legal_units(world, t))


def check_states(world):
    """Each state is legal without its promise and not with it; the parts are all where few."""
    timeline = world.made()
    space = StateSpace(timeline, claims_of(world.history(), world.layout, timeline))
    hang = dependence(timeline)
    states = StatesWithout(space, hang, lambda write: world.ops[write].kind, seed=3)
    for promise in kept_promises(world):
        hanging = set(hang.hanging(promise).tolist())
        if hanging:
            deprived = states.space(promise)
            at = {t: At.of(world, promise, hanging, t) for t in states.instants(promise)}
            for lacking in states.states(promise):
                state = lacking.state
                check_state(world, at[state.instant], lacking)
                shown = units_of(deprived, state)
                assert all(map(operator.contains, at[state.instant].legal_without, shown))
                whole = units_of(deprived, with_hanging(hang, promise, state))
                assert all(map(operator.contains, at[state.instant].legal, whole))
            for one in at.values():
                check_parts(one)


def check_state(world, at, lacking):
    """What it lacks was durable with the promise, and all else that had to be there is."""
    state, lost, torn = lacking.state, set(lacking.missing), set(lacking.state.torn_parts)
    assert lost
    assert lost <= at.late & at.able
    assert (lost - torn).isdisjoint(state.survivors)
    assert at.late & at.able <= set(state.survivors) | lost
    assert set(state.survivors) <= world.issued(state.instant) - (at.durable - at.late)
    assert lacking.in_part == bool(torn or lost < at.able)
    if not torn:
        at.found.add(frozenset(lost))


def check_parts(at):
    """Each part of what may be missing is missing in some state, where there are few."""
    able = sorted(at.able)
    if len(able) <= 3:
        sizes = range(1, len(able) + 1)
        parts = [frozenset(part) for n in sizes for part in itertools.combinations(able, n)]
        assert at.found == set(parts)


@settings(max_examples=60, deadline=None)
@given(worlds())
def test_states_without_a_promise_are_legal_without_it_alone(world):
    check_states(world)


@settings(max_examples=20, deadline=None)
@given(worlds(cut=True))
def test_states_without_a_promise_of_a_disk_that_lost_its_power(world):
    check_states(world)
