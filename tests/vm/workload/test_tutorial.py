# SPDX-License-Identifier: Apache-2.0
"""docs/tutorial.md: each round has the verdict, and for want of the sync, that the page tells."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tutorial_page import PAGE, ROUNDS, STORE, store, verdict_of

from powercut.paths import ROOT
from powercut.recover.uml.boot import unavailable

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable())),
]
WANTED = (
    ("✗ LOSSY", "no sync of book.json came after"),
    ("✗ LOSSY", "the renaming of new to book.json"),
    ("✓ SAFE", "No acknowledged operation is lost on ext4"),
)


def words_of(text: str) -> str:
    return " ".join(text.split())


def test_the_page_has_the_store_and_each_round() -> None:
    page = PAGE.read_text()
    assert STORE.format(save=ROUNDS[0]) in page
    assert all(f"```python\n{save}```" in page for save in ROUNDS[1:])
    for (verdict, cause), part in zip(WANTED, page.split("$ powercut try")[1:], strict=True):
        assert words_of(part).startswith(f"-- ./guestbook.py {verdict} ./guestbook.py")
        assert cause in words_of(part)


@pytest.mark.campaign
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_round_says_what_the_page_says(tmp_path: Path, number: int) -> None:
    program = store(number, tmp_path)
    argv = [ROOT / "powercut", "try", "--seed", "1", "--acks", "60", "--budget", "32"]
    done = subprocess.run(
        [*argv, "--", f"./{program.name}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    verdict, cause = WANTED[number - 1]
    told = words_of(verdict_of(done.stdout))
    assert told.startswith(f"{verdict} ./guestbook.py"), done.stdout
    assert cause in told
