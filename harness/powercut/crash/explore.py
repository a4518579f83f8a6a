# SPDX-License-Identifier: Apache-2.0
"""Draws distinct crash states of a recording, instant by instant, and counts honestly.

Two states are the same if they have the same content and the same requirements: then
recovery and checker cannot tell them apart.  The content is known by what makes it: the
writes that survive, how they are torn, and what was moved.  A write that another
survivor hides completely is no part of it.  The fingerprint is the exclusive or of one
random number of 128 bits for each of these, so that the durable writes of all instants
need one pass.

Coverage says, besides what was drawn, what was not: the instants chosen out of all at
which the set of legal states changes, and how many states are legal at the chosen ones.
"""

from __future__ import annotations

import enum
import hashlib
import random
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

import numpy as np
import numpy.typing as npt

from powercut.crash.arrays import sorted_unique
from powercut.crash.legality import why_illegal
from powercut.crash.policies import POLICIES
from powercut.crash.states import CrashState, Model, StateSpace
from powercut.model.confidence import AcksLookedAt, log2_sum
from powercut.model.errors import UsageError
from powercut.model.timeline import RequestKind
from powercut.model.units import NEVER

I64 = npt.NDArray[np.int64]

_ENDLESS = frozenset({"random-subsets"})
"""Policies that draw states without end."""

_BLOCK = 16  # instants that stay together when they are shuffled


class InstantKind(enum.Enum):
    """After which events the power is cut."""

    FLUSH = "flush"
    FUA = "fua"
    ACK = "ack"
    COMPLETION = "completion"
    SUBMISSION = "submission"


def events(space: StateSpace, kinds: Sequence[InstantKind]) -> I64:
    """The instants just after every event of `kinds`, rising, without repetition.

    Nothing changes between two events, so these are all instants there are.
    """
    requests = space.timeline.requests
    flush = requests.kind == RequestKind.FLUSH
    instants_of_kinds = [np.empty(0, dtype=np.int64)]
    for kind in kinds:
        match kind:
            case InstantKind.FLUSH:
                instants_of_kinds.append(space.completed_ns[flush])
            case InstantKind.FUA:
                instants_of_kinds.append(space.completed_ns[requests.fua & ~flush])
            case InstantKind.COMPLETION:
                instants_of_kinds.append(space.completed_ns)
            case InstantKind.SUBMISSION:
                instants_of_kinds.append(requests.submitted_ns)
            case InstantKind.ACK if space.claims is not None:
                instants_of_kinds.append(space.claims.ack_ns)
    instants = np.concatenate(instants_of_kinds)
    instants = instants[instants < _end_ns(space)] + 1
    return sorted_unique(instants)


def in_blocks(instants: I64, seed: int) -> I64:
    """Neighbours stay together, so that states differ little; blocks come in random order."""
    blocks = [instants[at : at + _BLOCK] for at in range(0, len(instants), _BLOCK)]
    order = np.random.default_rng(seed).permutation(len(blocks))
    return np.concatenate([blocks[i] for i in order]) if blocks else instants


def sample(instants: I64, count: int, seed: int) -> I64:
    """`count` of `instants`, drawn from `seed`; all if there are fewer."""
    if len(instants) <= count:
        return instants
    return np.sort(np.random.default_rng(seed).choice(instants, count, replace=False))


def _end_ns(space: StateSpace) -> int:
    """Nothing after the power was gone is a state of this recording."""
    return int(NEVER) if space.timeline.cut is None else int(space.timeline.cut.at)


@dataclass(frozen=True)
class GroupCoverage:
    """Of `all` groups of like states (powercut.crash.representatives) `seen` had a state drawn;
    they are those of `stages` stages."""

    seen: int
    all: int
    stages: int


@dataclass(frozen=True)
class Coverage:
    """What was drawn, and out of how much.

    `legal_log2` is the binary logarithm of the number of legal states summed over the
    instants looked at (states legal at several instants count at each);
    `instants_all` is how many instants there are at which the legal states differ.
    `exhausted` says that every policy that ends came to its end at every instant.
    `groups` is for a selection by groups, `acks` for one that looks at acks first.
    """

    model: Model
    instants: int
    instants_all: int
    legal_log2: float
    distinct: int
    duplicates: int
    by_policy: dict[str, int]
    exhausted: bool
    groups: GroupCoverage | None = None
    acks: AcksLookedAt | None = None

    @property
    def text(self) -> str:
        """For a person."""
        return (
            f"{self.distinct} distinct states of 2^{self.legal_log2:.1f} legal ones "
            f"({self.model.value} model) at {self.instants} of {self.instants_all} instants; "
            f"{self.duplicates} repetitions were not counted"
        )


@dataclass
class Exploration:
    """An iterator over distinct states; ask `coverage` at any time.

    `policies` are names; `per_policy` bounds what one policy draws at one instant, and
    `limit` all states together.  Everything random comes from `seed`.  `swept` are the
    policies that have drawn at least one state of every instant.

    Raises `UsageError` for a policy that does not exist.
    """

    space: StateSpace
    instants: I64
    policies: Sequence[str] = tuple(POLICIES)
    model: Model = Model.EXACT
    seed: int = 0
    per_policy: int = 64
    limit: int | None = None
    _seen: set[tuple[int, int, int]] = field(default_factory=set)
    _drawn: Counter[str] = field(default_factory=Counter)
    _duplicates: int = 0
    _looked_at: dict[int, float] = field(default_factory=dict)
    _legal_log2: dict[int, float] = field(default_factory=dict)
    _ended: set[tuple[str, int]] = field(default_factory=set)
    _full: bool = False
    _whole_rounds: int = 0
    swept: frozenset[str] = field(default=frozenset(), init=False)
    _all_acks: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        for name in self.policies:
            if name not in POLICIES:
                raise UsageError(
                    f"there is no policy {name!r}", hint="choose from " + ", ".join(POLICIES)
                )
        self._prints = _Fingerprints(self.space, self.seed)

    @property
    def saw_all_acks(self) -> bool:
        """Whether the state of nothing but what is durable was drawn just after every ack.

        Supposing that acks are among the kinds of `instants`.
        """
        return self._all_acks or "durable-only" in self.swept

    def __iter__(self) -> Iterator[CrashState]:
        done = 0
        while done < self.per_policy:
            # A few states of every instant first, then more: whatever bounds them all, be it
            # `limit` or time, then leaves out some of every instant and not the last instants.
            share = min(self.per_policy, 4 * done or 1)
            names = tuple(self.policies)
            for group in (
                [names] if done or self.model is not Model.EXACT else [names[:1], names[1:]]
            ):
                for instant in self.instants.tolist():
                    if not self.swept:
                        self._looked_at[instant] = self._legal(instant)
                    yield from self._visit(instant, group, done, share)
                    if self._full:
                        return
                self.swept = self.swept | frozenset(group)
            done = share
            self._whole_rounds += 1

    def _visit(
        self, instant: int, names: Sequence[str], done: int, share: int
    ) -> Iterator[CrashState]:
        """What is new among the states that each policy draws from number `done` to `share`."""
        for state in self._draw(instant, names, done, share):
            if self._take(state):
                yield state
            elif self._full:
                return

    def _take(self, state: CrashState) -> bool:
        """Counts it, if it is a new one and the limit is not reached."""
        required = self.space.required(state.instant)
        asked = (required.first, required.last) if required else (0, 0)
        key = (self._prints.of(state), *asked)
        if key in self._seen:
            self._duplicates += 1
            return False
        if self.limit is not None and len(self._seen) >= self.limit:
            self._full = True
            return False
        self._seen.add(key)
        self._drawn[state.policy] += 1
        return True

    def _draw(
        self,
        instant: int,
        names: Sequence[str] | None = None,
        done: int = 0,
        share: int | None = None,
    ) -> Iterator[CrashState]:
        names = self.policies if names is None else names
        share = self.per_policy if share is None else share
        if self.model is not Model.EXACT:
            prefixes = self.space.model_prefixes(instant, self.model) if not done else []
            for survivors in prefixes:
                yield CrashState(instant, survivors, policy=self.model.value)
            return
        ordered = self.space.timeline.contract.ordered
        for name in names:
            if (name, instant) in self._ended:
                continue
            # Each policy and instant has its own generator: none disturbs another.
            draw = random.Random(f"{self.seed}/{name}/{instant}")
            drawn = POLICIES[name](self.space, instant, draw)
            for state in islice(drawn, done, share):
                if not ordered or not why_illegal(self.space, state):
                    yield state
            if name in _ENDLESS:
                # What is drawn blindly repeats itself long before it has met with all.
                ended = share > 2.0 ** min(self._legal(instant) + 1, 62)
            else:
                ended = next(drawn, None) is None
            if ended:
                self._ended.add((name, instant))

    def _legal(self, instant: int) -> float:
        if instant not in self._legal_log2:
            self._legal_log2[instant] = self.space.legal_log2(instant, self.model)
        return self._legal_log2[instant]

    def coverage(self) -> Coverage:
        return Coverage(
            model=self.model,
            instants=len(self._looked_at),
            instants_all=len(events(self.space, list(InstantKind))),
            legal_log2=log2_sum(list(self._looked_at.values())),
            distinct=len(self._seen),
            duplicates=self._duplicates,
            by_policy=dict(self._drawn),
            exhausted=self._whole_rounds > 0
            and not self._full
            and not any(
                (name, instant) not in self._ended
                for name in self.policies
                for instant in self.instants.tolist()
                if name not in _ENDLESS and self.model is Model.EXACT
            ),
        )


class _Fingerprints:
    """One number of 128 bits per content, in two halves."""

    def __init__(self, space: StateSpace, seed: int) -> None:
        self.space = space
        self.seed = seed
        self._durable_ns = np.sort(space.sets.durable_ns)

    @cached_property
    def _numbers(self) -> npt.NDArray[np.uint64]:
        drawn = random.Random(f"{self.seed}/write").randbytes(16 * len(self._durable_ns))
        return np.frombuffer(drawn, dtype=np.uint64).reshape(-1, 2)

    @cached_property
    def _durable(self) -> npt.NDArray[np.uint64]:
        """What the first writes that become durable come to, for each number of them."""
        order = np.argsort(self.space.sets.durable_ns, kind="stable")
        beginnings = np.bitwise_xor.accumulate(self._numbers[order], axis=0)
        return np.concatenate([np.zeros((1, 2), dtype=np.uint64), beginnings])

    def of(self, state: CrashState) -> int:
        durable = int(np.searchsorted(self._durable_ns, state.instant, side="left"))
        torn = {kept.write for kept in state.torn}
        shown = [write for write in _visible(self.space, state) if write not in torn]
        content = np.bitwise_xor.reduce(self._numbers[shown], axis=0) ^ self._durable[durable]
        result = int.from_bytes(content.tobytes())
        for kept in state.torn:
            result ^= self._number("torn", kept.write, kept.begin, kept.end)
        for move in state.moves:
            result ^= self._number("move", move.write, move.after)
        return result

    def _number(self, *what: object) -> int:
        digest = hashlib.blake2b(repr((self.seed, *what)).encode(), digest_size=16)
        return int.from_bytes(digest.digest())


def _visible(space: StateSpace, state: CrashState) -> list[int]:
    """The survivors that are not hidden whole by one that was submitted later.

    Also of a state with moves: a write only moves back, so that what hides another does so still,
    and a write that moved out from below survives wherever the same move is.
    """
    torn = {kept.write for kept in state.torn}
    visible: list[int] = []
    # Stretches that hide, none within another: so both columns rise.
    lows: list[int] = []
    highs: list[int] = []
    survivors = np.array(state.survivors, dtype=np.int64)
    begins, ends = space.begin[survivors].tolist(), space.end[survivors].tolist()
    for write, begin, end in zip(
        reversed(state.survivors), reversed(begins), reversed(ends), strict=True
    ):
        at = bisect_right(lows, begin)
        hidden = at > 0 and highs[at - 1] >= end
        if write in torn or not hidden:
            visible.append(write)
        if write not in torn and not hidden:
            first = bisect_left(lows, begin)
            last = bisect_right(highs, end)
            lows[first:last], highs[first:last] = [begin], [end]
    return visible
