# SPDX-License-Identifier: Apache-2.0
"""The audit of flushes against its definition: each promise taken away by itself.

The worlds, and what may be lost in them, are those of the tests of exposure; they know nothing
of the analysis.
"""

from __future__ import annotations

from hypothesis import given, settings
from small_worlds import RUN_ID, without, worlds

from powercut.crash.audit import carried, dependence, promises
from powercut.crash.evidence import gather
from powercut.crash.sets import durability_sets
from powercut.model.contract import Honour


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


def lost_without(world, promise):
    """The same on a disk that ignores one promise."""
    op = world.ops[promise]
    kind, fua = op.kind, op.fua
    # A flush that covers nothing: as a write-zeroes of no unit it makes nothing durable.
    op.kind, op.fua = ("zero" if kind == "flush" else kind), False
    try:
        return lost_records(world)
    finally:
        op.kind, op.fua = kind, fua


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


@settings(max_examples=250, deadline=None)
@given(worlds())
def test_promises_carry_what_is_lost_without_them(world):
    check_audit(world)


@settings(max_examples=60, deadline=None)
@given(worlds(cut=True))
def test_promises_of_a_disk_that_lost_its_power(world):
    check_audit(world)
