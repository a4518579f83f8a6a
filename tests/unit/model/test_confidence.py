# SPDX-License-Identifier: Apache-2.0
"""Bounds against published values and closed forms."""

from __future__ import annotations

import math

import pytest

from powercut.model.confidence import (
    interval,
    lower_bound,
    regularised_beta,
    trials_needed,
    upper_bound,
)


@pytest.mark.parametrize(
    ("losses", "trials", "low", "high"),
    [
        # Two-sided 95 % limits from the usual tables of Clopper and Pearson.
        (0, 10, 0.0, 0.3085),
        (1, 10, 0.0025, 0.4450),
        (3, 10, 0.0667, 0.6525),
        (5, 10, 0.1871, 0.8129),
        (10, 10, 0.6915, 1.0),
        (2, 20, 0.0123, 0.3170),
        (10, 100, 0.0490, 0.1762),
    ],
)
def test_two_sided_limits_as_in_the_tables(losses, trials, low, high):
    found = interval(losses, trials)
    assert found == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


@pytest.mark.parametrize(("trials", "bound"), [(1, 0.95), (2, 0.776393), (59, 0.049508)])
def test_no_loss(trials, bound):
    assert upper_bound(0, trials) == pytest.approx(bound, abs=1e-6)
    assert lower_bound(0, trials) == 0


@pytest.mark.parametrize(
    ("at_most", "confidence", "trials"),
    [
        (0.05, 0.95, 59),  # the sample size that auditors know by heart
        (0.01, 0.95, 299),
        (0.01, 0.99, 459),
        (0.01, 0.999, 688),
        (0.001, 0.999, 6905),
        (0.5, 0.5, 1),
        (0.95, 0.95, 1),
        (0.75, 0.9375, 2),  # an exact power: rounding must not ask for one more
    ],
)
def test_trials_needed(at_most, confidence, trials):
    assert trials_needed(at_most, confidence) == trials


def test_a_million_trials_are_no_trouble():
    assert upper_bound(0, 10**6) == pytest.approx(2.9957e-6, rel=1e-4)
    # The normal approximation is good here: 0.5 +- 1.6449 * 0.0005.
    assert upper_bound(500_000, 10**6) == pytest.approx(0.5008224, abs=2e-6)
    assert lower_bound(500_000, 10**6) == pytest.approx(0.4991776, abs=2e-6)


def test_the_beta_function_where_it_has_a_closed_form():
    for x in (0.0, 1e-9, 0.1, 0.5, 0.9, 1.0):
        assert regularised_beta(x, 1, 1) == pytest.approx(x, rel=1e-13)
        assert regularised_beta(x, 3, 1) == pytest.approx(x**3, rel=1e-12)
        assert regularised_beta(x, 0.5, 0.5) == pytest.approx(
            2 / math.pi * math.asin(math.sqrt(x)), rel=1e-12
        )


@pytest.mark.parametrize(
    "call",
    [
        lambda: upper_bound(0, 0),
        lambda: upper_bound(3, 2),
        lambda: lower_bound(-1, 2),
        lambda: upper_bound(0, 2, 1.0),
        lambda: upper_bound(0, 2, 0.0),
        lambda: trials_needed(0.0),
        lambda: trials_needed(1.0),
        lambda: trials_needed(0.1, 1.0),
        lambda: trials_needed(math.nan),
        lambda: upper_bound(0, 2, math.nan),
    ],
)
def test_what_cannot_be_is_refused(call):
    with pytest.raises(ValueError, match=r"cannot be|lies between"):
        call()
