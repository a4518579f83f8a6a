# SPDX-License-Identifier: Apache-2.0
"""The oracle of `files calls=folders`: silent where nothing is lost, and each rule convicts."""

import sys
from dataclasses import replace

import pytest

from powercut.paths import ROOT

sys.path.insert(0, str(ROOT / "workloads" / "programs"))
from files_cases import Entry
from folders_cases import INITIAL, KINDS, SYNCS, TAG, FolderCase
from folders_oracle import judge

PROMISES = ("posix", "names", "ordered")
ALL = len(KINDS) ** 2 * len(SYNCS)


class Watched(FolderCase):
    """Keeps the tree that each call leaves."""

    def _step(self, kind):
        super()._step(kind)
        self.after = [*getattr(self, "after", []), self.tree()]


def found(*wanted, promise="posix", length=1, cases=FolderCase, where=lambda _: True):
    """The first case with these calls, the last of them its sync."""
    for number in range(40 * ALL):
        case = cases(7, number, length, names=promise != "posix")
        kinds = [step.kind for step in case.steps]
        kinds = [*kinds[: len(wanted) - 1], case.syncs[0].kind]
        if kinds == list(wanted) and where(case):
            return case
    raise AssertionError(wanted)


def without(tree, *names):
    gone = tuple(f"{name}/" for name in names)
    return {
        name: one for name, one in tree.items() if name not in names and not name.startswith(gone)
    }


def moved(tree, name, other):
    """The tree with a folder, and what is in it, at another place."""
    return {
        other + one[len(name) :] if one == name or one.startswith(f"{name}/") else one: entry
        for one, entry in tree.items()
    }


@pytest.mark.parametrize("promise", PROMISES)
def test_nothing_lost_holds_what_was_not_tried_does_not_and_no_call_halfway_is_wrong(promise):
    for length in (1, 2, 4):
        for number in range(0, ALL, 7):
            case = Watched(3, number, length, names=promise != "posix")
            seen = judge(case, case.tree(), promise=promise)
            assert (seen.broken, seen.wrong) == ([], []), [str(step) for step in case.steps]
            seen = judge(case, case.first, promise=promise)
            assert seen.broken, [str(step) for step in case.steps]
            for tree in (case.first, *case.after):
                seen = judge(case, tree, promise=promise)
                assert seen.wrong == [], [str(step) for step in case.steps]


def test_all_sequences_of_two_calls_and_a_sync_come_in_turn():
    case = FolderCase(0, 0, 0, names=False)
    drawn = {(*kinds, sync) for kinds, sync in (case._kinds(n, 2) for n in range(ALL))}
    assert len(drawn) == ALL
    assert FolderCase.numbers(0, "17", 3) == range(17, 20)
    assert 0 <= FolderCase.numbers(5, "seed", 3).start < ALL


@pytest.mark.parametrize(
    ("plant", "told"),
    [
        (lambda tree: tree | {"zz": Entry("dir")}, "zz: nobody made it"),
        (lambda tree: without(tree, "d"), "d: is nowhere, and was never removed"),
        (lambda tree: without(tree, "d"), "d/e: is nowhere, and was never removed"),
        (lambda tree: without(tree, "f"), "f: the name is gone, and at no time led nowhere"),
        (lambda tree: moved(tree, "d", "f/n9"), "f/n9: leads to what never had this name"),
        (lambda tree: tree | {"f/d": tree["d"]}, "f/d: is d, too; a folder has one name"),
        (lambda tree: tree | {"f": Entry("dir")}, "f: nobody made it"),
        (
            lambda tree: tree | {"d": tree["g"], "g": tree["d"]},
            "d: leads to what never had this name",
        ),
        (
            lambda tree: tree | {"g/i": replace(tree["g/i"], content=b"garbage of somebody")},
            "g/i: begins with b'garbage of someb', which no file does",
        ),
        (
            lambda tree: tree | {"g/i": replace(tree["g/i"], content=tree["g/i"].content[:99])},
            "g/i: no call changed it, and it has changed",
        ),
        (
            lambda tree: tree | {"g/i": replace(tree["g/i"], content=tree["g/i"].content + b"\1")},
            "g/i: has 3001 bytes, and never had more than 3000",
        ),
    ],
)
def test_what_is_wrong_whatever_was_synced(plant, told):
    case = found("mkdir", "syncfs")
    assert told in judge(case, plant(case.tree()), promise="posix").wrong


def test_a_folder_that_was_moved_is_at_its_old_name_or_its_new_one_and_nowhere_else():
    case = found("move", "fsync-folder", where=lambda c: not c.syncs[0].name)
    old, new = case.steps[0].name, case.steps[0].other
    done = case.tree()
    assert judge(case, moved(done, new, old), promise="posix").wrong == []
    assert f"{old}: is nowhere, and was never removed" in (
        judge(case, without(done, new), promise="posix").wrong
    )
    first, second = sorted([old, new])
    told = f"{second}: is {first}, too; a folder has one name"
    assert told in judge(case, done | {old: done[new]}, promise="posix").wrong


def test_a_rename_over_an_empty_folder_leaves_no_gap():
    case = found("over", "syncfs")
    step = case.steps[0]
    told = f"{step.other}: the name is gone, and at no time led nowhere"
    assert told in judge(case, without(case.first, step.other), promise="posix").wrong


def test_an_exchange_that_was_done_by_half_is_seen():
    case = found("exchange", "syncfs", where=lambda c: c.steps[0].name == "d")
    other = case.steps[0].other
    half = without(moved(case.first, "d", "zz"), other)
    half = moved(half, "zz", other)
    wrong = judge(case, half, promise="posix").wrong
    assert "d: the name is gone, and at no time led nowhere" in wrong


@pytest.mark.parametrize("sync", ["fsync", "fdatasync"])
def test_a_synced_file_has_its_content_in_whatever_folder_it_is_found(sync):
    case = found("move", sync, where=lambda c: c.syncs[0].name.startswith(f"{c.steps[0].other}/"))
    name, moving = case.syncs[0].name, case.steps[0]
    tree = case.tree()
    tree[name] = replace(tree[name], content=case.synced.versions[0])
    for place in (tree, moved(tree, moving.other, moving.name)):
        broken = judge(case, place, promise="posix").broken
        assert [one.partition(": ")[2] for one in broken] == ["its content is not what was synced"]


def test_a_file_in_a_folder_that_was_renamed_is_durable_and_the_rename_where_order_is_kept():
    for promise, lost in (("posix", False), ("names", False), ("ordered", True)):
        case = found(
            "move",
            "fsync",
            promise=promise,
            where=lambda c: c.syncs[0].name.startswith(f"{c.steps[0].other}/"),
        )
        seen = judge(
            case, moved(case.tree(), case.steps[0].other, case.steps[0].name), promise=promise
        )
        assert seen.wrong == []
        assert bool(seen.broken) is lost


def test_a_new_folder_above_a_synced_file_is_promised_by_names_and_by_a_sync_of_the_folders():
    def inside(case):
        return case.syncs[0].name.startswith(f"{case.steps[0].name}/")

    for promise in PROMISES:
        case = found("mkdir", "rename", "fsync", promise=promise, length=2, where=inside)
        folder = case.steps[0].name
        assert [step.kind for step in case.syncs] == ["fsync"]
        back = without(case.tree(), folder) | {case.steps[1].name: case.tree()[case.syncs[0].name]}
        seen = judge(case, back, promise=promise)
        assert seen.wrong == []
        assert bool(seen.broken) is (promise != "posix")
        created = found("mkdir", "create", "fsync", promise=promise, length=2, where=inside)
        above = [step.kind for step in created.syncs[1:]]
        assert above == (["fsync-folder", "fsync-folder"] if promise == "posix" else [])
        assert judge(
            created, without(created.tree(), created.steps[0].name), promise=promise
        ).broken


def test_a_synced_folder_has_its_entries_and_no_others():
    case = found(
        "unlink",
        "fsync-folder",
        where=lambda c: c.steps[0].name == "d/e" and c.syncs[0].name == "d",
    )
    tree = case.tree()
    seen = judge(case, tree | {"d/e": case.first["d/e"]}, promise="posix")
    assert seen.broken == ["d/e: was removed before the sync"]
    seen = judge(case, without(tree, "d/mark"), promise="posix")
    assert seen.broken == ["d/mark: does not lead where it did at the sync"]


def test_a_removed_folder_is_back_after_syncfs():
    case = found("rmdir", "syncfs")
    name = case.steps[0].name
    seen = judge(case, case.tree() | {name: case.first[name]}, promise="posix")
    assert seen.broken == [f"{name}: was removed before the sync"]
    assert TAG in dict(case.first[name].xattrs)
    assert name in INITIAL
