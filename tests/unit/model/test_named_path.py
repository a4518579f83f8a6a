# SPDX-License-Identifier: Apache-2.0
"""Paths that a user named are looked at before they are opened."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from powercut.model.errors import UsageError
from powercut.model.named_path import files_below, openable, shown


def test_what_open_would_wait_for_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
    (tmp_path / "link").symlink_to("pipe")
    for path, what in (
        (tmp_path / "pipe", "a pipe"),
        (tmp_path / "link", "a pipe"),
        (tmp_path / "socket", "a socket"),
        (Path("/dev/zero"), "a character device"),
    ):
        with pytest.raises(OSError, match=f"{what}, and no file or folder") as error:
            openable(path)
        assert error.value.filename == str(path)


def test_files_and_what_is_not_there_are_left_to_open(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file", tmp_path / "nothing", Path("x" * 5000), Path("\0")):
        assert openable(path) is path


def test_files_are_found_at_any_depth_and_links_are_not_followed(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "x.yaml").touch()
    (tmp_path / "y.yaml").touch()
    (tmp_path / "y.txt").touch()
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    found = files_below(tmp_path, "*.yaml")
    assert found == [tmp_path / "a/b/x.yaml", tmp_path / "y.yaml"]
    assert files_below(tmp_path / "nothing", "*") == []


def test_there_is_a_bound(tmp_path, monkeypatch):
    monkeypatch.setattr("powercut.model.named_path._FOLDERS_MAX", 2)
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").touch()
    with pytest.raises(UsageError, match="more than 2 folders below it"):
        files_below(tmp_path, "*")
    # A program may have any number.
    assert files_below(tmp_path, "*", of_results=False) == [tmp_path / "a" / "b" / "file"]


def test_a_long_path_is_shown_short():
    assert shown("x" * 120) == "x" * 120
    assert shown("x" * 121) == "x" * 120 + "..."
