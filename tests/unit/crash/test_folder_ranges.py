# SPDX-License-Identifier: Apache-2.0
"""Syncs of a range of a file, on recordings made by hand: what they make durable, and no more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_folder_states import FILE, OTHER, POSIX, Tape, all_states, same

from powercut.crash.folder_rows import REGION, Promise
from powercut.model.folder import FolderOp
from powercut.model.units import NEVER

PAGE = 4096
PAGES = 4


@pytest.fixture
def tape() -> Tape:
    """A folder that holds `a`, of two pages."""
    made = Tape().create(FILE, "a").write(FILE, 0, bytes(2 * PAGE))
    return made.start()


def first_bytes(tape: Tape, promise: Promise) -> list[dict[str, bytes]]:
    """What stands at the beginning of each page, in every state."""
    found = []
    for state in all_states(tape, promise):
        shown = {"a": state["a"][::PAGE]}
        found += [] if shown in found else [shown]
    return found


@pytest.mark.parametrize("promise", Promise)
def test_the_sync_of_one_page_says_nothing_of_another(tape: Tape, promise: Promise) -> None:
    tape.write(FILE, 0, b"x").write(FILE, PAGE, b"y")
    tape.sync(FILE, offset=0, length=PAGE, data_only=True)
    assert same(first_bytes(tape, promise), {"a": b"x\0"}, {"a": b"xy"})
    tape.sync(FILE, offset=PAGE + 100, length=1, data_only=True)
    assert same(first_bytes(tape, promise), {"a": b"xy"}), "the page is written whole"


@pytest.mark.parametrize("promise", Promise)
def test_a_write_in_two_pages_is_durable_in_one(tape: Tape, promise: Promise) -> None:
    tape.write(FILE, 0, b"x" * 2 * PAGE).sync(FILE, offset=PAGE, length=PAGE, data_only=True)
    assert same(first_bytes(tape, promise), {"a": b"\0x"}, {"a": b"xx"})


@pytest.mark.parametrize("promise", Promise)
def test_a_range_needs_the_size_that_it_ends_at_and_no_more(tape: Tape, promise: Promise) -> None:
    tape.write(FILE, 2 * PAGE, b"far")
    tape.write(FILE, 8, b"z", at_once=True).sync(FILE, offset=8, length=1, data_only=True)
    sizes = {len(state["a"]) for state in all_states(tape, promise)}
    assert sizes == {2 * PAGE, 2 * PAGE + 3}
    tape.sync(FILE, offset=2 * PAGE, length=3, data_only=True)
    sizes = {len(state["a"]) for state in all_states(tape, promise)}
    assert sizes == {2 * PAGE + 3}


def test_what_a_range_is_synced_by_says_whether_attributes_are_durable(tape: Tape) -> None:
    tape.mode(FILE, 0o600).sync(FILE, offset=0, length=1, data_only=True)
    assert len(tape.space(POSIX).volatile(10_000)) == 1
    tape.sync(FILE, offset=0, length=1)  # as O_SYNC does
    assert len(tape.space(POSIX).volatile(10_000)) == 0


@st.composite
def tapes(draw: st.DrawFn) -> Tape:
    """Writes and syncs of two files, some of a range, some under way at once or at the cut."""
    made = Tape().create(FILE, "a").create(OTHER, "b")
    for number in (FILE, OTHER):
        made.write(number, 0, bytes(PAGES * PAGE))
    made.start()
    for _ in range(draw(st.integers(1, 12))):
        number = draw(st.sampled_from((FILE, FILE, OTHER)))
        offset = draw(st.integers(0, PAGES * PAGE - 1))
        length = draw(st.integers(1, PAGES * PAGE - offset))
        rest = {"in_flight": draw(st.booleans()) and draw(st.booleans())}
        match draw(st.sampled_from(("write", "dsync", "range", "range", "whole"))):
            case "write":
                made.write(number, offset, b"x" * length, **rest)
            case "dsync":
                made.write(number, offset, b"x" * length, at_once=True, **rest)
            case "range":
                made.sync(number, offset=offset, length=length, data_only=True, **rest)
            case "whole":
                made.sync(number, data_only=True, **rest)
    return made


def durable_by_definition(tape: Tape, write: int, page: int) -> bool:
    """Whether the part of a write that lies in `page` is: a page is synced by each sync that
    touches it.
    """
    request = tape.requests[write]
    if request.submitted_ns < tape.begin or (request.at_once and request.completed_ns < NEVER):
        return True
    return any(
        one.op is FolderOp.FLUSH
        and one.object == request.object
        and request.completed_ns < one.submitted_ns
        and one.completed_ns < NEVER
        and (not one.length or one.offset // PAGE <= page <= (one.offset + one.length - 1) // PAGE)
        for one in tape.requests
    )


@given(tapes(), st.sampled_from(Promise))
def test_each_page_of_a_write_is_durable_by_the_syncs_that_touch_it(
    tape: Tape, promise: Promise
) -> None:
    space = tape.space(promise)
    volatile = set(space.volatile(10_000).tolist())
    told: dict[tuple[int, int], bool] = {}
    for index, row in enumerate(space.rows):
        if row.change is not None or row.request.op is not FolderOp.WRITE:
            continue
        begin = row.offset % REGION
        assert (begin, row.length) == (row.request.offset, row.request.length)
        write = next(
            at
            for at, one in enumerate(tape.requests)
            if one.submitted_ns == row.request.submitted_ns
        )
        assert (
            bytes(space.folder.payload(row.request))
            == bytes(space.folder.payload(tape.requests[write]))[
                begin - tape.requests[write].offset :
            ][: row.length]
        )
        for page in range(begin // PAGE, (begin + row.length - 1) // PAGE + 1):
            assert (write, page) not in told or told[write, page] == (index not in volatile)
            told[write, page] = index not in volatile
    for (write, page), durable in told.items():
        assert durable == durable_by_definition(tape, write, page)
    whole = {
        (at, page)
        for at, one in enumerate(tape.requests)
        if one.op is FolderOp.WRITE
        for page in range(one.offset // PAGE, (one.offset + one.length - 1) // PAGE + 1)
    }
    assert set(told) == whole
