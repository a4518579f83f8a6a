# SPDX-License-Identifier: Apache-2.0
"""Crash states: the disk images that the contract permits after a cut at one instant.

Of the writes issued before the cut, durable(t) is on the medium whole; the others are
*volatile*.  A crash state is a choice of:

1. survivors: any subset of the volatile writes;
2. tearing: of a survivor any of the atomic units that it touches (units of the disk,
   counted from its beginning); its other units never happened.  Durable writes are whole;
3. order: where survivors or durable writes overlap, an order that the device could have
   produced.  A write that completed before another was submitted comes first; writes
   that were in flight together have no order.  Every such order, and no other, comes
   from giving each write one point between its submission and its completion.
4. On a device that keeps order (the contract's `ordered`), the volatile writes that
   completed survive in the order of their completion: a prefix of them, the next one
   perhaps torn.  Those still in flight survive, in any combination, only if all of
   these did.  What a flush or FUA made durable earlier than its turn stays durable.

The weaker models that other tools use are subsets of these states:

5. `prefix`: whole writes in the order of their completion, up to some point that is not
   before the last durable one;
6. `epoch`: the same in the order in which dm-log-writes keeps them: by the flush that
   first covers a write, then by completion.  Writes in flight are in neither.

How many states are legal is counted by content: for each atomic unit the writes that
may be the last to show there, and the product of these numbers over all units, since
units are independent of each other (tearing, rule 2).  Equal bytes from different
writes count as different.  If writes begin or end within an atomic unit, its parts are
counted as if they were independent, which they are not: an upper bound.  On a device
that keeps order, choices are counted instead of contents.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from powercut.crash.applied import NO_REQUEST, AppliedWrite, Kept, applied_parts
from powercut.crash.arrays import expand, sorted_unique
from powercut.crash.layers import Layers
from powercut.crash.sets import DurabilitySets, durability_sets
from powercut.model.timeline import RequestKind, Timeline
from powercut.model.units import NEVER
from powercut.model.verdict import LsnRange

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_BLOCK_BITS = 8  # requests of which one number says until when some of them are volatile
_AT_ONCE: Final = 1 << 20  # pairs of an instant and a write


class Model(enum.Enum):
    """Which states count as legal."""

    PREFIX = "prefix"
    EPOCH = "epoch"
    EXACT = "exact"


@dataclass(frozen=True)
class Move:
    """`write` reaches the medium after `after`, which was submitted later, in flight with it."""

    write: int
    after: int


@dataclass(frozen=True)
class Again:
    """What cuts during recoveries have left over a crash state.

    `overlay` is what the recoveries had left on the medium by then, as (offset, bytes) in
    order.  `promised` was acknowledged before the last of the cuts, by a workload that had
    gone on, and `attempted` is the highest LSN that it attempted (0: it did not go on); of
    programs `tried` are the operations that they tried.
    """

    overlay: tuple[tuple[int, bytes], ...]
    promised: tuple[LsnRange, ...] = ()
    attempted: int = 0
    tried: tuple[LsnRange, ...] = ()


@dataclass(frozen=True)
class CrashState:
    """One disk after a cut at `instant`: durable(instant) and what `survivors` add.

    `survivors` are volatile writes, rising.  Of those that occur in `torn` only the
    ranges given there survived.  Writes reach the medium in the order of their
    submission but for `moves`.  `policy` says who thought of it.
    `again` is for a disk whose recovery was cut, too.
    """

    instant: int
    survivors: tuple[int, ...]
    torn: tuple[Kept, ...] = ()
    moves: tuple[Move, ...] = ()
    policy: str = ""
    again: Again | None = None

    @property
    def torn_parts(self) -> dict[int, list[Kept]]:
        """What is left of each torn write."""
        parts: dict[int, list[Kept]] = {}
        for kept in self.torn:
            parts.setdefault(kept.write, []).append(kept)
        return parts


class Requirements(Protocol):
    """What recovery must return after a cut at any instant: records, or a program's operations."""

    @property
    def ack_ns(self) -> I64:
        """The instants of all acks, rising."""

    def required(self, instant: int) -> LsnRange | None:
        """What was acknowledged before `instant`, by number; None if nothing was."""


class StateSpace:
    """All crash states of one recording."""

    def __init__(
        self,
        timeline: Timeline,
        claims: Requirements | None = None,
        sets: DurabilitySets | None = None,
    ) -> None:
        self.timeline = timeline
        self.claims = claims
        self.sets = sets or durability_sets(timeline)
        self.unit = timeline.contract.atomic_unit
        requests = timeline.requests
        self.begin = requests.offset
        self.end = requests.offset + requests.length
        self.completed_ns = np.where(requests.failed, np.int64(NEVER), requests.completed_ns)
        bounds = np.concatenate([self.begin[requests.is_write], self.end[requests.is_write]])
        bits = int(np.bitwise_or.reduce(bounds, initial=4096))
        written = self.sets.is_write
        self._issued_ns = np.sort(self.sets.submitted_ns[written])
        self._durable_ns = np.sort(self.sets.durable_ns[written])
        self._now: dict[str, tuple[tuple[int, int], I64]] = {}
        self._legal_log2: dict[tuple[int, int], float] = {}
        self._cell = bits & -bits  # every write covers a cell wholly or not at all

    # --- which writes -------------------------------------------------------------

    def required(self, instant: int) -> LsnRange | None:
        """The records that recovery must return after a cut at `instant`."""
        return self.claims.required(instant) if self.claims else None

    def durable(self, instant: int) -> I64:
        """Writes that are on the medium in every state of `instant`, rising; not to be changed."""
        return self._of_phase("durable", instant, self._durable)

    def volatile(self, instant: int) -> I64:
        """Writes that may be on the medium or not, rising; without those that cannot show.

        A volatile write cannot show where a durable one came after it.
        """
        return self._of_phase("volatile", instant, self._volatile)

    def phase(self, instant: int) -> tuple[int, int]:
        """How many writes are issued and durable.  Both only grow: equal counts are equal sets."""
        issued, durable = (
            self._issued_ns.searchsorted(instant),
            self._durable_ns.searchsorted(instant),
        )
        return int(issued), int(durable)

    def _of_phase(self, what: str, instant: int, find: Callable[[int], I64]) -> I64:
        """What `find` says; all policies ask, and many instants are of one phase."""
        phase = self.phase(instant)
        known = self._now.get(what)
        if known is None or known[0] != phase:
            known = self._now[what] = (phase, find(instant))
        return known[1]

    def _durable(self, instant: int) -> I64:
        return np.flatnonzero(self.sets.durable(instant) & (self.end > self.begin))

    def _volatile(self, instant: int) -> I64:
        outstanding = self._outstanding(instant)
        if not len(outstanding):
            return outstanding
        shown, _, _ = self._finals(instant, outstanding)
        return np.asarray(outstanding[np.isin(outstanding, shown)])

    def volatile_at(self, instants: I64) -> Iterator[tuple[I64, I64]]:
        """As `volatile`, for all `instants` (rising): the index of an instant, and one of the
        writes; a million of them or so at a time, an instant's together, in no order.
        """
        until_ns, _ = self._volatile_until
        writes = np.flatnonzero(until_ns >= 0)
        first = instants.searchsorted(self.sets.submitted_ns[writes], side="right")
        last = instants.searchsorted(until_ns[writes], side="right")
        writes, first, last = (rows[first < last] for rows in (writes, first, last))
        begun, ended = (np.bincount(rows, minlength=len(instants) + 1) for rows in (first, last))
        total = np.cumsum(np.cumsum(begun - ended))
        low = 0
        while low < len(instants):
            before = int(total[low - 1]) if low else 0
            high = max(low + 1, int(total[:-1].searchsorted(before + _AT_ONCE)))
            begin, end = np.clip(first, low, high), np.clip(last, low, high)
            owner, at = expand(begin, end - begin)
            shown = self._show(instants[at], writes[owner])
            yield at[shown], writes[owner][shown]
            low = high

    def _show(self, instants: I64, writes: I64) -> Mask:
        """Of outstanding `writes`, each at one of `instants`, which can show."""
        owner, place = self.layers.covered(writes)
        youngest = self.layers.youngest(place, instants[owner])
        shown = np.zeros(len(writes), dtype=np.bool_)
        shown[owner[self.sets.successor[writes[owner]] > youngest]] = True
        return shown

    def _outstanding(self, instant: int) -> I64:
        """Writes that are issued and not durable, rising, whether they can show or not."""
        until_ns, latest_ns = self._volatile_until
        issued = int(self.sets.submitted_ns.searchsorted(instant))
        size = 1 << _BLOCK_BITS
        blocks = np.flatnonzero(latest_ns[: -(-issued // size)] >= instant)
        some = (blocks[:, None] * size + np.arange(size)).reshape(-1)
        some = some[: int(some.searchsorted(issued))]
        return np.asarray(some[until_ns[some] >= instant])

    @cached_property
    def _volatile_until(self) -> tuple[I64, I64]:
        """Until when each request is volatile once it is issued, and the latest of each block."""
        changes = self.sets.is_write & (self.end > self.begin)
        until_ns = np.where(changes, self.sets.durable_ns, np.int64(-1))
        starts = np.arange(0, len(until_ns), 1 << _BLOCK_BITS)
        return until_ns, np.maximum.reduceat(until_ns, starts) if len(starts) else starts

    @cached_property
    def layers(self) -> Layers:
        """What is durable where."""
        writes = np.flatnonzero(self.sets.is_write & (self.end > self.begin))
        return Layers(self.begin, self.end, writes, self.sets.durable_ns)

    def races(self, instant: int) -> list[Move]:
        """Pairs of writes issued before `instant` that overlap and have no order, each as
        the order that is not theirs; without those that a durable write hides.
        """
        return [Move(*pair) for pair in self._races.at(instant)]

    @property
    def any_races(self) -> bool:
        """Whether any two writes of the recording may reach the medium in either order."""
        return bool(len(self._races.write))

    @cached_property
    def _races(self) -> Races:
        return Races(self.begin, self.end, self.sets, self.layers)

    @cached_property
    def units(self) -> I64:
        """How many atomic units each request touches."""
        return np.asarray((self.end - 1) // self.unit - self.begin // self.unit + 1)

    def touched_units(self, write: int) -> int:
        """How many atomic units `write` touches."""
        return int(self.units[write])

    def precedes(self, first: int, second: int) -> bool:
        """Whether `first` completed before `second` was submitted."""
        return bool(self.sets.successor[first] <= second)

    def in_completion_order(self, writes: I64) -> I64:
        """Those of `writes` that completed, in that order."""
        done = writes[self.completed_ns[writes] != NEVER]
        return np.asarray(done[np.argsort(self.completed_ns[done], kind="stable")])

    def in_epoch_order(self, writes: I64) -> I64:
        """The same by the first flush submitted after the completion, then by completion."""
        done = self.in_completion_order(writes)
        group = np.searchsorted(self._flush_submitted_ns, self.completed_ns[done], side="right")
        return np.asarray(done[np.argsort(group, kind="stable")])

    @cached_property
    def _flush_submitted_ns(self) -> I64:
        requests = self.timeline.requests
        return np.asarray(requests.submitted_ns[requests.kind == RequestKind.FLUSH])

    def legal(self, state: CrashState) -> CrashState:
        """`state`, with what has to be added for the contract to permit it: nothing, of a disk."""
        return state

    # --- how many -----------------------------------------------------------------

    def legal_log2(self, instant: int, model: Model = Model.EXACT) -> float:
        """Binary logarithm of the number of legal states of `instant`."""
        if model is not Model.EXACT:
            return math.log2(len(self.model_prefixes(instant, model)))
        phase = self.phase(instant)
        if phase not in self._legal_log2:
            self._legal_log2[phase] = self._exact_log2(instant)
        return self._legal_log2[phase]

    def _exact_log2(self, instant: int) -> float:
        if self.timeline.contract.ordered:
            return self._ordered_log2(instant)
        volatile = self.volatile(instant)
        racing = [write for move in self.races(instant) for write in (move.write, move.after)]
        involved = np.union1d(volatile, np.array(racing, dtype=np.int64))
        if not len(involved):
            return 0.0
        _, place, count = self._finals(instant, involved)
        bounds = self.layers.bounds
        cells = (bounds[place + 1] - bounds[place]) // self._cell
        return float((np.log2(count) * cells).sum()) * max(1, self._cell // self.unit)

    def _finals(self, instant: int, writes: I64) -> tuple[I64, I64, I64]:
        """Looks at all places of `writes`: which volatile ones may show in one of them; the
        places, and for each of these how many writes (or the base image) may.
        """
        owner, place = self.layers.covered(writes)
        places = sorted_unique(place)
        # The youngest durable write of a place follows whatever completed before it.
        youngest = self.layers.youngest(places, instant)
        count = 1 + self._races.beside(youngest, places, instant)  # it, or the base image
        rank, write = np.searchsorted(places, place), writes[owner]
        shows = self.sets.successor[write] > youngest[rank]
        shows &= self.sets.durable_ns[write] >= instant
        np.add.at(count, rank[shows], 1)
        return sorted_unique(write[shows]), places, count

    def _ordered_log2(self, instant: int) -> float:
        """Rule 4: prefixes, the write after a prefix torn, and after the last any of the rest."""
        volatile = self.volatile(instant)
        done = self.in_completion_order(volatile)
        flying = volatile[self.completed_ns[volatile] == NEVER]
        # Kept whole, or in one of 2^units - 2 ways torn: the latter are too many to sum as
        # integers only for writes of more than a thousand units.
        logs = [0.0]
        for write in done.tolist():
            units = self.touched_units(write)
            logs.append(units + math.log2(1 - 2.0**-units) if units > 1 else 0.0)
        torn = sum(self.touched_units(write) for write in flying.tolist())
        if torn:
            logs.append(torn + math.log2(1 - 2.0**-torn))
        most = max(logs)
        return most + math.log2(sum(2.0 ** (log - most) for log in logs))

    # --- states ---------------------------------------------------------------------

    def model_prefixes(self, instant: int, model: Model) -> list[tuple[int, ...]]:
        """Survivors of every state of a weaker model: shortest first."""
        issued = np.flatnonzero(self.sets.issued(instant) & (self.completed_ns < instant))
        order = self.in_completion_order(issued)
        if model is Model.EPOCH:
            order = self.in_epoch_order(issued)
        durable = self.sets.durable(instant)
        needed = np.flatnonzero(durable[order])
        shortest = int(needed[-1]) + 1 if len(needed) else 0
        shows = np.isin(order, self.volatile(instant))
        volatile = order[shows].tolist()
        skipped = int(shows[:shortest].sum())
        return [tuple(sorted(volatile[:n])) for n in range(skipped, len(volatile) + 1)]

    def application_order(self, state: CrashState) -> I64:
        """Every write of the state, durable ones included, as applied; not to be changed."""
        durable = self.durable(state.instant)
        if not state.survivors and not state.moves:
            return durable
        writes = np.union1d(durable, np.array(state.survivors, dtype=np.int64))
        if not state.moves:
            return writes
        point = {move.write: move.after for move in state.moves}
        # A write that moved stands behind the one it follows, among its like by age.
        return np.array(
            sorted(
                writes.tolist(), key=lambda write: (point.get(write, write), write in point, write)
            ),
            dtype=np.int64,
        )

    def image_writes(self, state: CrashState) -> list[AppliedWrite]:
        """What to lay over the base image, in order, to get the state's image."""
        torn = state.torn_parts
        applied = []
        for write in self.application_order(state).tolist():
            applied += applied_parts(self.timeline, write, torn.get(write))
        return applied + [
            AppliedWrite(NO_REQUEST, offset, len(data), np.frombuffer(data, dtype=np.uint8))
            for offset, data in (state.again.overlay if state.again else ())
        ]


# Overlapping writes that were in flight together: they may reach the medium in either order.

_FEW: Final = 64
_UNKNOWN: Final = -1


class Races:
    """Every two writes of a recording that race; rare in practice.

    `write` was submitted before `after`; both have an element for each race, and races are
    sorted by `write`, then by `after`.
    """

    def __init__(self, begin: I64, end: I64, sets: DurabilitySets, layers: Layers) -> None:
        self._begin, self._end = begin, end
        self._sets = sets
        self._layers = layers
        self.write, self.after = self._found()
        self._hidden_ns = np.full(len(self.write), _UNKNOWN, dtype=np.int64)
        self._by_after = np.argsort(self.after, kind="stable")

    def at(self, instant: int) -> list[tuple[int, int]]:
        """Those of writes issued before `instant`, without those that a durable write hides."""
        seen = np.flatnonzero(self._sets.submitted_ns[self.after] < instant)
        for race in seen[self._hidden_ns[seen] == _UNKNOWN].tolist():
            self._hidden_ns[race] = self._hidden_from_ns(race)
        seen = seen[self._hidden_ns[seen] >= instant]
        return list(zip(self.write[seen].tolist(), self.after[seen].tolist(), strict=True))

    def beside(self, youngest: I64, places: I64, instant: int) -> I64:
        """How many durable writes race with the `youngest` durable one of each of `places`."""
        count = np.zeros(len(places), dtype=np.int64)
        after = self.after[self._by_after]
        low, high = after.searchsorted(youngest), after.searchsorted(youngest, side="right")
        at, race = expand(low, high - low)
        if len(at):
            other = self.write[self._by_after[race]]
            begin, end = self._layers.bounds[places[at]], self._layers.bounds[places[at] + 1]
            covers = (self._begin[other] <= begin) & (end <= self._end[other])
            np.add.at(count, at[covers & (self._sets.durable_ns[other] < instant)], 1)
        return count

    def _hidden_from_ns(self, race: int) -> int:
        """From when on a durable write hides the bytes that both of a race write."""
        pair = [int(self.write[race]), int(self.after[race])]
        youngest = int(self._sets.successor[pair].max())
        if youngest >= len(self._begin):
            return int(NEVER)
        begin, end = int(self._begin[pair].max()), int(self._end[pair].min())
        since_ns = int(self._sets.submitted_ns[youngest])
        return self._layers.hidden_ns(begin, end, youngest, since_ns)

    def _found(self) -> tuple[I64, I64]:
        writes = np.flatnonzero(self._sets.is_write & (self._end > self._begin))
        ahead = np.searchsorted(writes, self._sets.successor[writes]) - np.arange(len(writes)) - 1
        found = [np.empty((2, 0), dtype=np.int64)]
        lag = 1
        while len(first := np.flatnonzero(ahead >= lag)):
            if len(first) <= _FEW:  # such as those that never completed: one by one
                for index in first.tolist():
                    later = writes[index + lag : index + 1 + int(ahead[index])]
                    found.append(self._overlaps(np.full(len(later), writes[index]), later))
                break
            found.append(self._overlaps(writes[first], writes[first + lag]))
            lag += 1
        write, after = np.concatenate(found, axis=1)
        order = np.lexsort((after, write))
        return write[order], after[order]

    def _overlaps(self, first: I64, second: I64) -> I64:
        some = (self._begin[first] < self._end[second]) & (self._begin[second] < self._end[first])
        return np.stack([first[some], second[some]])
