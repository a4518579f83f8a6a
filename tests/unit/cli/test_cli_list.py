# SPDX-License-Identifier: Apache-2.0
"""The list of scenarios, of which what was checked before is kept."""

import json

import pytest

from powercut.cli import list as listing
from powercut.model.errors import UsageError

TEXT = "powercut: 1\nname: a\ndescription: Cut once.\n"


@pytest.fixture
def known(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(TEXT)
    return {"a": path}


def test_what_was_checked_is_not_checked_again(known, tmp_path, monkeypatch):
    kept = tmp_path / "cache" / "lines.json"
    assert listing.lines_of(known, kept) == {"a": "Cut once."}
    monkeypatch.setattr(listing, "_checked", lambda path: f"{path.name} was checked again")
    assert listing.lines_of(known, kept) == {"a": "Cut once."}
    known["a"].write_text(TEXT.replace("once", "twice"))
    assert listing.lines_of(known, kept) == {"a": "a.yaml was checked again"}


def test_another_powercut_checks_again(known, tmp_path, monkeypatch):
    kept = tmp_path / "lines.json"
    listing.lines_of(known, kept)
    monkeypatch.setattr(listing, "_checked", lambda path: "again")
    monkeypatch.setattr(listing, "_code", lambda: b"another")
    assert listing.lines_of(known, kept) == {"a": "again"}
    assert len(json.loads(kept.read_text())) == 1, "what no scenario has is dropped"


def test_a_mistake_is_told_with_its_place_each_time(known, tmp_path):
    known["a"].write_text(TEXT + "trails: 3\n")
    for _ in range(2):
        with pytest.raises(UsageError, match=r"a\.yaml:4:1: trails"):
            listing.lines_of(known, tmp_path / "lines.json")


@pytest.mark.parametrize("content", ["", "[]", '{"x": 1}', "[" * 100_000, "\0"])
def test_a_file_that_is_none_of_ours_is_written_anew(known, tmp_path, content):
    kept = tmp_path / "lines.json"
    kept.write_text(content)
    assert listing.lines_of(known, kept) == {"a": "Cut once."}
    assert list(json.loads(kept.read_text()).values()) == ["Cut once."]


def test_where_nothing_can_be_kept_the_list_is_the_same(known, tmp_path):
    (tmp_path / "file").write_text("")
    assert listing.lines_of(known, tmp_path / "file" / "lines.json") == {"a": "Cut once."}
