# SPDX-License-Identifier: Apache-2.0
"""Whether a state lacks anything: against its image, byte by byte."""

from __future__ import annotations

import random

import pytest
from handmade import Handmade

from powercut.crash.states import Again, CrashState, StateSpace
from powercut.crash.whole import lacks_nothing

PAGE = 512
PAGES = 6


def page(number: int) -> bytes:
    return bytes([number]) * PAGE


def test_what_was_overwritten_or_discarded_is_not_missing() -> None:
    made = Handmade(1 << 20)
    old = made.write(0, page(1), at=1, done=2)
    new = made.write(0, page(2), at=3, done=4)
    gone = made.write(PAGE, page(3), at=5, done=6)
    discard = made.discard(PAGE, PAGE, at=7, done=8)
    last = made.write(2 * PAGE, page(4), at=9, done=10)
    space = StateSpace(made.timeline())
    assert lacks_nothing(space, CrashState(20, (old, new, gone, discard, last)), 20)
    assert lacks_nothing(space, CrashState(20, (new, last)), 20)
    assert lacks_nothing(space, CrashState(20, (new, gone, last)), 20), "without the discard"
    assert not lacks_nothing(space, CrashState(20, (old, last)), 20), "an older generation"
    assert not lacks_nothing(space, CrashState(20, (new, gone, discard)), 20)
    assert lacks_nothing(space, CrashState(9, (new,)), 9), "of its own instant"
    assert not lacks_nothing(space, CrashState(9, (new,)), 20), "of a later one"
    again = CrashState(20, (new, last), again=Again(()))
    assert not lacks_nothing(space, again, 20), "a recovery has been over it"


@pytest.mark.parametrize("seed", range(40))
def test_it_is_what_the_image_says(seed: int) -> None:
    """Of disks that were filled before, so that each byte comes from a write."""
    rng = random.Random(seed)
    made = Handmade(PAGES * PAGE)
    now = 0
    for at in range(PAGES):
        made.write(at * PAGE, page(0xFF), at=now + 1, done=now + 2)
        now += 2
    made.flush(at=now + 1, done=now + 2)
    for _ in range(8):
        now += 3
        at, length = rng.randrange(PAGES), rng.randint(1, 2)
        data = page(rng.randint(1, 3)) * min(length, PAGES - at)
        made.write(at * PAGE, data, at=now, done=now + rng.randint(1, 9))
    space = StateSpace(made.timeline())
    end = now + 20
    volatile = space.volatile(end).tolist()
    whole = image(space, CrashState(end, tuple(volatile)))
    for _ in range(30):
        some = tuple(one for one in volatile if rng.random() < 0.8)
        moves = tuple(one for one in space.races(end) if rng.random() < 0.3)
        state = CrashState(end, some, moves=moves)
        assert lacks_nothing(space, state, end) == (image(space, state) == whole)


def image(space: StateSpace, state: CrashState) -> bytes:
    disk = bytearray(PAGES * PAGE)
    for part in space.image_writes(state):
        assert part.data is not None
        disk[part.offset : part.offset + part.length] = part.data.tobytes()
    return bytes(disk)
