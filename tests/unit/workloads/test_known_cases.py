# SPDX-License-Identifier: Apache-2.0
"""Known faults of file systems: silent where nothing is lost, and each symptom is seen."""

import os
import subprocess
import sys

import pytest

from powercut.paths import ROOT

sys.path.insert(0, str(ROOT / "workloads" / "programs"))
import known_cases
import known_ext4
import known_later
import known_own
from known_cases import CASES, KIB, Tree

PROGRAMS = ROOT / "workloads" / "programs"


def done(name, folder, monkeypatch, *, make=False):
    """The tree of a case all of whose calls were made, and nothing was lost."""
    monkeypatch.setattr(known_cases, "evict", lambda: None)  # drops this host's caches
    # What the file system of this folder need not have; none of it changes a byte, but for zeroes.
    for call in ("move_extents", "map_by_extents", "grow"):
        monkeypatch.setattr(known_ext4, call, lambda *_: None)
    monkeypatch.setattr(known_ext4, "DIRECT", 0)
    monkeypatch.setattr(known_own, "clone", lambda _, source: copy(source, folder / "new"))
    monkeypatch.setattr(
        known_ext4, "zero_range", lambda tree, name, at, size: tree.write(name, bytes(size), at)
    )
    tree = Tree(folder)
    if make:
        folder.mkdir()
    CASES[name].do(tree)
    tree.close()
    return tree


def copy(source, target):
    target.write_bytes(os.pread(source, 1024 * KIB, 0))


def empty_link(tree):
    tree.path("d/baz").unlink()
    tree.path("d/baz").symlink_to(" ")


# What the test's description says that a faulty kernel leaves behind.
SYMPTOMS = {
    "size-after-rename": lambda tree: os.truncate(tree.path("bar2"), 64 * KIB),
    "moved-after-eviction": lambda tree: tree.path("B/foo").unlink(),
    "room-beyond-the-end": lambda tree: os.truncate(tree.path("foo"), 2048 * KIB),
    "symlink-renamed": empty_link,
    "symlink-synced-renamed": lambda tree: tree.move("d/b", "d/a"),
    "hole-beside-a-hole": lambda tree: tree.write("foo", b"\xab" * 4096, 32 * KIB),
    "unlinked-and-synced": lambda tree: tree.write("d/foo"),
    "no-links-and-extents": lambda tree: tree.path("d/bar").unlink(),
    "linked-into-new-folder": lambda tree: (
        tree.path("dir/bar").unlink(),
        tree.path("dir").rmdir(),
    ),
    "folder-moved-name-reused": lambda tree: tree.path("dir2/dir1").rmdir(),
    "renamed-beside-new-folder": lambda tree: tree.path("dir/foo").unlink(),
    "zero-size-then-linked": lambda tree: tree.write("d/foo", b"\xab" * 64 * KIB),
    "file-instead-of-folder": lambda tree: tree.path("dir1").rmdir(),
    "folder-removed-and-synced": lambda tree: tree.mkdir("dir1"),
    "range-zeroed": lambda tree: tree.write("foo", b"\xab" * 64 * KIB),
    "new-file-punched": lambda tree: tree.write("foo", b"\xab" * 1000 * KIB),
    "written-in-the-inode": lambda tree: tree.write("foo", b"old"),
    "extents-moved": lambda tree: tree.write("foo", b"\xab" * 16 * KIB),
    "format-migrated": lambda tree: tree.write("foo", bytes(8 * KIB)),
    "direct-and-synced": lambda tree: os.truncate(tree.path("foo"), 0),
    "grown-and-used": lambda tree: tree.path("d7/foo").unlink(),
    "renamed-over-link": lambda tree: tree.path("d/link").unlink(),
    "written-and-syncfs": lambda tree: tree.write("foo", bytes(8 * KIB)),
    "clone-written-in-place": lambda tree: tree.write("old", tree.content("new")),
}
GROUPS = {"later": known_later.NAMES, "fast-commit": known_ext4.FAST_COMMIT}


@pytest.mark.parametrize("name", CASES)
def test_a_turn_that_lost_nothing_keeps_its_promises_and_one_not_tried_does_not(
    name, tmp_path, monkeypatch
):
    assert CASES[name].broken(done(name, tmp_path, monkeypatch)) == []
    assert CASES[name].broken(Tree(tmp_path / "not-there")) != []


@pytest.mark.parametrize("name", CASES)
def test_the_symptom_of_each_fault_is_seen(name, tmp_path, monkeypatch):
    tree = done(name, tmp_path, monkeypatch)
    SYMPTOMS[name](tree)
    assert len(CASES[name].broken(tree)) >= 1


def test_the_program_names_its_cases_and_refuses_others():
    told = subprocess.run([PROGRAMS / "known", "list"], capture_output=True, text=True, check=True)
    assert [line.split()[1] for line in told.stdout.splitlines()] == list(CASES)
    words = [PROGRAMS / "known", "case=none", "check", "x"]
    wrong = subprocess.run(words, capture_output=True, text=True, check=False)
    assert wrong.returncode == 1
    assert "choose all, later, fast-commit, size-after-rename" in wrong.stderr


def test_either_state_of_a_file_that_was_cut_short_is_legal(tmp_path, monkeypatch):
    """The remedy of the finding, and a crash before the truncation, leave nothing to see."""
    tree = done("clone-written-in-place", tmp_path, monkeypatch)
    tree.write("old", b"\xab" * 16 * KIB)
    assert CASES["clone-written-in-place"].broken(tree) == []


@pytest.mark.parametrize("group", GROUPS)
def test_the_turns_of_a_group_are_its_sequences_one_after_the_other(group, tmp_path, monkeypatch):
    names = GROUPS[group]
    for turn in range(1, len(names) + 1):
        done(names[turn - 1], tmp_path / f"turn{turn}", monkeypatch, make=True)
    (tmp_path / "begun").touch()
    words = [PROGRAMS / "known", f"case={group}", f"turns={len(names) + 1}", "check", tmp_path]
    said = dict(os.environ, POWERCUT_FD="1")
    told = subprocess.run(words, capture_output=True, text=True, check=True, env=said)
    assert [f"= {turn}\n" in told.stdout for turn in range(1, len(names) + 2)] == [
        *[True] * len(names),
        False,
    ]
