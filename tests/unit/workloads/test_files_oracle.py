# SPDX-License-Identifier: Apache-2.0
"""The oracle of workloads/programs/files: silent where nothing is lost, and each rule convicts."""

import sys
from dataclasses import replace

import pytest

from powercut.paths import ROOT

sys.path.insert(0, str(ROOT / "workloads" / "programs"))
from files_cases import INITIAL, KINDS, SYNCS, Case, Entry, final_tree, initial_tree
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
    for number in range(600):
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
