# SPDX-License-Identifier: Apache-2.0
"""The order of the policy `representatives`, on small random logs."""

from __future__ import annotations

from itertools import islice
from unittest import mock

import numpy as np
from handmade import Handmade
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.known_bugs.files import Files
from powercut.crash import order
from powercut.crash.explore import Exploration, InstantKind, events
from powercut.crash.folder_rows import Promise
from powercut.crash.kinds import kinds_of
from powercut.crash.legality import why_illegal
from powercut.crash.order import Order
from powercut.crash.policies import POLICIES
from powercut.crash.stages import stages_of
from powercut.crash.states import StateSpace
from powercut.model.contract import DeviceContract
from powercut.model.operations import OperationHistory

UNIT = 512

ops = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 7), st.integers(1, 3), st.booleans()),
        st.tuples(st.just("late"), st.integers(0, 7), st.integers(1, 3), st.just(False)),
        st.tuples(st.just("flush"), st.just(0), st.just(0), st.just(False)),
        st.tuples(st.just("ack"), st.just(0), st.just(0), st.just(False)),
    ),
    min_size=1,
    max_size=24,
)


def numbers(values):
    return np.array(values, dtype=np.int64)


@st.composite
def spaces(draw, repeats=1):
    ordered = draw(st.booleans())
    made = Handmade(16 * UNIT, DeviceContract(atomic_unit=UNIT, ordered=ordered))
    acks = []
    for step, (what, unit, length, fua) in enumerate(draw(ops) * repeats):
        at = 10 * step + 1
        data = bytes([step % 255 + 1]) * length * UNIT
        match what:
            case "write":
                made.write(unit * UNIT, data, at=at, done=at + 1, fua=fua)
            case "late":  # in flight with what follows
                made.write(unit * UNIT, data, at=at, done=at + 25)
            case "flush":
                made.flush(at=at, done=at + 2)
            case "ack":
                acks.append(at)
    tried = numbers(range(1, len(acks) + 1))
    history = OperationHistory(tried, numbers([0] * len(acks)), tried, numbers(acks))
    return StateSpace(made.timeline(), history)


def drawn(space, seed=0, **bounds):
    instants = events(space, list(InstantKind))
    return Order(space, instants, ("representatives",), seed=seed, **bounds)


@settings(max_examples=25)
@given(spaces(), st.integers(0, 3))
def test_every_state_is_legal_and_none_comes_twice(space, seed):
    exploration = drawn(space, seed, per_policy=3)
    seen = set()
    for state in exploration:
        assert why_illegal(space, state) == []
        required = space.required(state.instant)
        key = (exploration._prints.of(state), required)
        assert key not in seen
        seen.add(key)
    coverage = exploration.coverage()
    assert coverage.distinct == len(seen)
    assert coverage.groups.seen == coverage.groups.all


@settings(max_examples=25)
@given(spaces(), st.integers(0, 3))
def test_no_group_has_a_second_state_before_each_has_had_its_first(space, seed):
    exploration = drawn(space, seed, per_policy=3)
    first = set()
    for group, _ in exploration.labelled():
        if group in first:
            groups = exploration.coverage().groups
            assert groups.seen == groups.all
        first.add(group)


@settings(max_examples=20)
@given(spaces(), st.integers(0, 3), st.integers(0, 12))
def test_a_seed_gives_one_order_and_a_limit_its_beginning(space, seed, limit):
    whole = list(drawn(space, seed, per_policy=2))
    assert list(drawn(space, seed, per_policy=2)) == whole
    if limit >= len(events(space, [InstantKind.ACK])):
        assert list(drawn(space, seed, per_policy=2, limit=limit)) == whole[:limit]
    assert list(islice(drawn(space, seed, per_policy=2), limit)) == whole[:limit]


@settings(max_examples=20)
@given(spaces())
def test_every_instant_belongs_to_one_stage(space):
    instants = events(space, list(InstantKind))
    exploration = drawn(space)
    stages, _ = stages_of(space, instants, exploration._kinds)
    found = np.concatenate([stage.instants for stage in stages] or [numbers([])])
    assert sorted(found.tolist()) == instants.tolist()


@settings(max_examples=30)
@given(spaces())
def test_with_other_policies_a_sweep_follows_and_nothing_is_left_out(space):
    instants = events(space, list(InstantKind))
    sweep = {content(space, one) for one in _swept(space, instants)}
    both = Order(space, instants, ("representatives", *POLICIES), per_policy=400)
    assert sweep <= {content(space, one) for one in both}


def _swept(space, instants):
    names = [name for name in POLICIES if name not in ("random-subsets", "torn")]
    return Exploration(space, instants, names, per_policy=400)


def content(space, state):
    """The image, and what is required of it."""
    disk = bytearray(16 * UNIT)
    for write in space.image_writes(state):
        disk[write.offset : write.offset + write.length] = write.data.tobytes()
    return bytes(disk), space.required(state.instant)


@settings(max_examples=30)
@given(spaces())
def test_what_is_volatile_at_many_instants_is_what_is_at_each(space):
    instants = events(space, list(InstantKind))
    together = {
        (at, write)
        for block in space.volatile_at(instants)
        for at, write in zip(*block, strict=True)
    }
    apart = {
        (at, write)
        for at, instant in enumerate(instants.tolist())
        for write in space.volatile(instant).tolist()
    }
    assert together == apart


@settings(max_examples=15)
@given(spaces(repeats=12))
def test_stages_are_the_same_whether_chunks_were_known_or_not(space):
    instants, kinds = events(space, list(InstantKind)), kinds_of(space)
    with_memory = stages_of(space, instants, kinds)
    with mock.patch("powercut.crash.stages._KNOWN_MAX", 0):
        without = stages_of(space, instants, kinds)
    assert with_memory == without
    for one, other in zip(with_memory[0], without[0], strict=True):
        assert one.instants.tolist() == other.instants.tolist()


calls = st.lists(
    st.sampled_from(["write", "overwrite", "truncate", "sync", "rename", "sync_folder"]),
    min_size=1,
    max_size=6,
)


@st.composite
def folders(draw, count=12):
    """Operations that all make the same calls of a file, which has a name of its own in each if
    `fresh`: the spaces with such names, and with one name.
    """
    made, promise = draw(calls), draw(st.sampled_from(Promise))
    letters = st.text("abcdefghijklmnopqrstuvwxyz", min_size=7, max_size=7)
    names = draw(st.lists(letters, min_size=count, max_size=count, unique=True))
    return tuple(
        _folder(made, names if fresh else ["tmp"] * count, promise) for fresh in (True, False)
    )


def _folder(made, names, promise):
    files = Files({})
    for operation, name in zip(files.operations(len(names)), names, strict=True):
        del operation
        files.write(name, b"x" * 700, at=0)
        there = name
        for call in made:
            match call:
                case "write":
                    files.write(there, b"y" * 100)
                case "overwrite":
                    files.write(there, b"z", at=3)
                case "truncate":
                    files.truncate(there, 9)
                case "sync":
                    files.sync(there)
                case "rename" if there == name:
                    files.rename(name, there := "store")
                case "sync_folder":
                    files.sync_folder()
        if there == name:
            files.unlink(name)
    return files.case(list, promise=promise).space


@settings(max_examples=25)
@given(folders())
def test_a_name_that_is_new_each_time_makes_no_more_groups(spaces):
    fresh, fixed = (drawn(space) for space in spaces)
    assert len(fresh._kinds.names) == len(fixed._kinds.names)
    assert fresh.coverage().groups == fixed.coverage().groups


@settings(max_examples=25)
@given(folders())
def test_kinds_outstanding_at_acks_are_counted_as_they_are_told_one_by_one(spaces):
    for space in spaces:
        acks, kinds = events(space, [InstantKind.ACK]), kinds_of(space)
        counted = set(zip(*order._outstanding(space, acks, kinds), strict=True))
        assert counted == {
            (at, kinds.rank[write])
            for block in space.volatile_at(acks)
            for at, write in zip(*block, strict=True)
        }
