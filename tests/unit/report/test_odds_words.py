# SPDX-License-Identifier: Apache-2.0
"""How the chance of meeting a fault is told: what would have been met, never that there is none."""

from __future__ import annotations

from powercut.model.confidence import AcksLookedAt
from powercut.report import words
from powercut.store.states_recovered import StatesAtAcks


def told(acks, looked_at, drawn):
    return words.odds(StatesAtAcks.of(AcksLookedAt(acks, looked_at, drawn)))


def test_the_rarest_fault_of_a_run_comes_first_and_numbers_are_rounded_down():
    assert told(500, 240, 225) == (
        "had one operation in every 100 not been durable when it was acknowledged, the states just "
        "after 240 of 500 acks (225 drawn at random) would have met it with probability 0.95, one "
        "in every 10 with 0.99"
    )
    assert told(20, 12, 10) == (
        "had one operation in every 10 not been durable when it was acknowledged, the states just "
        "after 12 of 20 acks (10 drawn at random) would have met it with probability 0.76"
    )


def test_where_every_ack_was_looked_at_there_is_no_probability():
    assert told(12, 12, 0) == (
        "all 12 acks had their state recovered: an operation that was not durable when it was "
        "acknowledged would have been met"
    )


def test_a_run_that_is_too_short_has_none_either():
    assert told(9, 4, 2) == (
        "the states just after 4 of 9 acks were recovered: too short a run for a probability"
    )
