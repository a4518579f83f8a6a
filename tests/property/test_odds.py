# SPDX-License-Identifier: Apache-2.0
"""The chance of meeting a fault: against simulation, and never more than what is so."""

from __future__ import annotations

import random
import re
from math import sqrt

from hypothesis import given, settings
from hypothesis import strategies as st

from powercut.model.confidence import ONE_IN, AcksLookedAt
from powercut.report import words
from powercut.store.states_recovered import StatesAtAcks

TRIES = 400


@st.composite
def searches(draw):
    acks = draw(st.integers(1, 300))
    drawn = draw(st.integers(0, acks))
    chosen = draw(st.integers(0, acks - drawn))
    return acks, drawn, chosen


def faulty_of(acks, one_in, placement, seed):
    """Where a fault in one of so many operations lies: periodic, in one stretch, or at random."""
    count = acks // one_in
    match placement:
        case "periodic":
            phase = seed % one_in
            return {number for number in range(acks) if number % one_in == phase}
        case "first":
            return set(range(count))
    return set(random.Random(seed).sample(range(acks), count))


@settings(max_examples=60, deadline=None)
@given(
    searches(), st.sampled_from([2, 8, 10, 32, 100]), st.sampled_from(["periodic", "first", "any"]),
    st.integers(0, 1000),
)  # fmt: skip
def test_wherever_the_fault_is_it_is_met_at_least_as_often_as_is_said(
    search, one_in, placement, seed
):
    """What was chosen for a reason lies where the fault is not, as long as there is room."""
    acks, drawn, chosen = search
    faulty = faulty_of(acks, one_in, placement, seed)
    sound = [number for number in range(acks) if number not in faulty]
    told = AcksLookedAt(acks, drawn + chosen, drawn).chance(one_in)
    draw = random.Random(seed)
    met = 0
    for _ in range(TRIES):
        for_a_reason = set(sound[:chosen])
        rest = [number for number in range(acks) if number not in for_a_reason]
        for_a_reason |= set(sorted(faulty)[: max(0, chosen - len(sound))])
        rest = [number for number in rest if number not in for_a_reason]
        met += bool(faulty & (for_a_reason | set(draw.sample(rest, drawn))))
    assert met / TRIES >= told - 5 * sqrt(told * (1 - told) / TRIES) - 1e-9


@settings(max_examples=60, deadline=None)
@given(st.integers(10, 300), st.data())
def test_of_a_draw_alone_it_is_what_simulation_says(acks, data):
    drawn = data.draw(st.integers(0, acks))
    faulty = set(range(acks // 10))
    told = AcksLookedAt(acks, drawn, drawn).chance(10)
    draw = random.Random(drawn)
    met = sum(bool(faulty & set(draw.sample(range(acks), drawn))) for _ in range(TRIES))
    assert abs(met / TRIES - told) <= 5 * sqrt(told * (1 - told) / TRIES) + 0.01


@given(st.integers(0, 10_000), st.data())
def test_it_grows_with_what_is_looked_at_and_shrinks_with_rarity(acks, data):
    drawn = data.draw(st.integers(0, acks))
    looked_at = data.draw(st.integers(drawn, acks))
    told = [AcksLookedAt(acks, looked_at, drawn).chance(one) for one in ONE_IN]
    assert all(0.0 <= one <= 1.0 for one in told)
    assert told == sorted(told, reverse=True)
    if looked_at < acks:
        more = AcksLookedAt(acks, looked_at + 1, drawn + 1)
        assert all(more.chance(one) >= was for one, was in zip(ONE_IN, told, strict=True))


@given(st.integers(1, 10_000), st.data())
def test_words_never_promise_more_than_the_number(acks, data):
    drawn = data.draw(st.integers(0, acks))
    looked_at = data.draw(st.integers(drawn, acks))
    made = AcksLookedAt(acks, looked_at, drawn)
    told = words.odds(StatesAtAcks.of(made))
    if looked_at == acks:
        assert told.startswith("the states just after all ")
        return
    said = re.search(r"a fault in 1 of ([0-9,]+) .*? at least a ([0-9.]+) chance", told)
    assert bool(said) == (acks >= min(ONE_IN))
    if said:
        rarest = int(said.group(1).replace(",", ""))
        assert rarest == max(one for one in ONE_IN if one <= acks)
        assert made.chance(rarest) - 0.01 < float(said.group(2)) <= made.chance(rarest)


@given(st.integers(1, 500), st.data())
def test_two_trials_meet_what_one_of_them_meets(acks, data):
    one, two = (
        StatesAtAcks.of(AcksLookedAt(acks, drawn, drawn))
        for drawn in data.draw(st.tuples(st.integers(0, acks), st.integers(0, acks)))
    )
    both = one.joined(two)
    assert both == two.joined(one)
    for first, second, joined in zip(one.chances, two.chances, both.chances, strict=True):
        assert joined.met == 1 - (1 - first.met) * (1 - second.met)
        assert joined.met >= max(first.met, second.met) - 1e-12
