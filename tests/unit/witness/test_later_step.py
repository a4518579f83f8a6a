# SPDX-License-Identifier: Apache-2.0
"""On disks: an ack that came before its write is told from a later step that takes it away."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from handmade import Handmade

from powercut.crash.states import CrashState, StateSpace
from powercut.model.operations import OperationHistory
from powercut.witness import later_step as told
from powercut.witness.later_step import later_step

SIZE = 1 << 20
CUT = 200
OPERATION = 1

Loses = Callable[[frozenset[int]], bool]
"""Whether a disk with these writes on it loses the operation."""


class FakeJudge:
    """Of everything that is on the disk it sees the numbers of the writes."""

    def __init__(self, space: StateSpace, loses: Loses) -> None:
        self.space, self.loses, self.tests = space, loses, 0

    def judge(self, state: CrashState) -> Any:
        self.tests += 1
        there = {*self.space.durable(state.instant).tolist(), *state.survivors}
        return SimpleNamespace(lsns={OPERATION} if self.loses(frozenset(there)) else set())


@pytest.fixture(autouse=True)
def _names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told, "named_writes", lambda _, __, writes: [f"Write {writes[0]} (b)"])


def explained(made: Handmade, loses: Loses, missing: int, *, acked_ns: int = 50) -> str:
    timeline = made.timeline(cut_at=CUT)
    space = StateSpace(timeline)
    history = OperationHistory(
        attempted=np.array([1, 2]), attempt_ns=np.array([5, acked_ns + 5]),
        acked=np.array([1]), ack_ns=np.array([acked_ns]),
    )  # fmt: skip
    recording: Any = SimpleNamespace(
        promises=SimpleNamespace(requirements=history),
        space=space, timeline=timeline, imported=False,
    )  # fmt: skip
    judge = FakeJudge(space, loses)
    volatile = space.volatile(CUT).tolist()
    assert missing in volatile
    witness = CrashState(CUT, tuple(one for one in volatile if one != missing))
    assert judge.judge(witness).lsns == {OPERATION}
    part = SimpleNamespace(what="a")
    lost: Any = SimpleNamespace(
        submitted_ns=int(timeline.requests.submitted_ns[missing]), parts=(part,), kind="write"
    )
    return later_step(recording, judge, witness, [lost], OPERATION)


def pointer(*, flushed: bool) -> Handmade:
    """Operation 1 is data (0) and what leads to it (1); the next one's are 2 and 3."""
    made = Handmade(disk_size=SIZE)
    made.write(0, bytes(512), at=10, done=15)
    made.write(4096, bytes(512), at=20, done=25)
    made.flush(at=30, done=40)
    made.write(8192, bytes(512), at=70, done=95)
    made.write(4096, bytes(512), at=80, done=85)
    if flushed:
        made.flush(at=90, done=100)
    return made


def numbers(made: Handmade) -> tuple[int, int]:
    """The next operation's data, and what leads to it: flushes are numbered, too."""
    offsets = made.timeline(cut_at=CUT).requests.offset.tolist()
    return offsets.index(8192), len(offsets) - 1 - offsets[::-1].index(4096)


def test_a_later_step_is_named_with_the_write_that_takes_it_away() -> None:
    made = pointer(flushed=False)
    data, leads = numbers(made)
    text = explained(made, lambda there: leads in there and data not in there, data)
    assert "It was there when it was acknowledged, and a later step takes it away" in text
    assert "what is missing (a) was sent" in text
    assert "after that ack while operation 2 was under way" in text
    assert f"Write {leads} (b) survived, and without it operation 1 would be there" in text


def test_so_is_one_whose_write_is_durable() -> None:
    made = pointer(flushed=True)
    data, leads = numbers(made)
    text = explained(made, lambda there: leads in there and data not in there, data)
    assert "a later step takes it away" in text
    assert "What took it away came after that ack, too, and is durable" in text


def test_an_ack_that_came_before_its_write_blames_no_later_step() -> None:
    made = Handmade(disk_size=SIZE)
    made.write(0, bytes(512), at=70, done=80)
    text = explained(made, lambda there: 0 not in there, 0)
    assert "It was not there when it was acknowledged, with all that had been issued" in text
    assert "later step" not in text


def test_what_was_written_before_its_ack_needs_no_such_words() -> None:
    made = Handmade(disk_size=SIZE)
    made.write(0, bytes(512), at=10, done=20)
    assert explained(made, lambda there: 0 not in there, 0) == ""


def test_several_that_take_it_away_together() -> None:
    made = Handmade(disk_size=SIZE)
    for number in range(3):
        made.write(4096 * number, bytes(512), at=70 + 10 * number, done=75 + 10 * number)
    text = explained(made, lambda there: bool(there & {1, 2}) and 0 not in there, 0)
    assert "No single write that survived has taken it away, but several together" in text
