# SPDX-License-Identifier: Apache-2.0
"""A program's life after recovery: what it promised then, and what of it can be believed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from powercut.model.observation import Continuation, Observation
from powercut.model.operations import Packet
from powercut.model.verdict import FindingKind, LsnRange, Verdict
from powercut.workload.port import LaterClaims
from powercut.workload.program.claims import history_of
from powercut.workload.program.promises import ProgramPromises

FIRST = [Packet(n, b"? %d\n+ %d\n" % (n, n)) for n in range(1, 6)] + [Packet(9, b"? 6\n")]
PROMISES = ProgramPromises(history_of(FIRST))
NEW = b"ready\n? 6\n+ 6\n? 7\n+ 7\n? 8\n"
INCONCLUSIVE, LOSSY = Verdict.INCONCLUSIVE, Verdict.LOSSY


def lived(after: bytes, *, said: bytes = NEW, before: bytes = b"= 1-5\n", **more) -> Observation:
    later = Continuation(0, 0, 0, Observation((), lines=after), lines=said, **more)
    return Observation((), lines=before, later=later)


def found(observation: Observation):
    claims = PROMISES.claims_at(100)
    return [(f.kind, f.verdict, f.lsns) for f in PROMISES.check(claims, observation)]


def test_everything_before_and_after_is_there():
    assert found(lived(b"= 1-7\n")) == []
    assert found(lived(b"= 1-8\n")) == [], "8 was tried, and the program killed"


def test_what_was_acknowledged_after_is_lost():
    assert found(lived(b"= 1-6\n")) == [(FindingKind.LOST, LOSSY, (LsnRange(7, 7),))]


def test_what_was_acknowledged_before_is_lost_later():
    assert found(lived(b"= 2-7\n")) == [(FindingKind.LOST, LOSSY, (LsnRange(1, 1),))]
    (finding,) = PROMISES.check(PROMISES.claims_at(100), lived(b"= 2-7\n"))
    assert finding.message.startswith("life after recovery, which acknowledged 6-7: 1 operation")


def test_a_state_that_lost_something_at_once_is_not_judged_twice():
    seen = lived(b"= 1-4\n", before=b"= 1-4\n")
    assert found(seen) == [(FindingKind.LOST, LOSSY, (LsnRange(5, 5),))]


PREFIX = ProgramPromises(history_of([Packet(0, b"promise prefix\n"), *FIRST]))


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        (b"= 1-3\n", b"= 1-3\n= 6-7\n", None),  # 4 and 5 are the tail, and 6 is of another life
        (b"= 1-3\n", b"= 1-3\n", None),
        (b"= 1-5\n", b"= 1-3\n= 6-7\n", None),  # the tail of the first life may go later
        (b"= 1-3\n", b"= 1\n= 3\n= 6\n", 2),
        (b"= 1-2\n= 4\n", b"= 1-7\n", 3),  # at once
    ],
)
def test_of_a_prefix_the_tail_may_go_in_each_life(before, after, lost):
    seen = lived(after, before=before)
    found = PREFIX.check(PREFIX.claims_at(100), seen)
    expected = [] if lost is None else [(FindingKind.LOST, (LsnRange(lost, lost),))]
    assert [(one.kind, one.lsns) for one in found] == expected


def test_one_that_only_opens_is_asked_for_no_ack_of_any_life():
    opens = ProgramPromises(history_of([Packet(0, b"promise opens\n"), *FIRST]))
    claims = opens.claims_at(100)
    assert opens.check(claims, lived(b"= 3\n", before=b"= 2\n")) == ()
    (bad,) = opens.check(claims, lived(b"bad torn\n", before=b"= 2\n"))
    assert bad.kind is FindingKind.NOT_RECOVERED


def test_an_operation_that_nobody_tried_is_a_phantom_and_one_of_the_later_life_is_not():
    assert found(lived(b"= 1-7\n= 9\n")) == [
        (FindingKind.NEVER_ATTEMPTED, LOSSY, (LsnRange(9, 9),))
    ]


def test_what_nobody_promised_may_go():
    """6 came back, was never acknowledged, and the program went on with 7."""
    seen = lived(b"= 1-5\n= 7\n", said=b"? 7\n+ 7\n", before=b"= 1-6\n")
    assert found(seen) == []


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"? 1\n+ 1\n? 2\n+ 2\n", "tries operation 1 again, which is there"),
        (b"? 6\n+ 7\n", "acknowledges operation 7, which it never tried"),
        (b"! out of memory\n", "out of memory"),
        (b"hello\n", "no line of the contract"),
    ],
)
def test_claims_that_cannot_be_convict_nobody(said, why):
    claims = PROMISES.claims_at(100)
    (finding, *_) = PROMISES.check(claims, lived(b"bad all wrong\n", said=said))
    assert (finding.verdict, why in finding.message) == (INCONCLUSIVE, True)
    assert all(verdict is INCONCLUSIVE for _, verdict, _ in found(lived(b"= 1\n", said=said)))


@pytest.mark.parametrize(
    ("no_room", "expected"), [(True, []), (False, [(FindingKind.INCOMPLETE, INCONCLUSIVE, ())])]
)
def test_a_program_that_cannot_go_on_is_unknown_unless_there_is_no_room(no_room, expected):
    seen = lived(b"= 1-5\n", said=b"? 6\n", failure="status 1", no_room=no_room)
    assert found(seen) == expected


def test_a_second_mount_that_fails_and_a_second_check_that_does():
    refused = Observation((), recovered=False, failure="Structure needs cleaning")
    seen = lived(b"")
    assert seen.later is not None
    broken = replace(seen, later=replace(seen.later, observation=refused))
    assert found(broken) == [(FindingKind.NOT_RECOVERED, LOSSY, ())]
    half = Observation((), complete=False, failure="status 3", lines=b"= 1\n")
    unread = replace(seen, later=replace(seen.later, observation=half))
    assert found(unread) == [(FindingKind.INCOMPLETE, INCONCLUSIVE, ())]


def test_a_second_cut_is_held_against_what_was_promised_between_the_two():
    later = PROMISES.claims_after(Continuation(0, 0, 0, Observation(()), lines=NEW))
    assert later == LaterClaims((LsnRange(6, 7),), 0, (LsnRange(6, 8),))
    claims = replace(PROMISES.claims_at(100), later=later)
    lost = PROMISES.check(claims, Observation((), lines=b"= 1-6\n"))
    assert [(f.kind, f.lsns) for f in lost] == [(FindingKind.LOST, (LsnRange(7, 7),))]
    before = replace(claims, later=replace(later, promised=()))
    assert PROMISES.check(before, Observation((), lines=b"= 1-5\n= 8\n")) == ()
    assert later + later == later


def test_what_a_later_life_acknowledged_last_is_its_tail_whatever_its_number():
    """2 failed at first, and is tried once more: it may go, though 3 is there."""
    first = b"promise prefix\n? 1\n+ 1\n? 2\n- 2\n? 3\n+ 3\n"
    promises = ProgramPromises(history_of([Packet(1, first)]))
    seen = lived(b"= 1\n= 3\n", before=b"= 1\n= 3\n", said=b"ready\n? 2\n+ 2\n")
    assert promises.check(promises.claims_at(100), seen) == ()
