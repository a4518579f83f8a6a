# SPDX-License-Identifier: Apache-2.0
"""Pages of an installation in which another extra is broken, or not there."""

from __future__ import annotations

import pytest

from powercut_extras.pages.browse import index_html
from powercut_extras.pages.history_reader import read_history


@pytest.mark.parametrize("found", [{}, {"certify": "no_such_module:CERTIFICATES"}])
def test_without_certificates_the_runs_are_listed(made, monkeypatch, found):
    root = made.directory.path.parents[1]
    folder = root / "certify" / "quick" / "20260101T000000Z-1"
    folder.mkdir(parents=True)
    (folder / "certificate.json").write_text("{}")
    monkeypatch.setattr("powercut.model.extras.registered", lambda _: found)
    page = index_html(root)
    assert "first-light" in page
    assert "certificate.html" not in page
    (series,) = read_history(root).series
    assert (series.profile, series.certified) == ("first-light", False)
