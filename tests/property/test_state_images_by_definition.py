# SPDX-License-Identifier: Apache-2.0
"""What an engine's disk holds for a crash state, against the definition: every write in order."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from handmade import Handmade

from powercut.crash import states
from powercut.crash.applied import Kept
from powercut.crash.sets import durability_sets
from powercut.crash.states import Again, CrashState, Move, StateSpace
from powercut.explore.state_images import AnswerCache, StateImages
from powercut.model.contract import DeviceContract
from powercut.model.units import NEVER
from powercut.recover.port import ImageWrite
from powercut.recover.uml.origin import PAGE, Origin

PAGES = 40
SIZE = PAGES * PAGE


def recording(draw: random.Random, grain: int, *, unit: int = 512, keeps: bool = True):
    """Some 60 requests at multiples of `grain`; several are in flight at a time."""
    made = Handmade(SIZE, DeviceContract(atomic_unit=unit, volatile_cache=keeps))
    hot = [draw.randrange(SIZE // grain) for _ in range(6)]
    now = 1
    for _ in range(draw.randrange(1, 70)):
        now += draw.randrange(1, 4)
        done = now + draw.randrange(1, 12) if draw.random() < 0.9 else NEVER
        if draw.random() < 0.1:
            made.flush(at=now, done=done)
            continue
        most = SIZE // grain
        length = draw.choice([1, 1, 2, 8, 8, 9, 17, most // 3, most])
        first = min(draw.choice([*hot, draw.randrange(most)]), most - length)
        kind = draw.random()
        if kind < 0.1:
            made.zero(first * grain, length * grain, at=now, done=done)
        elif kind < 0.2:
            made.discard(first * grain, length * grain, at=now, done=done)
        else:
            fua = draw.random() < 0.2
            made.write(first * grain, draw.randbytes(length * grain), at=now, done=done, fua=fua)
    return made.timeline(), now + 15


def state_of(space: StateSpace, instant: int, draw: random.Random) -> CrashState:
    """Any subset, some torn, some moved, and now and then one that no contract permits."""
    lawless = draw.random() < 0.1
    issued = space.sets.issued(instant) if lawless else np.zeros(len(space.begin), dtype=bool)
    issued[space.volatile(instant)] = True
    share = draw.random()
    survivors = [one for one in np.flatnonzero(issued).tolist() if draw.random() < share]
    torn = []
    for write in draw.sample(survivors, min(len(survivors), draw.randrange(3))):
        begin, end = int(space.begin[write]), int(space.end[write])
        cuts = sorted(draw.randrange(begin, end + 1) // space.unit * space.unit for _ in range(4))
        torn += [Kept(write, cuts[0], cuts[1]), Kept(write, cuts[2], cuts[3])]
    races = space.races(instant)
    chosen = draw.sample(races, min(len(races), draw.randrange(3)))
    moves = {move.write: move for move in chosen}
    if lawless and len(space.begin) > 1:
        wild = draw.sample(range(len(space.begin)), 2)
        moves[wild[0]] = Move(*wild)
    again = Again(((draw.randrange(SIZE - 600), draw.randbytes(600)),))
    return CrashState(
        instant,
        tuple(survivors),
        tuple(torn),
        tuple(moves.values()),
        again=again if draw.random() < 0.1 else None,
    )


def laid(base: bytes, writes) -> bytes:
    disk = bytearray(base)
    for write in writes:
        data = bytes(write.length) if write.data is None else write.data.tobytes()
        disk[write.offset : write.offset + write.length] = data
    return bytes(disk)


@pytest.fixture
def base(tmp_path):
    """An image with a hole in its middle."""
    path = tmp_path / "base"
    content = np.random.default_rng(7).integers(0, 256, SIZE, dtype=np.uint8)
    content[9 * PAGE : 30 * PAGE] = 0
    path.write_bytes(content.tobytes())
    return path


def follow(base, seed: int, grain: int, **promised) -> None:
    """State after state, of two recordings and two promises, on one disk; each is compared."""
    draw = random.Random(f"{seed}/{grain}")
    worlds = []
    for _ in range(2):
        timeline, end = recording(draw, grain, **promised)
        sets = durability_sets(timeline)
        later = np.where(
            np.random.default_rng(seed).random(len(sets.durable_ns)) < 0.2, NEVER, sets.durable_ns
        )
        own = StateSpace(timeline)
        other = StateSpace(timeline, sets=replace(sets, durable_ns=later))
        worlds.append((own, other, StateImages(own), end))
    content = base.read_bytes()
    origin = Origin(base)
    cache = AnswerCache(base)
    guest = np.frombuffer(content, dtype=np.uint8).reshape(-1, PAGE).copy()
    disks = {}
    own, other, images, end = worlds[0]
    for turn in range(60):
        if draw.random() < 0.1:
            own, other, images, end = draw.choice(worlds)
        instant = draw.choice([draw.randrange(end), draw.randrange(end), NEVER])
        space = draw.choice([own, own, own, other])
        state = state_of(space, instant, draw)
        expected = laid(content, space.image_writes(state))
        writes = images.writes(state, space)
        if draw.random() < 0.1:  # a recovery's writes over it
            more = [ImageWrite(PAGE + 512, PAGE, np.full(PAGE, turn, dtype=np.uint8))]
            writes, expected = writes.under(more), laid(expected, more)
        if draw.random() < 0.3:
            assert laid(content, writes) == expected
        if draw.random() < 0.1:
            writes = list(writes)
        changed = origin.advance(writes)
        before = guest.copy()
        guest[changed] = origin.content(changed)
        assert guest.tobytes() == expected, (seed, turn, state)
        assert (guest != before).any(axis=1).sum() == len(changed), "a page was sent in vain"
        assert set(np.flatnonzero((guest != 0).any(axis=1))) <= set(origin.filled())
        cache.advance(writes)
        assert disks.setdefault(cache.disk, expected) == expected
    assert len(set(disks.values())) == len(disks), "one disk has two names"


@pytest.mark.parametrize("grain", [512, 4096, 1])
@pytest.mark.parametrize("seed", range(12))
def test_each_state_is_what_its_writes_make_of_the_base_image(base, seed, grain):
    follow(base, seed, grain)


@pytest.mark.parametrize("seed", range(6))
def test_so_it_is_on_other_contracts(base, seed):
    follow(base, seed, 1024, unit=4096)
    follow(base, seed, 512, keeps=False)


@pytest.mark.parametrize("seed", range(30))
def test_what_is_volatile_and_hidden_is_as_by_definition(seed, monkeypatch):
    monkeypatch.setattr(states, "_BLOCK_BITS", 2)  # of long recordings there are many blocks
    draw = random.Random(seed)
    timeline, end = recording(draw, draw.choice([1, 512, 4096]))
    space = StateSpace(timeline)
    sets = space.sets
    for instant in [*range(0, end, 2), NEVER]:
        durable = [one for one in range(len(space.begin)) if sets.durable(instant)[one]]
        races = [
            (one, two)
            for one in np.flatnonzero(sets.issued(instant)).tolist()
            for two in np.flatnonzero(sets.issued(instant)).tolist()
            if one < two < sets.successor[one]
            and (begin := max(space.begin[one], space.begin[two]))
            < (until := min(space.end[one], space.end[two]))
            and not any(
                space.begin[third] <= begin
                and until <= space.end[third]
                and third >= max(sets.successor[one], sets.successor[two])
                for third in durable
            )
        ]
        assert [(move.write, move.after) for move in space.races(instant)] == races
        shows = set()
        for one in np.flatnonzero(sets.issued(instant) & ~sets.durable(instant)).tolist():
            covered = np.zeros(SIZE, dtype=bool)
            for third in durable:
                if third >= sets.successor[one]:
                    covered[space.begin[third] : space.end[third]] = True
            if not covered[space.begin[one] : space.end[one]].all():
                shows.add(one)
        assert set(space.volatile(instant).tolist()) == shows
