# SPDX-License-Identifier: Apache-2.0
"""A survey spends few states: on which policies, in which order, and where in the run."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from powercut.crash.evidence import gather
from powercut.crash.explore import InstantKind, events
from powercut.crash.handmade import Handmade, history
from powercut.crash.policies import POLICIES
from powercut.crash.states import StateSpace
from powercut.crash.survey import Survey, spread
from powercut.model.contract import DeviceContract
from powercut.wal.layout import LayoutKind, WalLayout
from powercut.wal.record import record_bytes

RUN_ID = bytes(range(16))
COMMITS = 200


@pytest.fixture(scope="module")
def space() -> StateSpace:
    """Commits of three writes each, all in flight together, then a flush and an ack."""
    layout = WalLayout(LayoutKind.RAW, record=512, capacity=512 * COMMITS)
    made = Handmade(1 << 20, DeviceContract())
    acks = []
    for lsn in range(1, COMMITS + 1):
        at = 100 * lsn
        record = record_bytes(
            RUN_ID,
            0,
            lsn,
            prev_lsn=lsn - 1,
            generation=1,
            position=layout.position_of(lsn),
            record_size=512,
        )
        made.write(layout.position_of(lsn), record, at=at, done=at + 20)
        for number in (1, 2):
            place = (512 << 10) + 8192 * (2 * (lsn % 16) + number)
            made.write(place, bytes([number]) * 4096, at=at + number, done=at + 20 + number)
        made.flush(at=at + 30, done=at + 40)
        acks.append((lsn, at + 50))
    attempts = [(lsn, at - 60) for lsn, at in acks]
    evidence = gather(made.timeline(), history(acks, attempts), RUN_ID, layout, deep=True)
    return StateSpace(evidence.timeline, evidence.claims, evidence.sets)


def survey(space: StateSpace, **wanted) -> Survey:
    return Survey(space, events(space, list(InstantKind)), seed=7, per_policy=64, **wanted)


@pytest.mark.parametrize("count", [1, 2, 3, 64, 100, 1000])
def test_every_beginning_of_a_spread_is_spread(count):
    instants = np.arange(count)
    order = spread(instants, 5)
    assert sorted(order.tolist()) == instants.tolist()
    for length in {1, 2, 4, 16, count}:
        some = np.sort(order[: min(length, count)])
        around = np.diff(np.append(some, some[0] + count))
        assert around.max() <= 4 * -(-count // len(some)), (count, length)


def test_half_goes_to_what_is_durable_at_acks_over_the_whole_run(space):
    drawn = list(survey(space, limit=64))
    assert len(drawn) == 64
    first, rest = drawn[:32], drawn[32:]
    assert {state.policy for state in first} == {"durable-only"}
    acks = set(events(space, [InstantKind.ACK]).tolist())
    assert {state.instant for state in first} <= acks
    quarters = Counter((state.instant - 100) * 4 // (100 * COMMITS) for state in first)
    assert len(quarters) == 4
    assert min(quarters.values()) >= 7, "no stretch of the run is left out"
    assert {state.survivors for state in first} == {()}
    assert "durable-only" not in {state.policy for state in rest}


def test_the_rest_goes_to_the_other_policies_in_turn(space):
    rest = list(survey(space, limit=64))[32:]
    by_policy = Counter(state.policy for state in rest)
    # Nothing overlaps here, so that there is nothing to reorder.
    assert set(by_policy) == set(POLICIES) - {"durable-only", "reorder"}
    assert max(by_policy.values()) - min(by_policy.values()) <= 2
    assert len({state.policy for state in rest[:6]}) >= 5, "in turn, not one after the other"
    quarters = Counter((state.instant - 100) * 4 // (100 * COMMITS) for state in rest)
    assert min(quarters[number] for number in range(4)) >= 4


def test_the_same_seed_draws_the_same_states_and_another_draws_others(space):
    one, two = (list(survey(space, limit=64)) for _ in range(2))
    assert one == two
    other = Survey(space, events(space, list(InstantKind)), seed=8, per_policy=64, limit=64)
    assert list(other) != one


def test_without_a_limit_every_ack_is_looked_at_first(space):
    made = survey(space, policies=("durable-only", "everything-issued"), limit=1000)
    states = iter(made)
    first = [next(states) for _ in range(COMMITS + 1)]
    assert [state.policy for state in first] == ["durable-only"] * COMMITS + ["everything-issued"]
    assert made.saw_all_acks
    few = survey(space, limit=64)
    assert len(list(few)) == 64
    assert not few.saw_all_acks


def test_a_survey_counts_what_it_looked_at(space):
    made = survey(space, limit=64)
    states = list(made)
    coverage = made.coverage()
    assert coverage.distinct == 64
    assert coverage.by_policy == Counter(state.policy for state in states)
    assert len({state.instant for state in states}) <= coverage.instants < coverage.instants_all
    assert not coverage.exhausted


def test_a_small_recording_is_looked_at_to_its_end(space):
    made = survey(space, policies=("durable-only", "everything-issued"))
    states = list(made)
    assert made.coverage().exhausted
    assert len({(state.instant, state.survivors) for state in states}) == len(states)
