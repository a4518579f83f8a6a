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
        "a fault in 1 of 100 operations had at least a 0.95 chance of being found (in 1 of 10: "
        "0.99), in the states just after 240 of 500 acks (225 drawn at random)"
    )
    assert told(20, 12, 10) == (
        "a fault in 1 of 10 operations had at least a 0.76 chance of being found, in the states "
        "just after 12 of 20 acks (10 drawn at random)"
    )


def test_where_every_ack_was_looked_at_there_is_no_probability():
    assert told(12, 12, 0) == (
        "the states just after all 12 acks were recovered: a fault in any one operation would have "
        "been found"
    )


def test_a_run_that_is_too_short_has_none_either():
    assert told(9, 4, 2) == (
        "the states just after 4 of 9 acks were recovered: too short a run for a probability"
    )
