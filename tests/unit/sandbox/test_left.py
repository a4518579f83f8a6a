# SPDX-License-Identifier: Apache-2.0
"""What a program has left in memory, from a tree that need not be honest."""

import os
from pathlib import Path

from powercut.sandbox import check

PLACE = Path("/var/tmp/of-a-program")


def test_files_that_hold_something_and_links_are_named_and_no_link_is_followed(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "held").write_text("x")
    (tmp_path / "a" / "empty").touch()
    (tmp_path / "escaped\x1b").write_text("x")
    (tmp_path / "host").symlink_to("/etc")
    (tmp_path / "nowhere").symlink_to("gone")
    os.mkfifo(tmp_path / "pipe")
    seen = check.left_in({PLACE: tmp_path})
    names = ("a/b/held", "escaped\\x1b", "host", "nowhere")
    assert sorted(seen.paths) == [f"{PLACE}/{name}" for name in names]
    assert not seen.cut


def test_what_is_not_there_or_is_the_hosts_own_is_nothing(tmp_path):
    (tmp_path / "x").write_text("x")
    assert check.left_in({tmp_path: tmp_path, PLACE: tmp_path / "gone"}) == check.LeftFiles()


def test_a_list_without_end_is_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(check, "_LEFT_MAX", 2)
    for name in "abc":
        (tmp_path / name).write_text("x")
        seen = check.left_in({PLACE: tmp_path})
    assert (len(seen.paths), seen.cut) == (2, True)
