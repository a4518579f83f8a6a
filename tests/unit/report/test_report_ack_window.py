# SPDX-License-Identifier: Apache-2.0
"""What is open about the instants of acks stands beside each SAFE, in words."""

from __future__ import annotations

import pytest

from powercut.model.acks import AckBasis, AckProof
from powercut.report import words
from powercut.store.results import AckInstants

US = 1000
CLOCK = AckProof(AckBasis.CLOCK, 310 * US, 180 * US, 90_000 * US, 1_010 * US)


@pytest.mark.parametrize(
    ("proof", "said"),
    [
        (
            CLOCK,
            "an ack may have been made up to 0.31 ms earlier (0.18 ms in the median) than the "
            "instant that counts for it; one made before its sync began would show, since each "
            "took 1 ms or more",
        ),
        (
            AckProof(AckBasis.CLOCK, 310 * US, 180 * US, 0, 2 * US),
            "an ack may have been made up to 0.31 ms earlier (0.18 ms in the median) than the "
            "instant that counts for it",
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
