# SPDX-License-Identifier: Apache-2.0
"""Bounds against sums of the binomial distribution in exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from powercut.model.confidence import (
    interval,
    lower_bound,
    regularised_beta,
    trials_needed,
    upper_bound,
)


def at_most(losses: int, trials: int, p: Fraction) -> Fraction:
    """P(X <= losses), term by term, without rounding."""
    return sum(
        (math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(losses + 1)),
        Fraction(0),
    )


@st.composite
def outcomes(draw: st.DrawFn) -> tuple[int, int]:
    trials = draw(st.integers(1, 40))
    return draw(st.integers(0, trials)), trials


confidences = st.floats(0.5, 0.999999)


@given(outcomes(), confidences)
def test_the_upper_bound_is_where_so_few_losses_become_too_unlikely(outcome, confidence):
    losses, trials = outcome
    bound = upper_bound(losses, trials, confidence)
    if losses == trials:
        assert bound == 1
        return
    chance = at_most(losses, trials, Fraction(bound))
    assert float(chance) == pytest.approx(1 - confidence, rel=1e-9)


@given(outcomes(), confidences)
def test_the_lower_bound_is_where_so_many_losses_become_too_unlikely(outcome, confidence):
    losses, trials = outcome
    bound = lower_bound(losses, trials, confidence)
    if losses == 0:
        assert bound == 0
        return
    chance = 1 - at_most(losses - 1, trials, Fraction(bound))
    assert float(chance) == pytest.approx(1 - confidence, rel=1e-9)


@given(st.integers(1, 12), st.fractions(0, 1, max_denominator=50), confidences)
def test_the_bounds_cover_any_p_as_often_as_they_say(trials, p, confidence):
    """The promise itself: over all outcomes, p is beyond a bound seldom enough."""
    above = below = Fraction(0)
    for k in range(trials + 1):
        weight = math.comb(trials, k) * p**k * (1 - p) ** (trials - k)
        above += weight * (p > upper_bound(k, trials, confidence))
        below += weight * (p < lower_bound(k, trials, confidence))
    assert float(above) <= (1 - confidence) * (1 + 1e-9)
    assert float(below) <= (1 - confidence) * (1 + 1e-9)


@given(outcomes(), confidences)
def test_bounds_are_in_order_and_mirror_each_other(outcome, confidence):
    losses, trials = outcome
    low, high = interval(losses, trials, confidence)
    assert 0 <= low <= losses / trials <= high <= 1
    assert low == pytest.approx(1 - upper_bound(trials - losses, trials, (1 + confidence) / 2))


@given(st.floats(1e-5, 0.99), st.floats(0.01, 0.99999))
def test_trials_needed_is_the_least_number(p, confidence):
    trials = trials_needed(p, confidence)
    assert upper_bound(0, trials, confidence) <= p
    assert trials == 1 or upper_bound(0, trials - 1, confidence) > p


@given(st.integers(1, 60), st.integers(1, 60), st.fractions(0, 1, max_denominator=200))
def test_the_beta_function_is_a_binomial_tail(a, b, x):
    """I_x(a, b) = P(X >= a) for a + b - 1 trials (DLMF 8.17.5)."""
    exact = 1 - at_most(a - 1, a + b - 1, x)
    assert regularised_beta(float(x), a, b) == pytest.approx(float(exact), rel=1e-10, abs=1e-15)
