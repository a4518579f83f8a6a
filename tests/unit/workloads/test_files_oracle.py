# SPDX-License-Identifier: Apache-2.0
"""The oracle of workloads/programs/files: silent where nothing is lost, and each rule convicts."""

import json
import sys
from dataclasses import replace

import pytest

from powercut.paths import ROOT

sys.path.insert(0, str(ROOT / "workloads" / "programs"))
from files_cases import (
    ATTRIBUTE,
    BLOCK,
    INITIAL,
    KINDS,
    MARKED,
    SYNCS,
    Case,
    Entry,
    final_tree,
    initial_tree,
)  # fmt: skip
from files_count import count
from files_oracle import judge

LENGTHS = (1, 2, 4)


def case_with(*, names=False, length=2, **wanted):
    """The first case whose first sync is `sync` and that has calls of the kinds `has`."""
    for number in range(5000):
        case = Case(7, number, length, names=names)
        kinds = {step.kind for step in case.steps}
        if case.syncs[0].kind == wanted["sync"] and wanted.get("has", set()) <= kinds:
            return case
    raise AssertionError(wanted)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("names", [False, True])
def test_a_case_that_lost_nothing_holds_and_one_not_tried_does_not(length, names):
    for number in range(0, len(KINDS) ** 2 * len(SYNCS), 5):
        case = Case(3, number, length, names=names)
        seen = judge(case, final_tree(case), names=names)
        assert (seen.broken, seen.wrong) == ([], []), [str(step) for step in case.steps]
        seen = judge(case, initial_tree(case), names=names)
        assert seen.broken
        assert seen.wrong == [], [str(step) for step in case.steps]


def test_all_sequences_of_two_calls_and_a_sync_come_in_turn():
    count = len(KINDS) ** 2 * len(SYNCS)
    case = Case(0, 0, 0, names=False)
    drawn = {(*kinds, sync) for kinds, sync in (case._kinds(n, 2) for n in range(count))}
    assert len(drawn) == count


def test_a_call_that_a_file_system_does_not_have_never_comes():
    drawn = [
        step.kind
        for number in range(300)
        for step in Case(1, number, 3, names=True, without=frozenset({"clone", "delxattr"})).steps
    ]
    assert {"collapse", "insert", "keep", "sync-range"} <= set(drawn)
    assert not {"clone", "delxattr"} & set(drawn)


@pytest.mark.parametrize("kind", ["collapse", "insert"])
def test_blocks_that_are_on_their_way_leave_holes_and_never_strange_bytes(kind):
    case = case_with(sync="fsync-folder", has={kind})
    step = next(step for step in case.steps if step.kind == kind)
    name = next(n for n, node in case.names.items() if node.shifted)
    node = case.names[name]
    old, new = node.versions[0], node.content
    assert step.name in node.ever
    hole = bytes(BLOCK)
    moving = old[:BLOCK] + hole + old[2 * BLOCK :]
    tree = final_tree(case) | {name: Entry("file", moving[: len(old)], tuple(node.xattrs.items()))}
    assert judge(case, tree, names=False).wrong == []
    strange = new[:BLOCK] + b"\xff" + new[BLOCK + 1 :]
    tree[name] = Entry("file", strange, tuple(node.xattrs.items()))
    assert judge(case, tree, names=False).wrong != []


def test_what_was_written_to_a_block_whose_move_is_lost_is_at_the_place_of_before():
    """As ext4 leaves it: the new bytes went to the block, the move had not been committed."""
    case = next(
        case
        for case in (Case(7, number, 2, names=False) for number in range(20_000))
        if [step.kind for step in case.steps[:2]] == ["insert", "write"]
        and case.steps[0].name == case.steps[1].name
    )
    name = case.steps[0].name
    node = case.names[name]
    new = node.content
    unmoved = new[:BLOCK] + new[2 * BLOCK :]
    assert unmoved not in node.versions
    tree = final_tree(case) | {name: Entry("file", unmoved, tuple(node.xattrs.items()))}
    assert judge(case, tree, names=False).wrong == []
    tree[name] = Entry("file", b"\xff" + unmoved[1:], tuple(node.xattrs.items()))
    assert judge(case, tree, names=False).wrong != []


def test_an_attribute_that_nobody_touched_and_one_that_was_removed():
    case = next(
        case
        for case in (Case(7, number, 1, names=False) for number in range(20_000))
        if case.steps[0].kind == "delxattr" and case.syncs[0].kind == "fsync"
    )
    tree = final_tree(case)
    name = case.steps[0].name
    assert dict(tree[name].xattrs) == {}
    tree[name] = replace(tree[name], xattrs=((ATTRIBUTE, b"first"),))
    assert judge(case, tree, names=False).broken == [
        f"{name}: its extended attributes are not what was synced"
    ]
    other = next(
        c
        for c in (Case(7, n, 1, names=False) for n in range(5000))
        if not c.names.get(MARKED, c.nodes[0]).touched and MARKED in c.names
    )
    tree = final_tree(other)
    tree[MARKED] = replace(tree[MARKED], xattrs=())
    assert judge(other, tree, names=False).wrong == [
        f"{MARKED}: nobody touched it, and it has changed"
    ]


def synced_file(case):
    """Name and entry of the file that the case has synced."""
    name = case.syncs[0].name
    return name, final_tree(case)[name]


@pytest.mark.parametrize("sync", ["fsync", "fdatasync"])
def test_a_synced_file_with_older_content_breaks_the_promise(sync):
    case = case_with(sync=sync, has={"write"})
    name, entry = synced_file(case)
    older = replace(entry, content=case.names[name].versions[0])
    seen = judge(case, final_tree(case) | {name: older}, names=False)
    assert seen.broken == [f"{name}: its content is not what was synced"]
    assert seen.wrong == []


@pytest.mark.parametrize("sync", ["msync", "dsync-write"])
def test_what_was_written_and_synced_is_missing(sync):
    case = case_with(sync=sync)
    name, entry = synced_file(case)
    before = case.names[name].versions[-2]
    seen = judge(case, final_tree(case) | {name: replace(entry, content=before)}, names=False)
    assert seen.broken == [f"{name}: what {sync} wrote is not there"]


def test_extended_attributes_are_promised_by_fsync_and_not_by_fdatasync():
    for sync, told in (("fsync", 1), ("fdatasync", 0)):
        case = next(
            case
            for case in (Case(7, number, 2, names=False) for number in range(20_000))
            if case.syncs[0].kind == sync and case.names[case.syncs[0].name].xattrs
        )
        name, entry = synced_file(case)
        seen = judge(case, final_tree(case) | {name: replace(entry, xattrs=())}, names=False)
        assert len(seen.broken) == told


def test_a_new_name_is_promised_by_names_and_not_by_posix():
    for names in (False, True):
        case = next(
            case
            for case in (Case(7, number, 1, names=names) for number in range(20_000))
            if case.steps[0].kind == "rename" and case.syncs[0].kind == "fsync"
            and case.syncs[0].name == case.steps[0].other
        )  # fmt: skip
        old, new = case.steps[0].name, case.steps[0].other
        tree = final_tree(case)
        tree[old] = tree.pop(new)
        seen = judge(case, tree, names=names)
        assert seen.wrong == []
        assert bool(seen.broken) is names
        del tree[old]
        assert judge(case, tree, names=names).wrong, "it is nowhere, and was never removed"


def test_a_folder_that_was_synced_has_its_entries():
    case = case_with(sync="fsync-folder", has={"create"}, length=4)
    folder = case.syncs[0].name
    tree = final_tree(case)
    mine = [name for name in tree if name.rpartition("/")[0] == folder and name.endswith("mark")]
    del tree[mine[0]]
    assert judge(case, tree, names=False).broken == [
        f"{mine[0]}: was in the folder when that was synced"
    ]


def test_after_syncfs_everything_is_as_it_was():
    case = case_with(sync="syncfs", has={"unlink"})
    gone = next(step.name for step in case.steps if step.kind == "unlink")
    tree = final_tree(case) | {gone: initial_tree(case)[gone]}
    assert judge(case, tree, names=False).broken == [f"{gone}: was removed before syncfs"]
    for name in final_tree(case):
        tree = {other: entry for other, entry in final_tree(case).items() if other != name}
        assert judge(case, tree, names=False).broken


@pytest.mark.parametrize(
    ("plant", "told"),
    [
        (lambda tree: tree | {"zz": Entry("dir")}, "zz: nobody made it"),
        (lambda tree: tree | {"a": Entry("dir")}, "a: is a dir"),
        (lambda tree: tree | {"a": tree["b"]}, "a: leads to a file that never had this name"),
        (
            lambda tree: tree | {"a": Entry("file", b"garbage of somebody else")},
            "a: begins with b'garbage of someb', which no file does",
        ),
        (
            lambda tree: tree | {"a": Entry("file", tree["a"].content[:-1] + b"\xff")},
            "a: byte 5999 is 0xff, which was never written there",
        ),
        (
            lambda tree: tree | {"a": Entry("file", tree["a"].content + b"\0")},
            "a: has 6001 bytes, and never had more than 6000",
        ),
        (
            lambda tree: tree | {"a": Entry("file", tree["a"].content[:100])},
            "a: nobody touched it, and it has changed",
        ),
        (
            lambda tree: {name: tree[name] for name in tree if name != "a"},
            "a: is nowhere, and was never removed",
        ),
    ],
)
def test_what_is_wrong_whatever_was_synced(plant, told):
    case = next(
        case
        for case in (Case(7, number, 1, names=False) for number in range(5000))
        if not case.nodes[0].touched and case.steps[0].kind == "write"
    )
    assert next(iter(INITIAL)) == "a"
    seen = judge(case, plant(final_tree(case)), names=False)
    assert told in seen.wrong


def test_a_file_that_was_replaced_leaves_no_gap():
    case = case_with(sync="fsync", has={"replace"}, length=1)
    step = case.steps[0]
    tree = initial_tree(case)
    del tree[step.other]
    told = f"{step.other}: the name is gone, and at no time led nowhere"
    assert told in judge(case, tree, names=False).wrong


def test_before_a_sync_bytes_may_be_old_or_new_or_not_written_yet():
    case = case_with(sync="fsync-folder", has={"append"})
    step = next(step for step in case.steps if step.kind == "append")
    node = case.nodes[list(INITIAL).index(step.name)]
    old, new = node.versions[0], node.versions[-1]
    mixed = old + b"\0" * 16 + new[len(old) + 16 : len(old) + 100]
    for content in (old, new, mixed):
        tree = final_tree(case) | {step.name: Entry("file", content)}
        assert judge(case, tree, names=False).wrong == []


def test_trials_are_added_up_and_a_sequence_counts_once(tmp_path):
    command = ["files", "promise=names", "first=0", "cases=3"]
    for number, lossy in ((1, 0), (2, 1)):
        folder = tmp_path / f"cells/ext4/000{number}"
        folder.mkdir(parents=True)
        trial = {"cell": "ext4", "trial": {"seed": number}}
        trial["parameters"] = {"workload": {"command": command}}
        (folder / "trial.json").write_text(json.dumps(trial))
        coverage = {"coverage": {"recovered": 40, "lossy": lossy}}
        (folder / "exploration.json").write_text(json.dumps(coverage))
    (tmp_path / "cells/ext4/0003").mkdir()  # interrupted before it was explored
    *lines, last = count([tmp_path]).splitlines()
    assert lines == ["ext4: 2 recordings, 80 states, 240 cases checked, 1 states break a promise"]
    assert last.startswith(f"in all: 2 recordings, 3 sequences of {len(KINDS) ** 2 * len(SYNCS):,}")
