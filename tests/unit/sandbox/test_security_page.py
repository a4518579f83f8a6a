# SPDX-License-Identifier: Apache-2.0
"""Each row of docs/security.md on who runs what names tests, and these are there."""

from __future__ import annotations

import re

import pytest

from powercut.paths import ROOT

PAGE = (ROOT / "docs/security.md").read_text()
TABLES = re.findall(
    r"^\| what [^\n]*\| test \|\n\|[ \-|]+\|\n((?:\|[^\n]+\n)+)", PAGE, re.MULTILINE
)
ROWS = [row.strip("| \n").split(" | ") for table in TABLES for row in table.splitlines()]
NO_TEST = {"the same", "it is you"}


def test_both_tables_are_read():
    assert len(TABLES) == 2
    assert len(ROWS) > 25


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].replace("`", ""))
def test_a_row_names_a_test_that_is_there(row: list[str]):
    if row[-1] in NO_TEST:
        return
    named = re.findall("`([^`]+)`", row[-1])
    assert named, row[-1]
    assert [name for name in named if not (ROOT / "tests" / name).is_file()] == []
