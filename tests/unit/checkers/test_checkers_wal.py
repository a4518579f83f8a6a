# SPDX-License-Identifier: Apache-2.0
"""The WAL checker: every kind of finding with exact LSNs, and silence where all is lawful."""

import errno

import pytest
from handmade import history

from powercut.checkers.wal import check_log, check_wal
from powercut.model.observation import Extent, Observation
from powercut.model.verdict import FindingKind, LsnRange, Verdict
from powercut.wal.layout import LayoutKind, SlotState, WalLayout

APPEND = WalLayout(LayoutKind.APPEND, record=64)
RAW = WalLayout(LayoutKind.RAW, record=64, capacity=640)  # 10 slots
S = SlotState


def seen(*extents, **state):
    return Observation(tuple(Extent(*extent) for extent in extents), **state)


def found(findings):
    return [(f.kind, f.verdict, tuple((r.first, r.last) for r in f.lsns)) for f in findings]


def judged(observation, *, acked=10, attempted=12, layout=APPEND):
    return found(check_wal(history([(acked, 9)], [(attempted, 1)]), observation, layout))


L, I = Verdict.LOSSY, Verdict.INCONCLUSIVE  # noqa: E741
K = FindingKind


@pytest.mark.parametrize(
    "extents",
    [
        [(0, 10, S.INTACT, 1)],
        [(0, 12, S.INTACT, 1)],
        [(0, 10, S.INTACT, 1), (10, 1, S.TORN, 11, 3), (11, 1, S.ABSENT)],
        [(0, 10, S.INTACT, 1), (10, 2, S.STALE, 3, 1)],
        [(0, 10, S.INTACT, 1), (11, 1, S.INTACT, 12)],  # a hole after the last ack is lawful
    ],
)
def test_lawful_ends_of_a_log_are_silent(extents):
    assert judged(seen(*extents)) == []


@pytest.mark.parametrize(
    ("extents", "expected"),
    [
        ([(0, 7, S.INTACT, 1)], [(K.LOST, L, ((8, 10),))]),
        ([], [(K.LOST, L, ((1, 10),))]),
        ([(0, 7, S.INTACT, 1), (7, 5, S.STALE, 99, 0)], [(K.LOST, L, ((8, 10),))]),
        (
            [(0, 3, S.INTACT, 1), (3, 2, S.ABSENT), (5, 3, S.INTACT, 6), (8, 4, S.ABSENT)],
            [(K.LOST, L, ((9, 10),)), (K.UNSERIALIZABLE, L, ((4, 5),))],
        ),
        (
            [(0, 3, S.INTACT, 1), (3, 2, S.STALE, 4, 7), (5, 5, S.INTACT, 6)],
            [(K.STALE, L, ((4, 5),))],
        ),
        ([(0, 9, S.INTACT, 1), (9, 1, S.TORN, 10, 1)], [(K.TORN, L, ((10, 10),))]),
        (
            [(0, 4, S.INTACT, 1), (4, 1, S.CORRUPT, 5, 99), (5, 5, S.INTACT, 6)],
            [(K.CORRUPT, L, ((5, 5),))],
        ),
        (
            [(0, 4, S.INTACT, 1), (4, 2, S.UNREADABLE, 0, 5), (6, 4, S.INTACT, 7)],
            [(K.UNREADABLE, L, ((5, 6),))],
        ),
        # record 6 landed in the slot of 5: both are gone from their places
        (
            [(0, 4, S.INTACT, 1), (4, 1, S.MISDIRECTED, 6), (5, 1, S.ABSENT), (6, 4, S.INTACT, 7)],
            [(K.UNSERIALIZABLE, L, ((5, 5),)), (K.MISDIRECTED, L, ((6, 6),))],
        ),
        # the reader says intact, but not in its slot
        (
            [(0, 9, S.INTACT, 1), (9, 1, S.INTACT, 3)],
            [(K.LOST, L, ((10, 10),)), (K.MISDIRECTED, I, ((3, 3),))],
        ),
        ([(0, 15, S.INTACT, 1)], [(K.NEVER_ATTEMPTED, L, ((13, 15),))]),
        (
            [(0, 12, S.INTACT, 1), (12, 1, S.TORN, 13, 1)],
            [(K.NEVER_ATTEMPTED, I, ((13, 13),))],
        ),
        # a chunk that seems to be of a record far away is no record that came back
        (
            [(0, 12, S.INTACT, 1), (12, 1, S.MISDIRECTED, 880714439732)],
            [
                (K.NEVER_ATTEMPTED, I, ((880714439732, 880714439732),)),
                (K.MISDIRECTED, I, ((880714439732, 880714439732),)),
            ],
        ),
        ([(0, 10, S.INTACT, 1), (10, 1, S.CORRUPT, 0, 4)], [(K.CORRUPT, I, ())]),
        ([(0, 10, S.INTACT, 1), (12, 3, S.UNREADABLE, 0, 5)], [(K.UNREADABLE, I, ())]),
        ([(0, 10, S.INTACT, 1), (11, 1, S.MISDIRECTED, 3)], [(K.MISDIRECTED, I, ((3, 3),))]),
    ],
)
def test_each_kind_of_loss_is_found_with_its_lsns(extents, expected):
    assert judged(seen(*extents)) == expected


@pytest.mark.parametrize(
    ("extents", "expected"),
    [
        # 14 acked, 16 attempted in 10 slots: 7 to 14 are required; 15 and 16 may be anything
        ([(0, 4, S.INTACT, 11), (4, 2, S.TORN, 15, 0), (6, 4, S.INTACT, 7)], []),
        ([(0, 4, S.INTACT, 11), (4, 2, S.INTACT, 5), (6, 4, S.INTACT, 7)], []),
        (
            [(0, 2, S.INTACT, 11), (2, 4, S.INTACT, 3), (6, 4, S.INTACT, 7)],
            [(K.LOST, L, ((13, 14),))],  # the generation before is still in their slots
        ),
        (
            [(0, 1, S.INTACT, 1), (1, 3, S.INTACT, 12), (4, 2, S.ABSENT), (6, 4, S.INTACT, 7)],
            [(K.STALE, L, ((11, 11),))],
        ),
        (
            [(0, 6, S.INTACT, 11), (6, 1, S.INTACT, 17), (7, 3, S.INTACT, 8)],
            [(K.UNSERIALIZABLE, L, ((7, 7),)), (K.NEVER_ATTEMPTED, L, ((17, 17),))],
        ),
        ([(0, 10, S.ABSENT)], [(K.LOST, L, ((7, 14),))]),
    ],
)
def test_a_log_that_wraps_asks_for_its_last_round(extents, expected):
    assert judged(seen(*extents), acked=14, attempted=16, layout=RAW) == expected


def test_nothing_acknowledged_is_not_safe():
    assert judged(seen(), acked=0) == [(K.INCOMPLETE, I, ())]


def test_a_system_that_does_not_come_back():
    failed = seen(recovered=False, failure="mount: Structure needs cleaning")
    assert judged(failed) == [(K.NOT_RECOVERED, L, ((1, 10),))]
    hung = seen(recovered=False, complete=False, failure="the host ran out of memory")
    assert judged(hung) == [(K.INCOMPLETE, I, ())]


def test_what_an_unfinished_reader_did_not_see_is_unknown():
    part = seen((0, 4, S.INTACT, 1), (4, 1, S.CORRUPT, 5, 0), complete=False, failure="timeout")
    assert judged(part) == [(K.CORRUPT, L, ((5, 5),)), (K.INCOMPLETE, I, ((6, 10),))]


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.EIO, (K.UNREADABLE, L, ((5, 6),))),
        (errno.EBADMSG, (K.UNREADABLE, L, ((5, 6),))),
        (errno.ENOMEM, (K.INCOMPLETE, I, ((5, 6),))),
        (errno.EINTR, (K.INCOMPLETE, I, ((5, 6),))),
    ],
)
def test_a_slot_that_was_not_read_is_judged_by_why(number, expected):
    read = seen((0, 4, S.INTACT, 1), (4, 2, S.UNREADABLE, 0, number), (6, 4, S.INTACT, 7))
    assert judged(read) == [expected]


def test_a_crash_state_before_any_ack_may_hold_anything_attempted():
    assert check_log(None, 3, seen((0, 2, S.INTACT, 1)), APPEND) == []
    assert found(check_log(LsnRange(1, 2), 3, seen((0, 1, S.INTACT, 1)), APPEND)) == [
        (K.LOST, L, ((2, 2),))
    ]


def test_impossible_extents_are_refused():
    with pytest.raises(ValueError, match="impossible extent"):
        judged(seen((0, 0, S.INTACT, 1)))
