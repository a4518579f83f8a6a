# SPDX-License-Identifier: Apache-2.0
"""Crash states that only the lack of one promise makes legal.  Pure.

The disk ignores one promise (crash/audit.py) and keeps its contract otherwise.  Its states are
those of crash/states.py with the durability of the writes that *hang* on the promise delayed:
while they are volatile any subset of them may survive, each torn at the atomic unit, beside any
subset of what is volatile anyway.  A state that lacks a part of one of them is legal on no disk
that keeps the promise.

1. The instants are those between the completion of the promise and the one from which the writes
   are durable anyway: acks first, the last one before the others, since most is promised then;
   then the completions of other promises, for an order between two writes can be what the promise
   is there for; then the end of that time.  Of instants with the same durable and the same issued
   writes only the last counts.
2. At each of them, all that hangs on the promise is missing: with everything else there, with
   nothing else, with a drawn half of the rest.  A journal of undo records is missed only where a
   part of what it undoes was written.
3. Then a part of it is missing, and the rest of it there: what is missing may be what would have
   told that something is missing, such as a record with a checksum over itself that leads to data
   elsewhere.  Parts are: all writes of one kind; each write alone, and all but each, where they
   are few; drawn ones.  Each is missing from everything and from nothing else; then with drawn
   ones of the rest.  And one write is torn.
4. On a device that keeps order, states that this order forbids are left out.

What comes first is likely to show most; later instants begin a few states after the earlier ones.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from powercut.crash.evidence import last_event_ns
from powercut.crash.explore import InstantKind, events
from powercut.crash.legality import why_illegal
from powercut.crash.policies import tears
from powercut.crash.states import CrashState, StateSpace
from powercut_extras.audit.promise_worth import Dependence, delayed

I64 = npt.NDArray[np.int64]

_INSTANTS: Final = 4
"""Instants of acks, and of other promises, at which one promise is looked at, at most."""

_FEW: Final = 8
"""Writes of which each is missing alone; of more so many are drawn."""

_DRAWN: Final = 4
"""Parts that are drawn, at each instant."""

_TORN: Final = 4
"""Writes that are torn, at each instant."""

_LATER: Final = 3
"""States of an instant that come before the next one's first."""


@dataclass(frozen=True)
class Lacking:
    """A crash state that lacks something of what hangs on a promise.

    `missing` are those writes, rising: whole, or in part where `state.torn` says so.  `in_part`:
    some of what hangs on the promise is there.
    """

    state: CrashState
    missing: tuple[int, ...]
    in_part: bool


class StatesWithout:
    """The states of the module, promise by promise.

    `kind_of` names what a write holds.
    """

    def __init__(
        self, space: StateSpace, hang: Dependence, kind_of: Callable[[int], str], seed: int
    ) -> None:
        self._real = space
        self._hang = hang
        self._kind_of = kind_of
        self._seed = seed
        self._events = [
            events(space, kinds)
            for kinds in ([InstantKind.ACK], [InstantKind.FLUSH, InstantKind.FUA])
        ]
        self.space = lru_cache(maxsize=16)(self._space)

    def _space(self, promise: int) -> StateSpace:
        """The crash states of a disk that ignores `promise`."""
        real, hang = self._real, self._hang
        late = hang.hangs & (hang.promise == promise)
        return StateSpace(real.timeline, real.claims, delayed(real.sets, hang, late))

    def instants(self, promise: int) -> list[int]:
        """The instants at which something that hangs on `promise` may be missing, by rule 1."""
        hanging = self._hang.hanging(promise)
        begin = int(self._hang.durable_ns[hanging].min())
        until = int(self._hang.without_ns[hanging].max())
        until = min(until, last_event_ns(self._real.timeline) + 1)
        space, phases, chosen = self.space(promise), set[tuple[int, int]](), list[int]()
        for all_of in (*self._events, np.array([until])):
            within = all_of[(all_of > begin) & (all_of <= until)][::-1]
            left = _INSTANTS
            for instant in within.tolist():
                if (phase := space.phase(instant)) not in phases and left:
                    phases.add(phase)
                    chosen.append(instant)
                    left -= 1
        return chosen

    def states(self, promise: int) -> list[Lacking]:
        """The states without `promise`, distinct, in the order of the module."""
        space = self.space(promise)
        ranked = [
            (place + _LATER * number, number, one)
            for number, instant in enumerate(self.instants(promise))
            for place, one in enumerate(self._at(space, promise, instant))
        ]
        return [one for _, _, one in sorted(ranked, key=lambda item: item[:2])]

    def _at(self, space: StateSpace, promise: int, instant: int) -> Iterator[Lacking]:
        volatile = space.volatile(instant)
        hanging = np.intersect1d(self._hang.hanging(promise), volatile)
        rest = np.setdiff1d(volatile, hanging)
        draw = random.Random(f"{self._seed}/{promise}/{instant}")
        seen = set()
        for lacking in (
            *_without_all(instant, hanging, rest, draw),
            *self._without_parts(instant, hanging, rest, draw),
            *_torn(space, instant, hanging, draw),
        ):
            what = (lacking.state.survivors, lacking.state.torn)
            if what not in seen and lacking.missing and not why_illegal(space, lacking.state):
                seen.add(what)
                yield lacking

    def _without_parts(
        self, instant: int, hanging: I64, rest: I64, draw: random.Random
    ) -> Iterator[Lacking]:
        parts = self._parts(hanging.tolist(), draw)
        for policy, others in (("all-but-part", rest), ("hanging-but-part", rest[:0])):
            for part in parts:
                yield _lacking(instant, hanging, part, others, policy)
        for part in parts[:_DRAWN]:
            some = [write for write in rest.tolist() if draw.random() < 0.5]
            yield _lacking(instant, hanging, part, some, "drawn-but-part")

    def _parts(self, hanging: list[int], draw: random.Random) -> list[tuple[int, ...]]:
        """Parts of `hanging`, by rule 3; neither all of it nor nothing."""
        kinds: dict[str, list[int]] = {}
        for write in hanging:
            kinds.setdefault(self._kind_of(write), []).append(write)
        alone = hanging if len(hanging) <= _FEW else sorted(draw.sample(hanging, _FEW))
        parts = [tuple(kind) for kind in kinds.values()]
        parts += [(write,) for write in alone]
        parts += [tuple(other for other in hanging if other != write) for write in alone]
        for _ in range(_DRAWN):
            parts.append(tuple(write for write in hanging if draw.random() < 0.5))
        return [part for part in dict.fromkeys(parts) if 0 < len(part) < len(hanging)]


def with_hanging(hang: Dependence, promise: int, state: CrashState) -> CrashState:
    """`state` with all that hangs on `promise`: a state of the disk that keeps it."""
    hanging = hang.hanging(promise)
    survivors = np.union1d(np.array(state.survivors, dtype=np.int64), hanging)
    whole = set(hanging.tolist())
    torn = tuple(kept for kept in state.torn if kept.write not in whole)
    return replace(state, survivors=tuple(survivors.tolist()), torn=torn)


def _lacking(
    instant: int, hanging: I64, missing: Sequence[int], others: Sequence[int] | I64, policy: str
) -> Lacking:
    there = np.setdiff1d(hanging, np.array(missing, dtype=np.int64))
    survivors = np.union1d(there, np.array(others, dtype=np.int64))
    state = CrashState(instant, tuple(survivors.tolist()), policy=policy)
    return Lacking(state, tuple(missing), in_part=len(missing) < len(hanging))


def _without_all(instant: int, hanging: I64, rest: I64, draw: random.Random) -> Iterator[Lacking]:
    """Rule 2."""
    missing = hanging.tolist()
    half = draw.sample(rest.tolist(), len(rest) // 2)
    yield _lacking(instant, hanging, missing, rest, "all-but-hanging")
    yield _lacking(instant, hanging, missing, (), "durable-only")
    yield _lacking(instant, hanging, missing, half, "half-but-hanging")


def _torn(space: StateSpace, instant: int, hanging: I64, draw: random.Random) -> Iterator[Lacking]:
    """The states in which one write that hangs on the promise is there in part."""
    whole = tuple(space.volatile(instant).tolist())
    long = [write for write in hanging.tolist() if space.touched_units(write) > 1]
    for write in long if len(long) <= _TORN else sorted(draw.sample(long, _TORN)):
        for torn in tears(space, write, draw):
            state = CrashState(instant, whole, torn, policy="torn-hanging")
            yield Lacking(state, (write,), in_part=True)
