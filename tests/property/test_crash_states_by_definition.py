# SPDX-License-Identifier: Apache-2.0
"""Drawn crash states against the enumeration of all legal images of small logs."""

from __future__ import annotations

import itertools
import math
from itertools import islice
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.strategies import randoms
from small_worlds import DISK_UNITS as UNITS
from small_worlds import UNIT, chunk_bytes, worlds

from powercut.crash import states
from powercut.crash.claims import claims_of
from powercut.crash.explore import Exploration, InstantKind, events
from powercut.crash.legality import why_illegal
from powercut.crash.policies import POLICIES
from powercut.crash.states import Model, StateSpace
from powercut.explore.state_images import StateImages


def image(space, state):
    return laid(space.image_writes(state))


def laid(writes):
    disk = bytearray(UNITS * UNIT)
    for write in writes:
        data = bytes(write.length) if write.data is None else write.data.tobytes()
        disk[write.offset : write.offset + write.length] = data
    return bytes(disk)


def unit_bytes(world, tags):
    return b"".join(chunk_bytes(tag, wraps=world.layout.wraps) for tag in tags)


def possible_writers(world, unit, t):
    """The last writers that some legal crash state at `t` shows in `unit`; None: the base."""
    covers = {i for i in world.issued(t) if unit in world.ops[i].units}
    must = covers & world.durable(t)
    writers = set()
    for size in range(len(covers - must) + 1):
        for more in itertools.combinations(sorted(covers - must), size):
            kept = must | set(more)
            if not kept:
                writers.add(None)
            writers |= {w for w in kept if not any(world.precedes(w, other) for other in kept)}
    return writers


def space_of(world):
    timeline = world.made()
    return StateSpace(timeline, claims_of(world.history(), world.layout, timeline))


def check_drawn(world):
    """Every state is legal, unit by unit; equal fingerprints mean equal images."""
    space = space_of(world)
    instants = events(space, list(InstantKind))
    exploration = Exploration(space, instants, per_policy=12, seed=3)
    images = {}
    shown = {}
    for t in instants.tolist():
        for state in exploration._draw(t):  # repetitions included
            assert why_illegal(space, state) == []
            disk = image(space, state)
            assert images.setdefault(exploration._prints.of(state), disk) == disk
            for unit in range(UNITS):
                content = disk[unit * UNIT : (unit + 1) * UNIT]
                shown.setdefault((t, unit), set()).add(content)
    for t in instants.tolist():
        for unit in range(UNITS):
            legal = {unit_bytes(world, tags) for tags in world.contents(unit, t)}
            assert shown.get((t, unit), set()) <= legal


def check_complete(world):
    """Without a bound, every content that a unit may show is drawn at each instant."""
    space = space_of(world)
    for t in events(space, list(InstantKind)).tolist():
        shown = {unit: set() for unit in range(UNITS)}
        for name in POLICIES:
            for state in Exploration(space, instants_of(t), [name], per_policy=60):
                disk = image(space, state)
                for unit in range(UNITS):
                    shown[unit].add(disk[unit * UNIT : (unit + 1) * UNIT])
        for unit in range(UNITS):
            assert shown[unit] == {unit_bytes(world, tags) for tags in world.contents(unit, t)}


def instants_of(t):
    import numpy as np

    return np.array([t], dtype=np.int64)


def check_count(world):
    space = space_of(world)
    for t in events(space, list(InstantKind)).tolist():
        legal = math.prod(len(possible_writers(world, unit, t)) for unit in range(UNITS))
        assert space.legal_log2(t) == pytest.approx(math.log2(legal))


def check_models(world):
    """Prefix and epoch states are exact states, and prefixes of their orders."""
    space = space_of(world)
    for t in events(space, list(InstantKind)).tolist():
        durable, issued = world.durable(t), world.issued(t)
        done = sorted(
            (i for i in issued if (world.ops[i].completed or t) < t),
            key=lambda i: world.ops[i].completed,
        )
        flushes = [op for op in world.ops if op.kind == "flush"]
        group = {
            i: min(
                (n for n, f in enumerate(flushes) if f.submitted > world.ops[i].completed),
                default=len(flushes),
            )
            for i in done
        }
        orders = {
            Model.PREFIX: done,
            Model.EPOCH: sorted(done, key=lambda i: (group[i], world.ops[i].completed)),
        }
        for model, order in orders.items():
            visible = set(space.volatile(t).tolist())
            legal = {
                frozenset(order[:n]) & visible
                for n in range(len(order) + 1)
                if durable <= set(order[:n])
            }
            assert {frozenset(s) for s in space.model_prefixes(t, model)} == legal


@settings(max_examples=80, deadline=None)
@given(worlds())
def test_every_state_drawn_is_legal(world):
    check_drawn(world)


@settings(max_examples=25, deadline=None)
@given(worlds())
def test_every_legal_content_is_drawn(world):
    check_complete(world)


@settings(max_examples=150, deadline=None)
@given(worlds())
def test_legal_states_are_counted_exactly(world):
    check_count(world)


@settings(max_examples=100, deadline=None)
@given(worlds(cut=True))
def test_weaker_models_are_prefixes_of_their_orders(world):
    check_models(world)


@settings(max_examples=12, deadline=None)
@given(worlds(), randoms())
def test_what_is_remembered_of_an_instant_is_what_a_fresh_space_says(world, order):
    space, images = space_of(world), StateImages(space_of(world))
    instants = events(space, list(InstantKind)).tolist()
    order.shuffle(instants)
    for t in instants:
        fresh = space_of(world)
        assert space.durable(t).tolist() == fresh.durable(t).tolist()
        assert space.volatile(t).tolist() == fresh.volatile(t).tolist()
        assert space.legal_log2(t) == fresh.legal_log2(t)
        for policies in (POLICIES, ["torn"]):
            for state in islice(Exploration(fresh, np.array([t]), policies, seed=4), 6):
                assert laid(images.writes(state)) == image(fresh, state)


@pytest.mark.parametrize("at_once", [1, 3, 1 << 20])
@settings(max_examples=40, deadline=None)
@given(worlds())
def test_many_instants_are_told_together_as_each_by_itself(at_once, world):
    space = space_of(world)
    instants = events(space, list(InstantKind))
    with patch.object(states, "_AT_ONCE", at_once):
        told = [
            (at, write)
            for ats, writes in space.volatile_at(instants)
            for at, write in zip(ats.tolist(), writes.tolist(), strict=True)
        ]
    assert sorted(told) == [
        (at, write) for at, t in enumerate(instants.tolist()) for write in space.volatile(t)
    ]
