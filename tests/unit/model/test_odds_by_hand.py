# SPDX-License-Identifier: Apache-2.0
"""The chance with which a fault would have been met: numbers by hand."""

from __future__ import annotations

import pytest

from powercut.model.confidence import AcksLookedAt


def test_numbers_by_hand():
    # One faulty of ten, half of them drawn.
    assert AcksLookedAt(10, 5, 5).chance(10) == pytest.approx(0.5)
    # Two of twenty, ten drawn: 1 - (10 * 9) / (20 * 19).
    assert AcksLookedAt(20, 10, 10).chance(10) == pytest.approx(1 - 90 / 380)
    # Five of 500: by drawing 225.
    assert AcksLookedAt(500, 225, 225).chance(100) == pytest.approx(0.9505, abs=1e-4)


def test_what_was_chosen_for_a_reason_adds_nothing():
    assert AcksLookedAt(500, 250, 0).chance(100) == 0.0
    assert AcksLookedAt(500, 250, 32).chance(100) == AcksLookedAt(500, 32, 32).chance(100)


def test_until_too_few_are_left_for_the_fault_to_hide():
    assert AcksLookedAt(500, 495, 0).chance(100) == 0.0
    assert AcksLookedAt(500, 496, 0).chance(100) == 1.0


def test_a_run_that_is_too_short_for_a_fault_says_nothing_of_it():
    assert AcksLookedAt(99, 99, 99).chance(100) == 0.0
