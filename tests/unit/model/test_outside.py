# SPDX-License-Identifier: Apache-2.0
"""What lies outside of DIR: which links lead there, and what is said of it."""

import pytest

from powercut.model.outside import LeftFiles, Link, Outside, outside_of

LEFT = LeftFiles(("/tmp/t/1", "/dev/shm/x", "/run/y"))


def outside(path, target, *, left=LEFT, scratch=(), alone=False):
    return outside_of("/mnt", [Link(path, target)], left, scratch, alone=alone)


@pytest.mark.parametrize(
    ("path", "target", "place"),
    [
        ("data/values", "/tmp/t", "/tmp/t"),
        ("data/1", "/tmp/t/1", "/tmp/t/1"),
        ("data/all", "/", "/"),
        ("data/deep/v", "../../../dev/shm/x", "/dev/shm/x"),
        ("data/run", "/var/run/y", "/run/y"),
    ],
    ids=["a folder", "a file", "all", "relative", "another name"],
)
def test_a_link_that_leads_out_is_a_doubt_and_named(path, target, place):
    seen = outside(path, target)
    assert f"{path} leads to {place}, outside of /mnt" in seen.doubt
    assert "--scratch" in seen.doubt
    assert seen.files == LEFT.paths


@pytest.mark.parametrize(
    "target",
    ["log", "/mnt/data/log", "../x", "/tmp/t2", "/tmp/t/1/2", "/usr/share", "/dev/shm/xx"],
)
def test_one_that_leads_to_nothing_that_was_written_is_none(target):
    seen = outside("data/l", target)
    assert (seen.led_out, seen.doubt) == ((), "")
    assert "outside of DIR: /tmp/t/1, /dev/shm/x, /run/y (declare" in seen.words


def test_files_there_are_a_doubt_only_where_none_in_the_folder_holds_anything():
    assert not outside("l", "x", alone=False).doubt
    assert "no file in DIR that holds anything" in outside("l", "x", alone=True).doubt
    assert not outside("l", "x", left=LeftFiles(), alone=True).doubt
    assert not Outside().words


def test_of_declared_scratch_nothing_is_said():
    seen = outside("l", "/tmp/t", scratch=("/tmp", "/dev/shm/x", "/run"), alone=True)
    assert (seen.files, seen.doubt, seen.words) == ((), "", "")
    assert "/tmp/t/1" in outside("l", "/tmp/t", scratch=("/dev", "/tm", "/tmp/t/10")).doubt


@pytest.mark.parametrize(
    ("target", "scratch", "doubted"),
    [
        ("/var/tmp/v", (), True),
        ("/var/tmp/v", ("/var/tmp",), False),
        ("/mnt/x", (), False),
        ("/usr/x", (), False),
    ],
)
def test_where_not_all_is_known_a_link_into_memory_is_a_doubt(target, scratch, doubted):
    left = LeftFiles(("/tmp/1",), cut=True)
    assert bool(outside("l", target, left=left, scratch=scratch).doubt) is doubted
