# SPDX-License-Identifier: Apache-2.0
"""Exposure and survival against the definition, state by state, on small logs (small_worlds)."""

from __future__ import annotations

from hypothesis import given, settings
from small_worlds import CHUNKS, DISK_UNITS, PER_RECORD, RUN_ID, SLOTS, worlds

from powercut.crash.evidence import gather
from powercut.crash.exposure import exposure
from powercut.crash.sets import durability_sets
from powercut.crash.survival import survival
from powercut.model.units import NEVER


def check_exposure(world):
    evidence = gather(world.made(), world.history(), RUN_ID, world.layout)
    report = exposure(evidence)
    lost = {t: world.lost_in_some_state(t) for t in range(1, world.last_instant() + 1)}
    required = {t: world.required(t) for t in lost}
    expected = set().union(*(lost[t] & required[t] for t in lost))
    assert set(report.lsn[report.exposed].tolist()) == expected
    for row, lsn in enumerate(report.lsn.tolist()):
        ack, durable = int(report.ack_ns[row]), int(report.durable_ns[row])
        asked = [t for t in lost if t > ack and lsn in required[t]]
        if ack < durable:
            assert all(lsn in lost[t] for t in asked if t == ack + 1 or t == durable)
        if not report.undone[row]:
            assert all((lsn in lost[t]) == (t <= durable) for t in asked)
        for t in asked:
            assert evidence.claims.required(t).first <= lsn <= evidence.claims.required(t).last


def check_sets(world):
    sets = durability_sets(world.made())
    for t in range(world.last_instant() + 1):
        assert set(sets.issued(t).nonzero()[0].tolist()) == world.issued(t)
        assert set(sets.durable(t).nonzero()[0].tolist()) == world.durable(t)


def check_survival(world):
    found = survival(gather(world.made(), world.history(), RUN_ID, world.layout, deep=True))
    shows = {unit: [None] * CHUNKS for unit in range(DISK_UNITS)}
    durable = world.durable(world.cut_at)
    for i, op in enumerate(world.ops):
        for unit, tags in op.units.items():
            if i in durable or (i, unit) in world.kept:
                shows[unit] = tags
    missing = set()
    for lsn in world.required(NEVER):  # every attempt that was received counts
        for part in range(PER_RECORD):
            chunk = (lsn - 1) * PER_RECORD + part
            if world.layout.wraps:
                chunk %= SLOTS * PER_RECORD
                there = shows[1 + chunk // CHUNKS][chunk % CHUNKS] == (lsn, part)
            else:
                there = any((lsn, part) in tags for tags in shows.values())
            if not there:
                missing.add(lsn)
    assert not found.uncertain
    assert {n for r in found.lost for n in range(r.first, r.last + 1)} == missing


@settings(max_examples=150, deadline=None)
@given(worlds())
def test_sets_are_those_of_the_definition(world):
    check_sets(world)


@settings(max_examples=250, deadline=None)
@given(worlds())
def test_exposure_is_what_some_legal_state_loses(world):
    check_exposure(world)


@settings(max_examples=120, deadline=None)
@given(worlds(cut=True))
def test_exposure_up_to_a_cut(world):
    check_exposure(world)


@settings(max_examples=150, deadline=None)
@given(worlds(cut=True))
def test_survival_is_what_the_medium_shows(world):
    check_survival(world)
