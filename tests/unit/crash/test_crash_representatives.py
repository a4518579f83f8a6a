# SPDX-License-Identifier: Apache-2.0
"""Groups of like crash states, on logs whose groups are counted by hand."""

from __future__ import annotations

import random
import string
from itertools import islice
from unittest import mock

import numpy as np
import pytest
from handmade import Handmade

from bench.known_bugs.files import Files
from powercut.crash.explore import GroupCoverage, InstantKind, events
from powercut.crash.folder_rows import Promise
from powercut.crash.kinds import kinds_of
from powercut.crash.order import Order, one_of_each_sort
from powercut.crash.shapes import Shape
from powercut.crash.states import StateSpace
from powercut.model.operations import OperationHistory

PAGE = 4096


def numbers(values):
    return np.array(values, dtype=np.int64)


def commits(count, checkpoint=0):
    """A log of one page a commit, synced; every `checkpoint` commits a page is written in place
    and acknowledged without a sync.
    """
    made, now, acks = Handmade(1 << 24), 0, []
    for number in range(1, count + 1):
        made.write((100 + number) * PAGE, b"L" * PAGE, at=now + 1, done=now + 2)
        made.flush(at=now + 3, done=now + 4)
        if checkpoint and number % checkpoint == 0:
            made.write(0, b"C" * PAGE, at=now + 5, done=now + 6)
        acks.append(now + 7)
        now += 10
    tried = numbers(range(1, count + 1))
    history = OperationHistory(tried, numbers([0] * count), tried, numbers(acks))
    return StateSpace(made.timeline(), history)


def drawn(space, **bounds):
    return Order(space, events(space, list(InstantKind)), ("representatives",), **bounds)


def test_commits_that_are_alike_have_the_same_groups_however_many_they_are():
    """A commit has five stages.  At three of them a write of eight units is outstanding: nothing,
    all of it, its first, middle or last units.  The other two have one state.  The first commit is
    of its own kind, since it continues nothing.
    """
    for count in (16, 500):
        exploration = drawn(commits(count), per_policy=1)
        states = list(exploration.labelled())
        groups = exploration.coverage().groups
        assert groups == GroupCoverage(seen=2 * (3 * 5 + 2), all=34, stages=10)
        assert len(states) <= groups.all


def test_groups_have_more_states_once_each_had_its_first():
    for per_policy in (1, 2, 4):
        groups = [group for group, _ in drawn(commits(16), per_policy=per_policy).labelled()]
        assert max(map(groups.count, groups)) == per_policy
        assert len(set(groups[:29])) == len(set(groups)) == 29
    states = sum(1 for _ in drawn(commits(2), per_policy=10**6).labelled())
    assert states < 10**4  # it ends when a turn brings none that is new


def lacks_the_checkpoint(space, kinds, state):
    """Although it was acknowledged."""
    missing = set(space.volatile(state.instant).tolist()) - set(state.survivors)
    required = space.required(state.instant)
    acked = required is not None and required.last % 250 == 0
    return acked and any("place 1" in kinds[write].name for write in missing)


def test_a_rare_write_that_is_not_synced_is_missing_in_the_first_states():
    space = commits(1000, checkpoint=250)
    kinds = kinds_of(space)
    for seed in range(5):
        first = islice(drawn(space, seed=seed), 8)
        assert any(lacks_the_checkpoint(space, kinds, state) for state in first)


def test_coverage_counts_groups_only_where_states_were_selected_by_them():
    exploration = drawn(commits(16), limit=24)
    list(exploration)
    groups = exploration.coverage().groups
    assert isinstance(groups, GroupCoverage)
    assert 1 <= groups.seen < groups.all


def last_required(space, state):
    """The last operation that must be there; 0 if there is none."""
    required = space.required(state.instant)
    return required.last if required else 0


def turns(count):
    """Operations of four sorts in turn, each of which writes a place of its own and syncs it: when
    it is acknowledged nothing is outstanding.
    """
    made, now, acks = Handmade(1 << 24), 0, []
    for number in range(count):
        made.write(number % 4 * PAGE, b"T" * PAGE, at=now + 1, done=now + 2)
        made.flush(at=now + 3, done=now + 4)
        acks.append(now + 7)
        now += 10
    tried = numbers(range(1, count + 1))
    history = OperationHistory(tried, numbers([0] * count), tried, numbers(acks))
    return StateSpace(made.timeline(), history)


def test_operations_that_differ_have_their_ack_looked_at_early_although_nothing_is_missing_there():
    space = turns(400)
    for seed in range(5):
        first = list(islice(drawn(space, seed=seed), 4 * 4))
        acked = {last_required(space, state) for state in first if not state.survivors}
        assert {number % 4 for number in acked} == {0, 1, 2, 3}


def test_rare_operations_come_first_and_one_of_each_before_a_second():
    space = commits(64, checkpoint=16)
    acks = events(space, [InstantKind.ACK])
    first = [
        space.required(instant).last
        for instant in one_of_each_sort(space, acks, kinds_of(space), seed=1)
    ]
    # The first commit continues nothing, four write a checkpoint, and the others are alike.
    assert first[0] == 1
    assert first[1] % 16 == 0
    assert first[2] % 16 not in (0, 1)
    # After a checkpoint another commit has it outstanding, and no more commits than one.
    assert len(set(first)) == len(first) <= 5


def medley(count):
    """Operations of seven sorts in turn: each writes other ones of three places, and syncs them."""
    made, now, acks = Handmade(1 << 24), 0, []
    for number in range(count):
        for place in range(3):
            if (number % 7 + 1) >> place & 1:
                made.write(2 * place * PAGE, b"M" * PAGE, at=now + 1, done=now + 2)
                now += 2
        made.flush(at=now + 1, done=now + 2)
        acks.append(now + 5)
        now += 10
    tried = numbers(range(1, count + 1))
    history = OperationHistory(tried, numbers([0] * count), tried, numbers(acks))
    return StateSpace(made.timeline(), history)


def test_all_of_few_acks_come_first():
    """Seven sorts, two of each."""
    space = medley(14)
    first = list(islice(drawn(space), 14))
    assert [last_required(space, state) for state in first] == list(range(1, 15))
    assert not any(state.survivors for state in first)


def test_every_fourth_state_is_drawn_by_coins_where_most_kinds_are_outstanding():
    """Of a write of eight units, and of a log and a page that are both outstanding."""
    space = commits(64, checkpoint=16)
    coins = list(islice(drawn(space), 16))[3::4]
    assert all(state.torn for state in coins)
    assert len(space.volatile(coins[0].instant)) == 2


def kinds_of_files(files):
    space = files.case(list).space
    names = [kind.name for kind in kinds_of(space)]
    return [name for name in names if not name.startswith("sync")]


def test_files_are_told_by_their_names_without_digits_and_by_turns():
    files = Files()
    for number in range(1, 5):
        files.write(f"{number:06}.log", b"x" * 10)
    created, appended, grown = (kinds_of_files(files)[at::3] for at in range(3))
    assert set(created) == {"create (#.log)"}
    assert (
        appended
        == [
            "append of #.log, one unit",
            "append of #.log (in turn), one unit",
        ]
        * 2
    )
    assert grown == ["growth of #.log", "growth of #.log (in turn)"] * 2


def test_calls_are_told_from_each_other():
    files = Files()
    files.write("db", b"x" * 5000)
    files.write("db", b"y", at=0)
    files.write("db", b"y", at=3)
    files.truncate("db", 9)
    files.truncate("db", 0)
    files.rename("db", "new")
    files.unlink("new")
    assert kinds_of_files(files) == [
        "create (db)",
        "append of db, many units",
        "growth of db",
        "overwriting the beginning of db, one unit",
        "overwriting of db, one unit",
        "zeroing of db, many units",
        "truncation of db",
        "truncation to nothing of db",
        "rename (db gone, new)",
        "unlink (new gone)",
    ]


def replacing(count, name, *, promise=Promise.POSIX):
    """A store that is replaced `count` times by a synced file, called `name(n)` until then."""
    files = Files({})
    for number in range(1, count + 1):
        files.write(name(number), b"x")
        files.sync(name(number))
        files.rename(name(number), "store")
    return files.case(list, promise=promise).space


def fresh_names(pattern, seed=0):
    """As mkstemp(3) makes them."""
    draw = random.Random(seed)
    letters, known = string.ascii_letters + string.digits, dict[int, str]()

    def name(number):
        if number not in known:
            known[number] = pattern.replace("*", "".join(draw.choices(letters, k=6)))
        return known[number]

    return name


@pytest.mark.parametrize("pattern", ["*", "store.*", "*.tmp", ".*.store.new"])
@pytest.mark.parametrize("promise", list(Promise))
def test_a_name_that_is_new_each_time_is_worth_its_role(pattern, promise):
    fixed = drawn(replacing(40, lambda _: "tmp", promise=promise))
    for count in (40, 160):
        fresh = drawn(replacing(count, fresh_names(pattern), promise=promise))
        assert len(fresh._kinds.names) == len(fixed._kinds.names) == 9
        assert fresh.coverage().groups.all == fixed.coverage().groups.all


def test_names_that_are_new_each_time_are_told_by_what_is_done_with_them():
    """One file in two is renamed over the store, the others are removed."""
    files, name = Files({}), fresh_names("*")
    for number in range(1, 33):
        files.write(name(number), b"x")
        if number % 2:
            files.rename(name(number), "store")
        else:
            files.unlink(name(number))
    assert {kind for kind in kinds_of_files(files) if kind.startswith(("rename", "unlink"))} == {
        "rename (* (create/rename gone/size/write) gone, store)",
        "unlink (* (create/size/unlink gone/write) gone)",
    }


def test_names_that_are_alike_and_few_are_told_apart():
    files = Files({})
    for name in ("accounts", "orders", "items", "log"):
        files.write(name, b"x")
    assert kinds_of_files(files)[::3] == [
        f"create ({name})" for name in ("accounts", "orders", "items", "log")
    ]


def many_kinds(count):
    """Operations on twelve files, renamed to each other, and nothing synced: of many kinds."""
    files, draw, letters = Files({}), random.Random(1), "abcdefghijkl"
    for number in range(count):
        name = draw.choice(letters)
        match draw.randrange(4):
            case 0 if name in files._names:
                files.rename(name, draw.choice(letters.replace(name, "")))
            case 1 if name in files._names:
                files.truncate(name, draw.choice([0, 7]))
            case _:
                files.write(name, b"x" * draw.choice([10, 2000, 9000]), at=draw.choice([0, 9]))
        files.ack(number)
    return files.case(list).space


def pairs_until(space, states):
    """How many pairs of kinds are told until so many states were drawn."""
    told, tell = 0, Shape.pairs

    def pairs(shape, stage):
        nonlocal told
        found = tell(shape, stage)
        told += len(found)
        return found

    with mock.patch.object(Shape, "pairs", pairs):
        assert len(list(islice(drawn(space), states))) == states
    return told


def test_what_it_takes_to_choose_a_state_is_bounded_however_many_kinds_there_are():
    for count in (40, 80):
        space = many_kinds(count)
        assert len(kinds_of(space).names) > 64
        assert 0 < pairs_until(space, 64) <= 2 * 50_000


def test_an_operation_of_a_folder_that_syncs_another_file_is_of_a_sort_of_its_own():
    """The sync after it makes durable what it left outstanding."""
    files = Files({"a": b"", "b": b""})
    for number in files.operations(32):
        files.write("a", b"x")
        files.sync("b" if number == 17 else "a")
    space = files.case(list).space
    acks = events(space, [InstantKind.ACK])
    sorts = one_of_each_sort(space, acks, kinds_of(space), seed=1)
    assert len(sorts) < 6
    assert any(set(space.required(instant)) == set(range(1, 18)) for instant in sorts)
