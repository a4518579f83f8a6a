# SPDX-License-Identifier: Apache-2.0
"""What is open about the instants of acks stands beside each SAFE, in words."""

from __future__ import annotations

import pytest

from powercut.model.operations import AckBasis, AckProof
from powercut.report import words
from powercut.store.trial_result import AckInstants

US = 1000
CLOCK = AckProof(AckBasis.CLOCK, 310 * US, 180 * US, 90_000 * US, 1_010 * US)


@pytest.mark.parametrize(
    ("proof", "said"),
    [
        (
            CLOCK,
            "ack times are accurate to 0.31 ms (0.18 ms in the median); every sync took 1 ms or "
            "more, so an ack that was sent before its sync began would have been caught",
        ),
        (
            AckProof(AckBasis.CLOCK, 310 * US, 180 * US, 0, 2 * US),
            "ack times are accurate to 0.31 ms (0.18 ms in the median)",
        ),
        (
            AckProof(AckBasis.RECEIPT, None, None, 0, US, reason="no ping was answered"),
            "an ack counts from its receipt on, and how much earlier it was made is not known "
            "(no ping was answered)",
        ),
        (
            AckProof(AckBasis.MARK, 0, 0, 0, US),
            "acks are marks in the disk's own log, so that their instants are exact",
        ),
    ],
)
def test_the_window_in_words(proof, said):
    assert words.ack_window(AckInstants.of(proof)) == said


def test_nothing_is_known_without_a_recording():
    assert words.ack_window(None) == "when acks were made is not known"
