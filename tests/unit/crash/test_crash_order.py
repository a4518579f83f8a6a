# SPDX-License-Identifier: Apache-2.0
"""The order of crash states: in step with no period, and what a small budget is spent on."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice
from math import comb, sqrt

import numpy as np
import pytest
from handmade import Handmade

from powercut.crash.explore import InstantKind, events
from powercut.crash.kinds import kinds_of
from powercut.crash.order import ALL_POLICIES, FEW, ONE_DISK, Order, one_of_each_sort
from powercut.crash.policies import POLICIES
from powercut.crash.representatives import permuted
from powercut.crash.states import StateSpace
from powercut.model.operations import OperationHistory
from powercut.model.timeline import DiskRange

PAGE = 4096
OPERATIONS = 500
PERIODS = (8, 10, 16, 32, 50, 64, 100, 200)
BY_DEFAULT = 320


def numbers(values):
    return np.array(values, dtype=np.int64)


def log(count=OPERATIONS, skip=0, phase=0, swapped=False):
    """A log of one page an operation.  Each `skip`-th is not synced; `swapped`: its flush comes
    before its write, so that it has as many of each as any other.
    """
    made, now, acks = Handmade(1 << 24), 0, []
    for number in range(1, count + 1):
        odd = skip and (number + phase) % skip == 0
        if odd and swapped:
            made.flush(at=now + 1, done=now + 2)
        made.write((100 + number) * PAGE, b"L" * PAGE, at=now + 3, done=now + 4)
        if not odd:
            made.flush(at=now + 5, done=now + 6)
        acks.append(now + 8)
        now += 10
    tried = numbers(range(1, count + 1))
    history = OperationHistory(tried, numbers([0] * count), tried, numbers(acks))
    return StateSpace(made.timeline(), history)


def order(space, seed=0, policies=ALL_POLICIES, **bounds):
    return Order(space, events(space, list(InstantKind)), policies, seed=seed, **bounds)


def operations_met(space, seed, states, **wanted):
    """Operations after whose ack nothing but what was durable is among the first `states`, be it as
    one of a group."""
    met = set()
    for state in islice(order(space, seed, **wanted), states):
        if not state.survivors and space.required(state.instant):
            met.add(space.required(state.instant).last)
    return met


@pytest.fixture(scope="module")
def honest():
    return log()


@pytest.fixture(scope="module")
def met_by_default(honest):
    """For each of 50 seeds."""
    return [operations_met(honest, seed, FEW) for seed in range(50)]


@pytest.mark.parametrize("period", PERIODS)
def test_a_period_is_met_as_often_as_a_fair_draw_meets_it(period, met_by_default):
    """Operations that look alike: which of them are faulty no order can know.  The least that each
    seed has to do is what a draw does, in each phase.
    """
    missed = 0
    for seed, met in enumerate(met_by_default):
        phase = seed % period
        missed += not any((number + phase) % period == 0 for number in met)
    drawn = min(len(met) for met in met_by_default)
    assert drawn >= FEW // 2 - 1
    faulty = OPERATIONS // period
    fair = comb(OPERATIONS - drawn, faulty) / comb(OPERATIONS, faulty)
    seeds = len(met_by_default)
    assert missed <= seeds * fair + 4 * sqrt(seeds * fair * (1 - fair)) + 0.5


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("period", PERIODS)
def test_what_looks_odd_is_met_in_the_first_states(period, swapped):
    for seed in range(2):
        phase = seed * 37 % period
        space = log(skip=period, phase=phase, swapped=swapped)
        met = operations_met(space, seed, FEW)
        assert any((number + phase) % period == 0 for number in met), seed


def test_one_in_a_hundred_that_looks_like_the_others_is_met_in_95_of_100_default_runs(honest):
    met = [operations_met(honest, seed, BY_DEFAULT) for seed in range(10)]
    found = sum(
        any((number + phase) % 100 == 0 for number in one) for one in met for phase in range(100)
    )
    assert found >= 0.95 * 10 * 100 - 4 * sqrt(10 * 100 * 0.95 * 0.05)


def test_half_of_few_states_are_of_acks_and_half_of_groups_and_coins(honest):
    space = log(skip=7)
    states = list(islice(order(space), FEW))
    assert Counter(state.policy for state in states) == {"durable-only": 32, "representatives": 32}
    quarters = Counter((state.instant - 1) * 4 // (10 * OPERATIONS) for state in states)
    assert min(quarters[number] for number in range(4)) >= 6


def test_acks_have_three_of_four_states_until_one_in_a_hundred_is_met_with_95_percent():
    space = log(skip=7)
    some = order(space)
    states = list(islice(some, FEW + 200))
    assert Counter(state.policy for state in states[FEW:])["durable-only"] == 150
    acks = some.coverage().acks
    assert acks.all == OPERATIONS
    assert 32 + 150 <= acks.looked_at <= 32 + 150 + 8, "some were seen as states of groups"
    assert acks.drawn < acks.looked_at
    list(islice(some, 400))
    assert some.coverage().acks.chance(100) >= 0.95


def test_few_acks_are_all_looked_at_first_in_order_of_time():
    space = log(count=20)
    some = order(space)
    states = list(islice(some, 20))
    assert [space.required(state.instant).last for state in states] == list(range(1, 21))
    assert not any(state.survivors for state in states)
    next(iter(some))
    assert some.coverage().acks.chance(10) == 1.0


def test_few_acks_for_which_a_limit_has_no_room_are_drawn_like_many():
    space = log(count=20)
    firsts = [
        [space.required(one.instant) for one in order(space, seed, limit=8)] for seed in (1, 2)
    ]
    assert firsts[0] != firsts[1]
    states = list(order(space, 1, limit=8))
    assert Counter(state.policy for state in states) == {"durable-only": 4, "representatives": 4}


def test_policies_that_are_asked_for_take_turns_half_of_them_at_acks():
    policies = ("durable-only", "everything-issued", "torn")
    states = list(islice(order(log(skip=7), policies=policies), 40))
    assert Counter(state.policy for state in states) == {
        "durable-only": 20, "everything-issued": 10, "torn": 10,
    }  # fmt: skip


def test_durable_only_alone_takes_every_ack_before_other_instants(honest):
    some = order(honest, policies=("durable-only",))
    states = iter(some)
    first = [honest.required(next(states).instant).last for _ in range(OPERATIONS)]
    assert sorted(first) == list(range(1, OPERATIONS + 1))
    assert first != sorted(first)
    list(states)
    assert some.saw_all_acks
    assert some.coverage().exhausted


def test_the_same_seed_draws_the_same_states_and_another_draws_others(honest):
    one, two, other = (list(islice(order(honest, seed), 100)) for seed in (7, 7, 8))
    assert one == two
    assert one != other


def test_a_small_recording_is_looked_at_to_its_end():
    some = order(log(count=8), policies=tuple(POLICIES))
    states = list(some)
    assert some.coverage().exhausted
    assert some.coverage().distinct == len(states)


def test_permutations_are_independent_for_each_purpose():
    instants = np.arange(100)
    one, two = (permuted(instants, 5, purpose).tolist() for purpose in ("acks", "torn"))
    assert sorted(one) == sorted(two) == instants.tolist()
    assert one != two
    assert permuted(instants, 5, "acks").tolist() == one


def test_an_operation_that_flushes_less_often_is_of_a_sort_of_its_own():
    """Its writes are of the kinds of any other."""
    space = log(skip=100)
    for seed in range(5):
        acks = events(space, [InstantKind.ACK])
        chosen = one_of_each_sort(space, acks, kinds_of(space), seed)
        assert sum(space.required(one).last % 100 == 0 for one in chosen) == 1
        assert len(chosen) == 3


def two_files(forgets=0):
    """Each operation writes to two files that are alike, and syncs both; one `forgets` the second,
    and syncs the first twice.  Of each third a page is written back before its sync."""
    made, now, acks = Handmade(1 << 24), 0, []
    for number in range(1, OPERATIONS + 1):
        for file in range(2):
            if file == 0 or number != forgets:
                for early in range(1 + (number % 3 == 0)):
                    place = 8 * (number % 50) + 4 * file
                    made.write(place * PAGE, b"L" * PAGE, at=now + 1 + early, done=now + 4)
            made.flush(at=now + 5, done=now + 6)
            now += 6
        acks.append(now + 1)
        now += 2
    tried = numbers(range(1, OPERATIONS + 1))
    history = OperationHistory(tried, numbers([0] * OPERATIONS), tried, numbers(acks))
    return StateSpace(made.timeline(), history)


@pytest.mark.parametrize("forgets", [281, 100])
def test_an_operation_that_forgets_one_of_two_files_that_are_alike_is_met(forgets):
    """It has the kinds and the flushes of any other, and leaves nothing outstanding."""
    space = two_files(forgets)
    for seed in range(20):
        acks = events(space, [InstantKind.ACK])
        chosen = one_of_each_sort(space, acks, kinds_of(space), seed)
        assert forgets in [space.required(one).last for one in chosen]
        assert len(chosen) < BY_DEFAULT // 4
    acks = events(two_files(), [InstantKind.ACK])
    honest = one_of_each_sort(two_files(), acks, kinds_of(two_files()), seed=1)
    assert len(honest) == len(chosen) - 1


def test_operations_that_all_differ_are_taken_in_an_order_by_chance():
    """Each writes a place of its own that is written again: as many sorts as places."""
    made, now, acks = Handmade(1 << 24), 0, []
    for _ in range(2):
        for place in range(8):
            for one in range(4 + place):
                made.write(place * 16 * PAGE, bytes([one + 1]) * PAGE, at=now + 1, done=now + 2)
                now += 2
            made.flush(at=now + 1, done=now + 2)
            acks.append(now + 5)
            now += 10
    tried = numbers(range(1, 17))
    history = OperationHistory(tried, numbers([0] * 16), tried, numbers(acks))
    space = StateSpace(made.timeline(), history)
    instants = events(space, [InstantKind.ACK])
    orders = {one_of_each_sort(space, instants, kinds_of(space), seed=seed) for seed in range(10)}
    assert len(orders) > 5
    assert all(len(chosen) >= 8 for chosen in orders)


def test_of_several_disks_each_loses_its_cache_alone_and_keeps_it_alone():
    """After acks: as if one node of a cluster had lost its power and no other, or all others."""
    made, acks, size = Handmade(3 << 20), [], 1 << 20
    for number in range(40):
        for disk in range(3):
            made.write(
                disk * size + number * PAGE, b"D" * PAGE, at=10 * number + 1, done=10 * number + 2
            )
        acks.append(10 * number + 3)
    disks = tuple(
        DiskRange(name, at * size, (at + 1) * size, "folder") for at, name in enumerate("abc")
    )
    tried = numbers(range(1, 41))
    history = OperationHistory(tried, numbers([0] * 40), tried, numbers(acks))
    space = StateSpace(replace(made.timeline(), disks=disks), history)
    found = set()
    for state in islice(order(space), FEW):
        if state.policy != ONE_DISK:
            continue
        kept = {int(space.begin[write]) // size for write in state.survivors}
        assert set(space.volatile(state.instant)) - set(state.survivors), "the richest state"
        assert len(state.survivors) == len(kept) * (state.instant // 10 + 1), (
            "all of a disk or none"
        )
        found.add(frozenset(kept))
    assert found == {frozenset(one) for one in ({0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2})}
