# SPDX-License-Identifier: Apache-2.0
"""Covering arrays: every possible pair of values occurs, whatever is possible."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from powercut.scenario.choose import covering, pairs_of


@st.composite
def possible(draw) -> list[tuple[int, ...]]:
    """Some of the combinations of up to five axes, in any order."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    product = list(itertools.product(*(range(size) for size in sizes)))
    return draw(st.lists(st.sampled_from(product), min_size=1, max_size=150, unique=True))


@given(rows=possible())
@settings(max_examples=300, deadline=None)
def test_every_pair_of_a_possible_combination_occurs(rows):
    chosen = covering(rows)
    covered = set().union(*(pairs_of(rows[index]) for index in chosen))
    assert covered == set().union(*map(pairs_of, rows))
    assert chosen == sorted(set(chosen))
    values = {(axis, value) for row in rows for axis, value in enumerate(row)}
    assert values == {(a, v) for index in chosen for a, v in enumerate(rows[index])}


@given(rows=possible())
@settings(max_examples=50, deadline=None)
def test_the_same_combinations_give_the_same_choice(rows):
    assert covering(rows) == covering(list(rows))


def test_a_product_shrinks_to_about_that_of_its_largest_axes():
    rows = list(itertools.product(range(7), range(5), range(4), range(3), range(2)))
    assert 35 <= len(covering(rows)) <= 50
