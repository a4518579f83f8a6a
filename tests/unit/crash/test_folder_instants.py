# SPDX-License-Identifier: Apache-2.0
"""From when on a change of a folder is durable, to the nanosecond, and what is made of a state.

"Before" is strict: a sync covers what completed before it was submitted, once it has completed.
"""

from __future__ import annotations

from itertools import chain, combinations
from pathlib import Path

import numpy as np
import pytest
from handmade import Handmade
from test_folder_states import CUT, FILE, JOURNAL, OTHER, POSIX, Tape, contents

from powercut.crash.folder_rows import Promise
from powercut.crash.sets import durability_sets, first_covering_flush_ns
from powercut.crash.states import CrashState
from powercut.model.folder import ROOT_OBJECT, Attributes, FolderOp
from powercut.model.units import NEVER
from powercut.recording.folder import build_tree

CHANGES = {
    "making": (FolderOp.CREATE, ROOT_OBJECT, {"other": OTHER, "names": ("b",)}),
    "rename": (FolderOp.RENAME, ROOT_OBJECT, {"other": ROOT_OBJECT, "names": ("a", "b")}),
    "unlink": (FolderOp.UNLINK, ROOT_OBJECT, {"names": ("a",)}),
    "mode": (FolderOp.ATTRIBUTES, FILE, {"attributes": Attributes(mode=0o600)}),
    "truncation": (FolderOp.TRUNCATE, FILE, {"size": 1}),
    "contents": (FolderOp.WRITE, FILE, {"length": 3, "data_offset": 0}),
}
EVERYTHING = 0
WHOLE, PART = {}, {"offset": 0, "length": 3, "data_only": True}
WAYS = [
    *((promise, change, EVERYTHING, WHOLE) for promise in Promise for change in CHANGES),
    *((promise, name, ROOT_OBJECT, WHOLE) for promise in Promise for name in ("rename", "unlink")),
    *((promise, name, FILE, WHOLE) for promise in Promise for name in ("mode", "truncation")),
    *((promise, "contents", FILE, part) for promise in Promise for part in (WHOLE, PART)),
    (JOURNAL, "rename", FILE, WHOLE),
    (JOURNAL, "making", OTHER, WHOLE),
    (JOURNAL, "making", OTHER, {"data_only": True}),
    (JOURNAL, "truncation", FILE, {"data_only": True}),
]


def changed(change: str, synced: int, part: dict[str, int], *, done: int, until: int) -> Tape:
    """A change that was submitted at 40 and is `done` then; a sync from 50 `until` then."""
    tape = Tape().create(FILE, "a").write(FILE, 0, b"old").start()
    op, number, rest = CHANGES[change]
    return tape.add(op, number, done=done, **rest).sync(synced, done=until, **part)


def outstanding(tape: Tape, promise: Promise, instant: int) -> int:
    return len(tape.space(promise).volatile(instant))


@pytest.mark.parametrize(
    ("done", "covered"), [(49, True), (50, False), (51, False), (NEVER, False)]
)
@pytest.mark.parametrize(("promise", "change", "synced", "part"), WAYS)
def test_a_sync_covers_what_had_completed_before_it_began_and_not_before_its_end(
    promise: Promise, change: str, synced: int, part: dict[str, int], done: int, covered: bool
) -> None:
    tape = changed(change, synced, part, done=int(done), until=60)
    before, after, at_cut = (outstanding(tape, promise, at) for at in (60, 61, CUT))
    assert before > 0
    assert after == at_cut == (0 if covered else before)


@pytest.mark.parametrize(("until", "covered"), [(CUT - 1, True), (CUT, False), (CUT + 1, False)])
@pytest.mark.parametrize(("promise", "change", "synced", "part"), WAYS)
def test_nothing_that_ends_at_the_cut_or_after_it_makes_anything_durable(
    promise: Promise, change: str, synced: int, part: dict[str, int], until: int, covered: bool
) -> None:
    tape = changed(change, synced, part, done=45, until=until)
    before, long_after = (outstanding(tape, promise, at) for at in (60, CUT + 100))
    assert before > 0
    assert long_after == (0 if covered else before)


def test_what_began_as_the_program_did_is_of_its_run() -> None:
    tape = Tape().create(FILE, "a").start()
    tape.now = tape.begin - 10
    tape.write(FILE, 0, b"new")
    assert tape.requests[-1].submitted_ns == tape.begin
    assert outstanding(tape, POSIX, CUT) == 2, "its bytes and its size"


@pytest.mark.parametrize(("completed", "durable"), [(9, 25), (10, 40), (11, 40), (30, NEVER)])
def test_a_flush_that_is_submitted_as_a_write_completes_does_not_cover_it(
    completed: int, durable: int
) -> None:
    """Of three, the second of which ends first."""
    submitted, done = np.array([10, 10, 30]), np.array([50, 25, 40])
    found = first_covering_flush_ns(np.array([completed]), submitted, done)
    assert found.tolist() == [int(durable)]


@pytest.mark.parametrize(("cut_at", "durable"), [(50, NEVER), (51, 50), (None, 50)])
def test_nor_on_a_disk(cut_at: int | None, durable: int) -> None:
    made = Handmade(512)
    made.write(0, bytes(512), at=10, done=20)
    made.flush(at=30, done=50)
    made.write(0, bytes(512), at=40, done=50, fua=True)
    sets = durability_sets(made.timeline(cut_at=cut_at))
    assert sets.durable_ns[[0, 2]].tolist() == [int(durable)] * 2


def tapes() -> list[Tape]:
    """A file that grows, is cut, is written beyond its end and has two names."""
    grown = Tape().create(FILE, "a").write(FILE, 0, b"old").start()
    grown.write(FILE, 3, b"more").write(FILE, 9, b"far")
    cut = Tape().create(FILE, "a").write(FILE, 0, b"o" * 5000).start()
    cut.add(FolderOp.TRUNCATE, FILE, size=2).write(FILE, 1, b"new")
    cut.add(FolderOp.GROW, FILE, size=9)
    named = Tape().create(FILE, "a").write(FILE, 0, b"old").start()
    named.add(FolderOp.LINK, ROOT_OBJECT, other=FILE, names=("b",)).write(FILE, 2, b"new")
    return [grown, cut, named]


@pytest.mark.parametrize("promise", Promise)
def test_the_folder_that_is_made_of_a_state_holds_what_the_state_does(
    tmp_path: Path, promise: Promise
) -> None:
    """Bytes without their size are not there; a size without its bytes is zeroes."""
    sizes = set()
    for tape in tapes():
        space = tape.space(promise)
        volatile = space.volatile(CUT).tolist()
        kept = chain.from_iterable(combinations(volatile, n) for n in range(len(volatile) + 1))
        for number, some in enumerate(kept):
            state = space.legal(CrashState(CUT, some))
            target = tmp_path / f"{id(tape)}-{number}"
            target.mkdir()
            build_tree(space, space.tree(state), target)
            found = {path.name: path.read_bytes() for path in target.iterdir()}
            assert found == contents(space, state)
            sizes.add(len(found["a"]))
    assert {2, 3, 5, 7, 9, 12, 5000} <= sizes
