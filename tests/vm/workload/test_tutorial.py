# SPDX-License-Identifier: Apache-2.0
"""docs/tutorial.md: each round has the verdict, and for want of the sync, that the page tells."""

from __future__ import annotations

from pathlib import Path

import pytest
from tutorial_page import PAGE, said_of

from powercut.recover.uml.boot import unavailable

pytestmark = pytest.mark.vm
WANTED = (
    ("✗ LOSSY", "no sync of book.json came after"),
    ("✗ LOSSY", "the renaming of new to book.json"),
    ("✓ SAFE", "No acknowledged operation is lost on ext4"),
)


def words_of(text: str) -> str:
    return " ".join(text.split())


def test_the_page_tells_each_round() -> None:
    for (verdict, cause), part in zip(
        WANTED, PAGE.read_text().split("$ powercut try")[1:], strict=True
    ):
        assert words_of(part).startswith(f"-- ./guestbook.py {verdict} ./guestbook.py")
        assert cause in words_of(part)


@pytest.mark.campaign
@pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable()))
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_round_says_what_the_page_says(tmp_path: Path, number: int) -> None:
    verdict, cause = WANTED[number - 1]
    told = words_of(said_of(number, tmp_path, "--acks", "60", "--budget", "32"))
    assert told.startswith(f"{verdict} ./guestbook.py"), told
    assert cause in told
