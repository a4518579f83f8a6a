# SPDX-License-Identifier: Apache-2.0
"""Delta debugging finds what is known to be the cause, and nothing besides."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from powercut.witness.search import OutOfBudget, ddmin


def test_a_single_cause_takes_logarithmically_many_tests() -> None:
    tests = []

    def has_effect(part):
        tests.append(tuple(part))
        return 700 in part

    assert ddmin(range(1024), has_effect) == [700]
    assert len(tests) <= 3 * 10 + 1


def test_two_causes_at_the_ends() -> None:
    assert ddmin(range(100), lambda part: {3, 98} <= set(part)) == [3, 98]


def test_no_cause_at_all() -> None:
    assert ddmin(range(5), lambda part: True) == []


def test_everything_is_needed() -> None:
    assert ddmin(range(7), lambda part: len(part) == 7) == list(range(7))


def test_one_item_is_not_taken_for_granted() -> None:
    assert ddmin([5], lambda part: 5 in part) == [5]
    assert ddmin([5], lambda part: True) == []
    assert ddmin([], lambda part: pytest.fail("nothing to ask")) == []


def test_the_smallest_so_far_when_the_budget_ends() -> None:
    left = 4

    def has_effect(part):
        nonlocal left
        if left == 0:
            raise OutOfBudget
        left -= 1
        return 1000 in part

    found = ddmin(range(1024), has_effect)
    assert 1000 in found
    assert 1 < len(found) < 1024


@given(st.integers(1, 60), st.integers(0, 2**32))
def test_the_result_is_one_minimal_and_the_same_every_time(size: int, seed: int) -> None:
    draw = random.Random(seed)
    causes = [
        frozenset(draw.sample(range(size), draw.randint(1, min(size, 4))))
        for _ in range(draw.randint(1, 3))
    ]

    def has_effect(part):
        return any(cause <= set(part) for cause in causes)

    found = ddmin(range(size), has_effect) if has_effect(range(size)) else []
    assert has_effect(found)
    assert not any(has_effect(found[:i] + found[i + 1 :]) for i in range(len(found)))
    assert found == ddmin(range(size), has_effect)
    assert found == sorted(found)
