# SPDX-License-Identifier: Apache-2.0
"""What a check finds where nothing was lost, operation by operation."""

from __future__ import annotations

import pytest

from powercut.model.observation import Continuation, Observation
from powercut.model.positive import PositiveControl, Whole
from powercut.model.verdict import LsnRange
from powercut.workload.program.positive import positive_control

ACKED = frozenset(range(1, 21))


def seen(lines: bytes, **more) -> Observation:
    return Observation((), lines=lines, **more)


def ran(acks: int, lines: bytes) -> Observation:
    """What a run left that ended without a cut and acknowledged so many operations."""
    said = b"".join(b"? %d\n+ %d\n" % (one, one) for one in range(1, acks + 1))
    return Observation((), later=Continuation(0, 0, 0, seen(lines), lines=said))


@pytest.mark.parametrize("where", [Whole.CUT, Whole.ISSUED])
@pytest.mark.parametrize(
    ("found", "count", "missing"),
    [
        (seen(b"= 1-20\n"), 20, ()),
        (seen(b"= 1-19\n"), 19, (LsnRange(20, 20),)),
        (seen(b"= 1-20\nx 7 torn\n"), 19, (LsnRange(7, 7),)),
        (seen(b"= 1-6\n= 8-20\nx 7 torn\n"), 19, (LsnRange(7, 7),)),
        (seen(b"= 1-20\nx 21 torn\n"), 20, ()),  # it was never acknowledged
        (seen(b"= 1-20\n", recovered=False, failure="no"), 0, (LsnRange(1, 20),)),
    ],
    ids=["all", "one-gone", "there-and-wrong", "wrong", "another-wrong", "no-mount"],
)
def test_what_is_there_and_wrong_was_not_found(
    where: Whole, found: Observation, count: int, missing: tuple[LsnRange, ...]
) -> None:
    control = positive_control(ACKED, {where: found})
    assert control is not None
    assert (control.where, control.found, control.missing) == (where, count, missing)
    assert control.passed is not bool(missing)


@pytest.mark.parametrize(
    ("left", "count", "passed"),
    [
        (ran(20, b"= 1-20\n"), 20, True),
        (ran(36, b"= 1-20\n"), 20, True),  # what it had not written when it was killed
        (ran(36, b"= 1-19\n= 21-36\n"), 19, False),
        (ran(19, b"= 1-19\n"), 19, False),
        (ran(1, b"= 1\n"), 1, False),
        (ran(0, b""), 0, False),
        (Observation(()), 0, False),
    ],
    ids=["as-many", "more", "one-gone", "one-less", "one", "none", "no-run"],
)
def test_a_run_without_a_cut_shows_no_more_than_it_acknowledged(
    left: Observation, count: int, passed: bool
) -> None:
    control = positive_control(ACKED, {Whole.ENDED: left})
    assert control is not None
    assert (control.where, control.found, control.passed) == (Whole.ENDED, count, passed)
    assert passed or control.trouble or control.missing


def test_the_first_that_finds_all_speaks_and_else_the_last() -> None:
    half, whole = seen(b"= 1-10\n"), seen(b"= 1-20\n")
    looks = {Whole.CUT: half, Whole.ISSUED: whole, Whole.ENDED: ran(36, b"")}
    assert positive_control(ACKED, looks) == PositiveControl(Whole.ISSUED, 20, 20)
    lost = positive_control(ACKED, looks | {Whole.ISSUED: half})
    assert lost == PositiveControl(Whole.ENDED, 0, 20, (LsnRange(1, 20),))
    assert positive_control(ACKED, {}) is None
