# SPDX-License-Identifier: Apache-2.0
"""How far a run came, in words."""

from __future__ import annotations

import pytest

from powercut.model.reached import FilesMet, Reached


@pytest.mark.parametrize(
    ("reached", "words"),
    [
        (
            Reached(500, 1_234_567, 4.1, FilesMet(12, 0, renamed=12, replacing=11, truncated=0)),
            "500 operations, 1.23 MB, 4.1 s; files: 12 made, 12 renamed (11 over another), "
            "none removed or truncated",
        ),
        (
            Reached(1, 999, 0.04, FilesMet(0, 0, renamed=0, replacing=0, truncated=0)),
            "1 operation, 999 bytes, 0.0 s; files: none made, renamed, removed or truncated",
        ),
        (
            Reached(2000, 64_000_000, 10.0, FilesMet(3, 2, renamed=1, replacing=0, truncated=1)),
            "2,000 operations, 64 MB, 10.0 s; files: 3 made, 1 renamed, 2 removed, 1 truncated",
        ),
        (
            Reached(500, 1000, 4.0, FilesMet(1, 0, looks=13)),
            "500 operations, 1 kB, 4.0 s; files: 1 made, none removed (names at 13 instants; "
            "renames and truncations are not seen)",
        ),
        (
            Reached(500, 0, 4.0),
            "500 operations, 0 bytes, 4.0 s; which files it made, renamed, removed or truncated "
            "was not looked at",
        ),
    ],
)
def test_a_run_says_how_far_it_came_and_what_it_has_not_met(reached, words):
    assert reached.words == words
