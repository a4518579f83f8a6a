# SPDX-License-Identifier: Apache-2.0
"""Crash states in cases that a person can follow."""

import math
from itertools import combinations

import numpy as np
import pytest
from handmade import Handmade, history

from powercut.crash.applied import Kept
from powercut.crash.claims import claims_of
from powercut.crash.explore import Exploration, InstantKind, events, sample
from powercut.crash.legality import tears_within, why_illegal
from powercut.crash.states import CrashState, Model, Move, StateSpace
from powercut.model.contract import DeviceContract
from powercut.model.errors import UsageError
from powercut.wal.layout import LayoutKind, WalLayout

PAGE = 4096
LAYOUT = WalLayout(LayoutKind.APPEND, record=512)


def page(byte, size=PAGE):
    return bytes([byte]) * size


def three_writes(**contract):
    """0 is durable, 1 and 2 completed in the other order, 3 is in flight; cut at 20."""
    made = Handmade(16 * PAGE, DeviceContract(**contract))
    made.write(0, page(1), at=1, done=2, fua=True)
    made.write(PAGE, page(2), at=3, done=8)
    made.write(2 * PAGE, page(3), at=4, done=6)
    made.write(3 * PAGE, page(4), at=9)
    return StateSpace(made.timeline())


def drawn(space, policy, instant=20, **options):
    instants = np.array([instant], dtype=np.int64)
    return {state.survivors for state in Exploration(space, instants, [policy], **options)}


def test_policies_draw_what_their_names_say():
    space = three_writes()
    assert drawn(space, "durable-only") == {()}
    assert drawn(space, "everything-issued") == {(1, 2, 3)}
    assert drawn(space, "all-but-one") == {(2, 3), (1, 3), (1, 2)}
    assert drawn(space, "only-one") == {(1,), (2,), (3,)}
    assert drawn(space, "prefixes") == {(), (2,), (1, 2)}
    subsets = drawn(space, "random-subsets", per_policy=400)
    assert len(subsets) == 8
    assert drawn(space, "reorder") == set()


def test_a_state_becomes_an_image():
    space = three_writes()
    torn = (Kept(1, PAGE + 512, PAGE + 1024), Kept(1, 2 * PAGE - 512, 2 * PAGE))
    state = CrashState(20, (1, 3), torn)
    assert why_illegal(space, state) == []
    applied = [(w.request, w.offset, w.length, w.data[0]) for w in space.image_writes(state)]
    assert applied == [
        (0, 0, PAGE, 1),
        (1, PAGE + 512, 512, 2),
        (1, 2 * PAGE - 512, 512, 2),
        (3, 3 * PAGE, PAGE, 4),
    ]


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        (CrashState(20, (0,)), "write 0 is durable"),
        (CrashState(9, (3,)), "request 3 is no write issued before 9"),
        (CrashState(20, (9,)), "request 9 is no write"),
        (CrashState(20, (1,), (Kept(2, 2 * PAGE, 3 * PAGE),)), "torn and does not survive"),
        (CrashState(20, (1,), (Kept(1, PAGE, PAGE + 100),)), "tears at 512 bytes"),
        (CrashState(20, (1,), (Kept(1, 0, PAGE),)), "tears at 512 bytes"),
        (CrashState(20, (1, 2, 3), moves=(Move(1, 3),)), "write 1 cannot come after write 3"),
    ],
)
def test_states_that_the_contract_does_not_permit_are_named(state, problem):
    (said,) = why_illegal(three_writes(), state)
    assert problem in said


def test_a_write_that_a_durable_one_hides_is_no_choice():
    made = Handmade(PAGE)
    made.write(0, page(1), at=1, done=2)
    made.write(0, page(2), at=3, done=4, fua=True)
    space = StateSpace(made.timeline())
    assert space.volatile(4).tolist() == [0, 1]
    assert space.volatile(5).tolist() == []
    assert space.legal_log2(5) == 0.0


def test_overlapping_writes_in_flight_together_come_in_both_orders():
    made = Handmade(PAGE)
    made.write(0, page(1), at=1, done=5)
    made.write(0, page(2), at=2, done=6)
    made.flush(at=7, done=8)
    space = StateSpace(made.timeline())
    states = list(Exploration(space, np.array([9]), per_policy=10))
    shown = {space.image_writes(state)[-1].data[0] for state in states}
    assert shown == {1, 2}
    assert space.legal_log2(9) == 8.0  # either write in each of 8 sectors


def test_counting_by_atomic_units():
    assert three_writes().legal_log2(20) == 24.0  # three pages of eight sectors, there or not
    assert three_writes(atomic_unit=4096).legal_log2(20) == 3.0
    assert three_writes(atomic_unit=1).legal_log2(20) == 3 * 4096.0
    assert three_writes().legal_log2(20, Model.PREFIX) == math.log2(3)
    assert three_writes(volatile_cache=False).legal_log2(20) == 8.0  # the one in flight


def test_a_state_that_tears_a_block_is_told_from_one_that_does_not():
    made = Handmade(4 * PAGE)
    made.write(PAGE // 2, page(1) * 2, at=1, done=2)  # from the middle of a page to that of another
    space = StateSpace(made.timeline())
    begin, end = PAGE // 2, PAGE // 2 + 2 * PAGE

    def torn(*kept):
        return CrashState(9, (0,), tuple(Kept(0, low, high) for low, high in kept))

    for whole in ((begin, PAGE), (PAGE, 2 * PAGE), (PAGE, end)):
        assert not tears_within(space, torn(whole), PAGE)
        assert why_illegal(space, torn(whole)) == []
    for parts in (
        [(begin, PAGE - 512)],
        [(begin, PAGE), (PAGE + 512, end)],
        [(2 * PAGE + 512, end)],
    ):
        assert tears_within(space, torn(*parts), PAGE)
        assert not tears_within(space, torn(*parts), 512)
    assert not tears_within(space, CrashState(9, (0,)), PAGE)


def test_a_device_that_keeps_order_drops_only_from_the_end():
    space = three_writes(ordered=True)
    assert drawn(space, "all-but-one") == {(1, 2)}  # without the one in flight
    assert drawn(space, "only-one") == {(2,)}
    assert drawn(space, "prefixes") == {(), (2,), (1, 2)}
    assert drawn(space, "random-subsets", per_policy=400) == {(), (2,), (1, 2), (1, 2, 3)}
    for state in Exploration(space, np.array([20]), ["torn"]):
        torn = {kept.write for kept in state.torn}
        assert (state.survivors, torn) in [((2,), {2}), ((1, 2), {1}), ((1, 2, 3), {3})]
    (problem,) = why_illegal(space, CrashState(20, (1,)))
    assert problem == "write 1 survives without 2, which completed before it"
    assert space.legal_log2(20) == pytest.approx(math.log2(1 + 3 * 255))


def test_epochs_follow_the_flush_that_covers():
    made = Handmade(16 * PAGE)
    made.write(0, page(1), at=1, done=4)
    made.write(PAGE, page(2), at=2, done=9)  # completes during the flush: the next epoch
    made.flush(at=5, done=12)
    made.write(2 * PAGE, page(3), at=6, done=8)
    made.write(3 * PAGE, page(4), at=13, done=14, fua=True)
    space = StateSpace(made.timeline())
    assert space.model_prefixes(12, Model.PREFIX) == [(), (0,), (0, 3), (0, 1, 3)]
    # after the flush write 0 is durable; the FUA write pulls all before it along
    assert space.model_prefixes(13, Model.EPOCH) == [(), (3,), (1, 3)]
    assert space.model_prefixes(15, Model.EPOCH) == [(1, 3)]


def test_instants_lie_just_after_events():
    made = Handmade(PAGE)
    made.write(0, page(1), at=1, done=2, fua=True)
    made.flush(at=4, done=6)
    made.write(0, page(1), at=8)
    timeline = made.timeline(cut_at=9)
    space = StateSpace(timeline, claims_of(history([(1, 7)]), LAYOUT, timeline))
    assert events(space, [InstantKind.FLUSH]).tolist() == [7]
    assert events(space, [InstantKind.FUA]).tolist() == [3]
    assert events(space, [InstantKind.ACK]).tolist() == [8]
    assert events(space, list(InstantKind)).tolist() == [2, 3, 5, 7, 8, 9]
    every = events(space, list(InstantKind))
    assert sample(every, 3, 7).tolist() == sample(every, 3, 7).tolist()
    assert len(sample(every, 3, 7)) == 3
    assert sample(every, 30, 7).tolist() == every.tolist()


def test_equal_states_with_other_requirements_are_drawn_again():
    made = Handmade(PAGE)
    made.write(0, page(1), at=1, done=2)
    timeline = made.timeline()
    space = StateSpace(timeline, claims_of(history([(1, 5)]), LAYOUT, timeline))
    exploration = Exploration(space, np.array([4, 5, 6]), ["everything-issued", "only-one"])
    assert [(s.instant, s.survivors) for s in exploration] == [(4, (0,)), (6, (0,))]
    coverage = exploration.coverage()
    assert (coverage.distinct, coverage.duplicates, coverage.instants) == (2, 4, 3)
    assert coverage.by_policy == {"everything-issued": 2}
    assert coverage.exhausted
    assert "2 distinct states of 2^9.6 legal ones" in coverage.text


def test_a_limit_is_kept_and_admitted():
    exploration = Exploration(three_writes(), np.array([20]), limit=3)
    assert len(list(exploration)) == 3
    assert exploration.coverage().exhausted is False
    bounded = Exploration(three_writes(), np.array([20]), ["only-one"], per_policy=2)
    assert len(list(bounded)) == 2
    assert bounded.coverage().exhausted is False


def test_a_policy_that_does_not_exist_is_refused():
    with pytest.raises(UsageError, match="only-two"):
        Exploration(three_writes(), np.array([20]), ["only-two"])


@pytest.mark.parametrize(
    "places", [(0, 1, 0), (1, 0, 0), (0, 0, 1)], ids=["over-both", "middle", "oldest"]
)
def test_reordered_states_are_counted_once_for_each_order_and_image(places):
    """Three writes in flight, two of one page and one of both pages that they lie in."""
    made = Handmade(16 * PAGE)
    for number, place in enumerate(places):
        made.write(0, page(number + 1, (place + 1) * PAGE), at=number + 1)
    space = StateSpace(made.timeline())
    exploration = Exploration(space, np.array([9]), ["reorder"])
    pairs = [Move(*pair) for pair in combinations(range(3), 2)]
    counted = {}
    for move in (None, *pairs):
        for size in range(4):
            for survivors in combinations(range(3), size):
                moves = (move,) if move else ()
                if move and not {move.write, move.after} <= set(survivors):
                    continue
                state = CrashState(9, survivors, moves=moves)
                assert why_illegal(space, state) == []
                disk = bytearray(2 * PAGE)
                for applied in space.image_writes(state):
                    disk[: applied.length] = applied.data.tobytes()
                counted.setdefault(exploration._prints.of(state), set()).add((moves, bytes(disk)))
    assert all(len(images) == 1 for images in counted.values())  # nothing is left out
    assert len(counted) == len(set().union(*counted.values()))  # and nothing is there twice
