# SPDX-License-Identifier: Apache-2.0
"""Which files hold the inode number of another."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from powercut.campaign import folder as searched
from powercut.campaign.folder import kept_inodes


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    """Numbers are small on some file systems."""
    monkeypatch.setattr(searched, "_NUMBER_MIN", 0)
    monkeypatch.setattr(searched, "_DECIMAL", searched.re.compile(rb"[0-9]+"))
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "value").write_text("value")
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


def test_a_registry_is_found_by_digits_and_by_words(folder: Path) -> None:
    number = (folder / "below" / "value").stat().st_ino
    assert kept_inodes(folder) == ()
    (folder / "text").write_text(f"value {number}\n")
    (folder / "words").write_bytes(bytes(24) + number.to_bytes(8, "little") + b"rest")
    (folder / "digits of another").write_text(f"{number}0")
    (folder / "not where words lie").write_bytes(bytes(4) + number.to_bytes(8, "little"))
    assert kept_inodes(folder) == ("text", "words")


def test_its_own_number_is_no_other_s(folder: Path) -> None:
    own = folder / "own"
    own.touch()
    own.write_text(f"{own.stat().st_ino}")
    assert kept_inodes(folder) == ()


def test_small_numbers_stand_in_files_for_other_reasons(tmp_path: Path, monkeypatch) -> None:
    value = tmp_path / "value"
    value.touch()
    number = value.stat().st_ino
    (tmp_path / "registry").write_bytes(number.to_bytes(8, "little"))
    for least, found in ((number, ("registry",)), (number + 1, ())):
        monkeypatch.setattr(searched, "_NUMBER_MIN", least)
        assert kept_inodes(tmp_path) == found
