# SPDX-License-Identifier: Apache-2.0
"""Command lines that a user wrote as one string."""

from __future__ import annotations

import re

import pytest

from powercut.model.printable import words_of
from powercut.paths import PACKAGE


def test_they_are_split_as_a_shell_does():
    assert words_of("a 'b c' \"d\" e\\ f") == ("a", "b c", "d", "e f")
    assert words_of("") == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [("a 'b", "no closing quotation: a 'b"), ("a \\", "no escaped character: a \\")],
)
def test_one_that_is_none_is_told_with_its_words(text, words):
    with pytest.raises(ValueError, match=f"^not a command line: {re.escape(words)}$"):
        words_of(text)


def test_a_long_one_is_shortened():
    with pytest.raises(ValueError, match=r"x{50}.*\.\.\.$"):
        words_of("'" + "x" * 5000)


def test_there_is_no_second_place_that_splits_one():
    """shlex.split raises a ValueError, which every caller would have to explain."""
    assert [
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if "shlex.split(" in path.read_text("utf-8")
    ] == ["model/printable.py"]
