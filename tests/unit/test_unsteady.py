# SPDX-License-Identifier: Apache-2.0
"""The list of unsteady tests is one that a run can read, and it names tests."""

from __future__ import annotations

from datetime import date, timedelta

import unsteady

from powercut.paths import ROOT


def test_each_entry_names_a_test_file():
    for entry in unsteady.entries():
        assert (ROOT / entry.test.partition("::")[0]).is_file(), entry
        assert entry.cause


def test_an_entry_is_named_after_two_weeks(tmp_path, monkeypatch):
    listed = tmp_path / "UNSTEADY"
    listed.write_text("# what it is\n2026-11-27 tests/unit/test_x.py::test_y the page cache\n")
    monkeypatch.setattr(unsteady, "LIST", listed)
    day = date(2026, 11, 27)
    assert unsteady.old(day + timedelta(days=14)) == []
    late = ["2026-11-27 tests/unit/test_x.py::test_y the page cache"]
    assert unsteady.old(day + timedelta(days=15)) == late
