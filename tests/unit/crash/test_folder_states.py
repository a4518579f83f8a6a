# SPDX-License-Identifier: Apache-2.0
"""What a cut may leave of a folder, on recordings made by hand: each state, and no other."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
import pytest

from powercut.crash.folder import FolderSpace
from powercut.crash.folder_rows import Promise
from powercut.crash.states import CrashState
from powercut.model.folder import (
    ROOT_OBJECT,
    Attributes,
    FolderOp,
    FolderRequest,
    FolderTimeline,
)
from powercut.model.units import NEVER, Instant

POSIX, JOURNAL = Promise.POSIX, Promise.JOURNAL
FILE, OTHER, SUB = 2, 3, 4
CUT = 10_000
REALTIME = 10**18


class Tape:
    """Requests, each of which completes before the next is submitted."""

    def __init__(self) -> None:
        self.requests: list[FolderRequest] = []
        self.data = bytearray()
        self.now = 0
        self.begin = 0

    def add(self, op: FolderOp, number: int, **rest: object) -> Tape:
        self.now += 10
        done = int(NEVER) if rest.pop("in_flight", False) else rest.pop("done", self.now + 5)
        self.requests.append(FolderRequest(op, number, self.now, done, **rest))  # type: ignore[arg-type]  # the fields by name
        return self

    def write(self, number: int, offset: int, data: bytes, **rest: object) -> Tape:
        at = len(self.data)
        self.data += data
        return self.add(
            FolderOp.WRITE, number, offset=offset, length=len(data), data_offset=at, **rest
        )

    def create(self, number: int, name: str, parent: int = ROOT_OBJECT) -> Tape:
        return self.add(FolderOp.CREATE, parent, other=number, names=(name,))

    def rename(self, name: str, new: str, to: int = ROOT_OBJECT) -> Tape:
        return self.add(FolderOp.RENAME, ROOT_OBJECT, other=to, names=(name, new))

    def mode(self, number: int, mode: int) -> Tape:
        return self.add(FolderOp.ATTRIBUTES, number, attributes=Attributes(mode=mode))

    def sync(self, number: int, **rest: object) -> Tape:
        return self.add(FolderOp.FLUSH, number, **rest)

    def start(self) -> Tape:
        self.now += 10
        self.begin = self.now
        return self

    def space(self, promise: Promise, *, lying: bool = False) -> FolderSpace:
        timeline = FolderTimeline(
            requests=tuple(self.requests),
            data=np.frombuffer(bytes(self.data), dtype=np.uint8),
            begin_ns=Instant(self.begin),
            atomic_unit=4096,
            cut_ns=Instant(CUT),
            realtime_ns=REALTIME,
        )
        return FolderSpace(timeline, promise, lying=lying)


def contents(space: FolderSpace, state: CrashState) -> dict[str, bytes]:
    """Each file of a state, by its path."""
    found = {}
    for path, file in space.tree(state).files:
        data = bytearray()
        for part in file.parts:
            if isinstance(part, int):
                del data[part:]
                continue
            row, begin, end = part
            request = space.rows[row].request
            payload = bytes(end - begin)
            if request.data_offset >= 0:
                payload = space.folder.payload(request).tobytes()[begin - request.offset :][
                    : end - begin
                ]
            data.extend(bytes(max(0, end - len(data))))
            data[begin:end] = payload
        del data[file.size :]
        found[path] = bytes(data) + bytes(file.size - len(data))
    return found


def all_states(tape: Tape, promise: Promise, instant: int = CUT) -> list[dict[str, bytes]]:
    """Every different state, by trying all choices."""
    space = tape.space(promise)
    volatile = space.volatile(instant).tolist()
    chosen = chain.from_iterable(combinations(volatile, n) for n in range(len(volatile) + 1))
    states = [contents(space, space.legal(CrashState(instant, some))) for some in chosen]
    return [one for index, one in enumerate(states) if one not in states[:index]]


def same(found: list[dict[str, bytes]], *expected: dict[str, bytes]) -> bool:
    return sorted(map(repr, map(sorted, (one.items() for one in found)))) == sorted(
        map(repr, map(sorted, (one.items() for one in expected)))
    )


@pytest.fixture
def tape() -> Tape:
    """A folder that holds `a`, with `old`."""
    made = Tape().create(FILE, "a").write(FILE, 0, b"old")
    return made.start()


@pytest.mark.parametrize("promise", Promise)
def test_what_was_there_at_first_is_in_every_state(tape: Tape, promise: Promise) -> None:
    assert same(all_states(tape, promise), {"a": b"old"})


@pytest.mark.parametrize("promise", Promise)
def test_an_overwrite_is_there_or_not_until_the_file_is_synced(
    tape: Tape, promise: Promise
) -> None:
    tape.write(FILE, 0, b"new")
    assert same(all_states(tape, promise), {"a": b"old"}, {"a": b"new"})
    tape.sync(OTHER)  # another file's says nothing
    assert same(all_states(tape, promise), {"a": b"old"}, {"a": b"new"})
    tape.sync(FILE, data_only=True)
    assert same(all_states(tape, promise), {"a": b"new"})


@pytest.mark.parametrize("promise", Promise)
def test_an_append_loses_its_size_or_its_bytes(tape: Tape, promise: Promise) -> None:
    tape.write(FILE, 3, b"more")
    zeroes = {"a": b"old\0\0\0\0"}
    assert same(all_states(tape, promise), {"a": b"old"}, zeroes, {"a": b"oldmore"})
    tape.sync(FILE, data_only=True)
    assert same(all_states(tape, promise), {"a": b"oldmore"})


@pytest.mark.parametrize("promise", Promise)
def test_a_sync_covers_what_completed_before_it_was_submitted(tape: Tape, promise: Promise) -> None:
    tape.write(FILE, 0, b"new", in_flight=True).sync(FILE)
    assert same(all_states(tape, promise), {"a": b"old"}, {"a": b"new"})


@pytest.mark.parametrize("promise", Promise)
def test_a_write_with_o_dsync_is_durable_with_its_size(tape: Tape, promise: Promise) -> None:
    tape.write(FILE, 3, b"x").write(FILE, 4, b"y", at_once=True)
    # The size leads to `y`; of `x` nothing was promised.
    assert same(all_states(tape, promise), {"a": b"old\0y"}, {"a": b"oldxy"})


def test_a_new_file_whose_folder_was_not_synced(tape: Tape) -> None:
    tape.create(OTHER, "b").write(OTHER, 0, b"new").sync(OTHER)
    old, new = {"a": b"old"}, {"a": b"old", "b": b"new"}
    assert same(all_states(tape, POSIX), old, new)
    assert same(all_states(tape, JOURNAL), new)
    tape.sync(ROOT_OBJECT)
    assert same(all_states(tape, POSIX), new)


def test_a_sync_of_everything(tape: Tape) -> None:
    tape.create(OTHER, "b").write(OTHER, 0, b"new").write(FILE, 0, b"OLD").sync(0)
    for promise in Promise:
        assert same(all_states(tape, promise), {"a": b"OLD", "b": b"new"})


def test_a_rename_over_a_file_whose_contents_were_not_synced(tape: Tape) -> None:
    tape.create(OTHER, "b").write(OTHER, 0, b"new").rename("b", "a").sync(ROOT_OBJECT)
    # The name is durable; what it leads to is any part of what was written.
    for promise in Promise:
        found = all_states(tape, promise)
        assert same(found, {"a": b""}, {"a": b"\0\0\0"}, {"a": b"new"})


def test_a_rename_over_a_file_as_it_should_be(tape: Tape) -> None:
    tape.create(OTHER, "b").write(OTHER, 0, b"new").sync(OTHER).rename("b", "a")
    before, after = {"a": b"old", "b": b"new"}, {"a": b"new"}
    assert same(all_states(tape, JOURNAL), before, after)
    assert same(all_states(tape, POSIX), {"a": b"old"}, before, after)
    tape.sync(ROOT_OBJECT)
    for promise in Promise:
        assert same(all_states(tape, promise), after)


def test_names_keep_their_order_in_a_journal_alone(tape: Tape) -> None:
    tape.create(OTHER, "b").add(FolderOp.UNLINK, ROOT_OBJECT, names=("a",))
    old, both, gone, neither = {"a": b"old"}, {"a": b"old", "b": b""}, {"b": b""}, {}
    assert same(all_states(tape, JOURNAL), old, both, gone)
    assert same(all_states(tape, POSIX), old, both, gone, neither)


def test_a_rename_to_another_folder_is_two_changes_for_posix(tape: Tape) -> None:
    tape.add(FolderOp.MKDIR, ROOT_OBJECT, other=SUB, names=("d",)).sync(ROOT_OBJECT)
    tape.rename("a", "a", to=SUB)
    old, new = {"a": b"old"}, {"d/a": b"old"}
    assert same(all_states(tape, JOURNAL), old, new)
    assert same(all_states(tape, POSIX), old, new, old | new, {})
    tape.sync(SUB)
    assert same(all_states(tape, POSIX), new, old | new)


def test_a_truncation_and_what_is_written_over_it(tape: Tape) -> None:
    tape.add(FolderOp.TRUNCATE, FILE, size=0).write(FILE, 0, b"ne")
    expected = [{"a": b"old"}, {"a": b""}, {"a": b"\0\0"}, {"a": b"ne"}]
    assert same(all_states(tape, JOURNAL), *expected)
    # POSIX does not say that the truncation comes before what is written in its place.
    assert same(all_states(tape, POSIX), *expected, {"a": b"ned"})
    tape.sync(FILE)
    for promise in Promise:
        assert same(all_states(tape, promise), {"a": b"ne"})


def test_a_file_that_fallocate_has_made_longer(tape: Tape) -> None:
    tape.add(FolderOp.GROW, FILE, size=5).add(FolderOp.ZERO, FILE, offset=0, length=2)
    for promise in Promise:
        found = all_states(tape, promise)
        states = [b"old", b"old\0\0", b"\0\0d", b"\0\0d\0\0"]
        assert same(found, *({"a": one} for one in states))


def test_two_names_of_one_file(tape: Tape) -> None:
    tape.add(FolderOp.LINK, ROOT_OBJECT, other=FILE, names=("b",)).sync(ROOT_OBJECT)
    tape.write(FILE, 0, b"new").sync(FILE)
    assert same(all_states(tape, JOURNAL), {"a": b"new", "b": b"new"})
    # A rename of one of them to the other does nothing.
    tape.rename("a", "b")
    assert same(all_states(tape, JOURNAL), {"a": b"new", "b": b"new"})


def test_an_exchange_of_names(tape: Tape) -> None:
    tape.create(OTHER, "b").sync(ROOT_OBJECT)
    tape.add(FolderOp.RENAME, ROOT_OBJECT, other=ROOT_OBJECT, names=("a", "b"), exchange=True)
    for promise in Promise:
        found = all_states(tape, promise)
        assert same(found, {"a": b"old", "b": b""}, {"a": b"", "b": b"old"})


def test_fdatasync_leaves_a_new_name_for_later(tape: Tape) -> None:
    tape.rename("a", "b").sync(FILE, data_only=True)
    assert same(all_states(tape, JOURNAL), {"a": b"old"}, {"b": b"old"})
    tape.sync(FILE)
    assert same(all_states(tape, JOURNAL), {"b": b"old"})


def test_the_control_keeps_nothing_but_what_was_there(tape: Tape) -> None:
    tape.write(FILE, 0, b"new", at_once=True).create(OTHER, "b").sync(0)
    for promise in Promise:
        space = tape.space(promise, lying=True)
        assert contents(space, CrashState(CUT, ())) == {"a": b"old"}


def test_every_state_of_a_journal_is_one_of_posix(tape: Tape) -> None:
    tape.create(OTHER, "b").write(OTHER, 0, b"x").rename("b", "a")
    tape.add(FolderOp.TRUNCATE, OTHER, size=0).write(OTHER, 0, b"y")
    posix = all_states(tape, POSIX)
    assert all(state in posix for state in all_states(tape, JOURNAL))


def test_a_write_tears_at_the_atomic_unit(tape: Tape) -> None:
    tape.write(FILE, 0, b"n" * 8192)
    space = tape.space(JOURNAL)
    row = next(r for r, one in enumerate(space.rows) if one.length == 8192)
    assert space.touched_units(row) == 2


def modes(tape: Tape, promise: Promise, *, name: str = "a") -> set[int | None]:
    """Those that a file has in all states in which it is."""
    space = tape.space(promise)
    volatile = space.volatile(CUT).tolist()
    chosen = chain.from_iterable(combinations(volatile, n) for n in range(len(volatile) + 1))
    trees = [space.tree(space.legal(CrashState(CUT, some))) for some in chosen]
    return {dict(tree.files)[name].attributes.mode for tree in trees if name in dict(tree.files)}


@pytest.mark.parametrize("promise", Promise)
def test_a_mode_is_durable_with_an_fsync_of_its_file(tape: Tape, promise: Promise) -> None:
    born = Attributes(mode=0o644)
    tape.requests.append(FolderRequest(FolderOp.ATTRIBUTES, FILE, 1, 2, attributes=born, born=True))
    tape.mode(FILE, 0o600)
    assert modes(tape, promise) == {0o644, 0o600}
    tape.sync(OTHER).sync(FILE, data_only=True)  # no promise of attributes
    assert modes(tape, promise) == {0o644, 0o600}
    tape.sync(FILE)
    assert modes(tape, promise) == {0o600}


def test_a_journal_keeps_modes_and_names_in_order(tape: Tape) -> None:
    """A file that is renamed into its place has the mode that it got before."""
    born = Attributes(mode=0o600)
    tape.create(OTHER, "b").write(OTHER, 0, b"new")
    tape.add(FolderOp.ATTRIBUTES, OTHER, attributes=born, born=True)
    tape.mode(OTHER, 0o640).sync(OTHER, data_only=True).rename("b", "a")
    assert modes(tape, JOURNAL) == {None, 0o640}
    assert modes(tape, POSIX) == {None, 0o600, 0o640}
    tape.sync(ROOT_OBJECT)
    assert modes(tape, JOURNAL) == {0o640}
    assert modes(tape, POSIX) == {0o600, 0o640}  # the folder's sync is none of the file


@pytest.mark.parametrize("promise", Promise)
def test_the_time_of_a_change_is_that_of_the_last_that_is_there(
    tape: Tape, promise: Promise
) -> None:
    set_ns = 5 * 10**17
    tape.add(FolderOp.ATTRIBUTES, FILE, attributes=Attributes(change_ns=set_ns)).sync(FILE)
    tape.write(FILE, 0, b"new")
    space = tape.space(promise)
    last = space.rows[-1]
    nothing, all_ = (
        dict(space.tree(CrashState(CUT, some)).files)["a"].attributes.change_ns
        for some in ((), tuple(space.volatile(CUT).tolist()))
    )
    assert (nothing, all_) == (set_ns, REALTIME + last.request.submitted_ns)
    assert space.tree(CrashState(CUT, ())).root.change_ns is None  # its names are as at first


def test_a_truncation_within_a_block_zeroes_the_end_of_it(tape: Tape) -> None:
    tape.add(FolderOp.TRUNCATE, FILE, size=1)
    # The zeroes may be there before the size is, as ext4 and XFS write them.
    for promise in Promise:
        assert same(all_states(tape, promise), {"a": b"old"}, {"a": b"o\0\0"}, {"a": b"o"})
    tape.sync(FILE)
    for promise in Promise:
        assert same(all_states(tape, promise), {"a": b"o"})


def test_what_is_written_into_the_block_that_a_truncation_leaves(tape: Tape) -> None:
    """Its disk block is the same: it needs no truncation; beyond that block it does."""
    tape.add(FolderOp.TRUNCATE, FILE, size=1).write(FILE, 1, b"N")
    found = all_states(tape, JOURNAL)
    sizes = [b"old", b"o\0\0", b"o", b"oNd", b"oN\0", b"oN", b"o\0"]
    assert same(found, *({"a": one} for one in sizes))
    beyond = Tape().create(FILE, "a").write(FILE, 0, b"x" * 5000).start()
    beyond.add(FolderOp.TRUNCATE, FILE, size=1).write(FILE, 4096, b"N")
    assert not any(one["a"][4095:4098] == b"xNx" for one in all_states(beyond, JOURNAL))
    assert any(one["a"][4095:4098] == b"xNx" for one in all_states(beyond, POSIX))
