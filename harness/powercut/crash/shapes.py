# SPDX-License-Identifier: Apache-2.0
"""Which kinds of writes a crash state lacks: its shape; and how to make one of a shape.

| shape | states |
| --- | --- |
| nothing | nothing but what is durable |
| everything | every volatile write survives |
| without K, without K and L | all volatile writes but those of kind K (and L) |
| without family | the same of a family of kinds: all contents, all names, all of one file |
| only K, only K and L, only family | those, and no other |
| dropping one K | all but the first (middle, last) of several of kind K |
| keeping one K | only the first (middle, last) of several of kind K |
| up to K | in the order of completion, up to the first (last) of kind K |
| from K on | what follows, from the first (last) of kind K on |
| torn K | one of kind K in part, alone, with all others, or with what completed before it |
| reordered | two overlapping writes in the order that is not theirs |
| mixed | any other subset |

Which shapes a stage has follows from the kinds that are outstanding, without any state being made.
"""

from __future__ import annotations

import enum
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from powercut.crash.applied import Kept
from powercut.crash.kinds import Kind
from powercut.crash.stages import Stage
from powercut.crash.states import CrashState, StateSpace

POLICY: Final = "representatives"

_PAIRS_MAX: Final = 8
_TORN_MAX: Final = 24
_MIDDLE_MIN: Final = 3


class Form(enum.Enum):
    """What is missing, in relation to the kinds of a shape."""

    NOTHING = "nothing"
    EVERYTHING = "everything"
    WITHOUT = "without"
    ONLY = "only"
    DROPPING = "dropping one"
    KEEPING = "keeping one"
    UP_TO = "up to"
    FROM = "from"
    TORN = "torn"
    REORDERED = "reordered"
    MIXED = "mixed"


class Place(enum.Enum):
    """Which one of several writes of a kind, or which part of a torn one."""

    FIRST = "first"
    MIDDLE = "middle"
    LAST = "last"
    ANY = ""


class Company(enum.Enum):
    """What survives with a torn write."""

    ALONE = "alone"
    ALL = "with all others"
    BEFORE = "with what completed before it"


Pair = tuple[str, Kind, Kind | None]
"""A kind that is missing, and one that is there; of other shapes what they are about."""


@dataclass(frozen=True)
class Shape:
    """A form, the kinds that it is about, and which of their writes."""

    form: Form
    kinds: frozenset[Kind] = frozenset()
    place: Place = Place.ANY
    company: Company = Company.ALL

    def pairs(self, stage: Stage) -> frozenset[Pair]:
        """What states of this shape show: which kind is missing while which other is there.

        What has become durable in this stage is there, too.  Just after an ack each kind that is
        missing counts separately, and where nothing survives after each event.  A state that lacks
        several kinds may hide what the lack of one does, so nothing, all but one kind and one kind
        alone are counted apart, and other shapes for what they are about alone.
        """
        outstanding = frozenset(kind for kind, _ in stage.outstanding)
        one_kind = len(self.kinds) == 1
        what = self.form.value
        match self.form:
            case Form.NOTHING:
                lacks, keeps = outstanding, stage.durable
            case Form.WITHOUT if one_kind:
                lacks, keeps = self.kinds, (outstanding - self.kinds) | stage.durable
            case Form.ONLY if one_kind:
                lacks, keeps = outstanding - self.kinds, self.kinds
            case _:
                what = f"{what} {self.place.value}"
                return frozenset((what, kind, None) for kind in self.kinds or outstanding)
        pairs: set[Pair] = {(what, one, other) for one in lacks for other in keeps}
        if self.form is Form.NOTHING:
            pairs |= {(f"{what} after {stage.event}", one, None) for one in lacks}
        if stage.after_ack:
            pairs |= {(what, one, None) for one in lacks}
        return frozenset(pairs)


def shapes_of(stage: Stage, units: dict[Kind, int], *, races: bool) -> Iterator[Shape]:
    """All shapes of a stage.  `units` says how many atomic units a write of a kind touches at most;
    with `races` overlapping writes may have been in flight together.
    """
    yield Shape(Form.NOTHING)
    counts = dict(stage.outstanding)
    if not counts:
        return
    yield Shape(Form.EVERYTHING)
    sets = _sets(counts)
    for members in sets:
        yield Shape(Form.WITHOUT, members)
        yield Shape(Form.ONLY, members)
    for kind, count in counts.items():
        alone = frozenset({kind})
        for place in (Place.FIRST, Place.LAST) if count > 1 else ():
            yield Shape(Form.DROPPING, alone, place)
            yield Shape(Form.KEEPING, alone, place)
        if count > 2:
            yield Shape(Form.DROPPING, alone, Place.MIDDLE)
        if len(counts) > 1 or count > 2:
            for place in (Place.FIRST, Place.LAST) if count > 1 else (Place.LAST,):
                yield Shape(Form.UP_TO, alone, place)
                yield Shape(Form.FROM, alone, place)
    torn = [kind for kind in counts if units[kind] > 1][:_TORN_MAX]
    for kind in torn:
        parts = (Place.FIRST, Place.LAST) if units[kind] == 2 else tuple(Place)[:3]
        for part in parts:
            for company in Company if len(counts) > 1 or counts[kind] > 1 else (Company.ALL,):
                yield Shape(Form.TORN, frozenset({kind}), part, company)
    if races:
        yield Shape(Form.REORDERED)
        yield Shape(Form.REORDERED, company=Company.ALONE)
    if sum(counts.values()) > 2:
        yield Shape(Form.MIXED)


def _sets(counts: dict[Kind, int]) -> list[frozenset[Kind]]:
    """Kinds, families and pairs of kinds, each set once, without the set of all."""
    kinds = list(counts)
    families: dict[str, set[Kind]] = defaultdict(set)
    for kind in kinds:
        for family in kind.families:
            families[family].add(kind)
    sets = [frozenset({kind}) for kind in kinds]
    sets += [frozenset(members) for members in families.values()]
    if len(kinds) <= _PAIRS_MAX:
        sets += [frozenset({a, b}) for at, a in enumerate(kinds) for b in kinds[at + 1 :]]
    return [one for one in dict.fromkeys(sets) if len(one) < len(kinds)]


class ShapeMaker:
    """Makes states of shapes."""

    def __init__(self, space: StateSpace, kinds: Sequence[Kind]) -> None:
        self._space = space
        self._kinds = kinds

    def make(self, shape: Shape, instant: int, draw: random.Random, nth: int) -> CrashState | None:
        """One of a shape at an instant, another for another `nth`; None if there is none."""
        space = self._space
        volatile: list[int] = space.volatile(instant).tolist()
        chosen = [write for write in volatile if self._kinds[write] in shape.kinds]
        if shape.kinds and not chosen:
            return None
        match shape.form:
            case Form.TORN:
                return self._torn(shape, instant, chosen, draw, nth)
            case Form.REORDERED:
                return self._reordered(shape, instant, volatile, nth)
        kept = self._kept(shape, volatile, chosen, draw, nth)
        if kept is None:
            return None
        return CrashState(instant, tuple(sorted(kept)), policy=POLICY)

    def _kept(
        self, shape: Shape, volatile: list[int], chosen: list[int], draw: random.Random, nth: int
    ) -> list[int] | None:
        """The survivors; None if the shape has none here."""
        match shape.form:
            case Form.NOTHING:
                kept: list[int] | None = []
            case Form.EVERYTHING:
                kept = volatile
            case Form.WITHOUT | Form.DROPPING:
                one = [_pick(chosen, shape.place, draw, nth)]
                gone = set(chosen if shape.form is Form.WITHOUT else one)
                kept = [write for write in volatile if write not in gone]
            case Form.ONLY:
                kept = chosen
            case Form.KEEPING:
                kept = [_pick(chosen, shape.place, draw, nth)]
            case Form.UP_TO | Form.FROM:
                kept = self._beginning(shape, volatile, chosen, nth)
            case _:
                bias = draw.random()
                kept = [write for write in volatile if draw.random() < bias]
        return kept

    def _beginning(
        self, shape: Shape, volatile: list[int], chosen: list[int], nth: int
    ) -> list[int] | None:
        """What completed up to the chosen write, or from it on; what never completed comes last."""
        done: list[int] = self._space.in_completion_order(np.array(volatile, np.int64)).tolist()
        order = done + sorted(set(volatile) - set(done))
        of_kind = [write for write in order if write in set(chosen)]
        at = of_kind[min(nth, len(of_kind) - 1)]
        if shape.place is Place.LAST:
            at = of_kind[max(-1 - nth, -len(of_kind))]
        if shape.form is Form.FROM:
            return order[order.index(at) :]
        return order[: order.index(at) + 1] if at in done else None

    def _torn(
        self, shape: Shape, instant: int, chosen: list[int], draw: random.Random, nth: int
    ) -> CrashState | None:
        space = self._space
        large = [write for write in chosen if space.touched_units(write) > 1]
        if not large:
            return None
        write = _pick(large, Place.LAST, draw, nth)
        torn = _tear(space, write, shape.place, draw)
        if torn is None:
            return None
        volatile = space.volatile(instant)
        others: list[int] = volatile.tolist() if shape.company is Company.ALL else []
        if shape.company is Company.BEFORE:
            done: list[int] = space.in_completion_order(volatile).tolist()
            others = done[: done.index(write)] if write in done else done
        survivors = tuple(sorted({*others, write}))
        return CrashState(instant, survivors, torn, policy=POLICY)

    def _reordered(
        self, shape: Shape, instant: int, volatile: list[int], nth: int
    ) -> CrashState | None:
        races = self._space.races(instant)
        if not races:
            return None
        move = races[nth % len(races)]
        pair = {move.write, move.after}
        kept = [one for one in volatile if shape.company is Company.ALL or one in pair]
        return CrashState(instant, tuple(kept), moves=(move,), policy=POLICY)


def _pick(writes: list[int], place: Place, draw: random.Random, nth: int) -> int:
    if nth or place is Place.ANY:
        return draw.choice(writes)
    at = {Place.FIRST: 0, Place.MIDDLE: len(writes) // 2, Place.LAST: -1}[place]
    return writes[at]


def _tear(
    space: StateSpace, write: int, part: Place, draw: random.Random
) -> tuple[Kept, ...] | None:
    """The first part of a write, the last one, or one from the middle or all but that."""
    count = space.touched_units(write)
    unit, begin, end = space.unit, int(space.begin[write]), int(space.end[write])
    first = begin // unit
    if part is not Place.MIDDLE:
        cut = (first + draw.randint(1, count - 1)) * unit
        return (Kept(write, begin, cut),) if part is Place.FIRST else (Kept(write, cut, end),)
    if count < _MIDDLE_MIN:
        return None
    low, high = sorted(draw.sample(range(1, count), 2))
    inner = (first + low) * unit, (first + high) * unit
    if draw.random() < 0.5:
        return (Kept(write, *inner),)
    return (Kept(write, begin, inner[0]), Kept(write, inner[1], end))
