# SPDX-License-Identifier: Apache-2.0
"""What is to be explored, within which bounds, and how far it has come."""

from __future__ import annotations

import enum
import math
import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from powercut.crash.explore import InstantKind
from powercut.crash.order import ALL_POLICIES, check_policies
from powercut.crash.states import CrashState, Model
from powercut.model.errors import UsageError
from powercut.model.versions import HOST

ENGINES: Final = ("auto", "raw", "uml", "guest")
PER_POLICY: Final = 1024
"""States that one policy draws at one instant at most."""


PER_RECOVERY: Final = 32
"""States that are checked of each recovery on record, if second cuts are wanted."""

RECOVERIES_MAX: Final = 4096
"""States that are kept so that their recoveries may be put on record."""


class Prune(enum.Enum):
    """Which states are decided by an earlier one instead of by an engine."""

    BYTES = "bytes"  # those with the same bytes on the whole disk
    READS = "reads"  # also those with the same bytes wherever the earlier recovery read
    NOTHING = "nothing"


@dataclass(frozen=True)
class Budget:
    """How many states may be checked, and for how long (seconds); None for no such bound.  Where
    both are, time ends nothing before a SAFE has its `STATES_MIN`.

    `first` of the states are for the recording itself, if that is known: of an earlier
    exploration that time had bounded, or since no second cuts are wanted; `first_share` decides
    otherwise.
    """

    states: int | None = None
    seconds: float | None = None
    first: int | None = None
    whole: bool = False
    """Nothing of it is left where a loss is certain, as else of one with both bounds."""

    @staticmethod
    def parse(text: str) -> Budget:
        """`10000` (states), `90s`, `5m` or `1h`, or both: `320,90s`.  Raises UsageError."""
        count, both, time = text.partition(",")
        if (
            both
            and (states := Budget.parse(count)).states
            and (for_s := Budget.parse(time).seconds)
        ):
            return Budget(states.states, for_s)
        amount = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|min|h|)", text.strip())
        number = float(amount.group(1)) if amount else 0.0
        if not amount or not number or (not amount.group(2) and not number.is_integer()):
            raise UsageError(
                f"budget {text!r}: neither a number of states nor a time",
                hint="for example 10000, 60s, 5m, or both: 320,90s",
            )
        if not amount.group(2):
            return Budget(states=int(number))
        return Budget(seconds=number * {"s": 1, "m": 60, "min": 60, "h": 3600}[amount.group(2)])

    @property
    def doubled(self) -> Budget:
        """As much again."""
        return Budget(
            None if self.states is None else 2 * self.states,
            None if self.seconds is None else 2 * self.seconds,
        )

    def first_share(self, *, after: int, depth: int) -> Budget:
        """What is for states of the recording itself; the rest is for states of recoveries."""
        if self.first is not None:
            return Budget(self.first, self.seconds)
        share = 0.5 if depth else 0.9 if after else 1.0
        return Budget(
            None if self.states is None else max(1, int(self.states * share)),
            None if self.seconds is None else self.seconds * share,
        )

    def __str__(self) -> str:
        states = [] if self.states is None else [str(self.states)]
        return (
            ",".join(states + ([] if self.seconds is None else [f"{self.seconds:g}s"]))
            or "no bound"
        )


@dataclass(frozen=True)
class ExploreProgress:
    """How far an exploration has come; `rate_s` is states per second."""

    states: int
    lossy_states: int
    seconds: float
    budget: Budget
    doing: str

    @property
    def rate_s(self) -> float:
        """States per second so far."""
        return self.states / self.seconds if self.seconds > 0 else 0.0

    @property
    def left_s(self) -> float:
        """Seconds until the budget is used up at this pace; infinite if nobody knows."""
        states, seconds = self.budget.states, self.budget.seconds
        by_states = (states - self.states) / self.rate_s if states and self.states else math.inf
        return max(0.0, min(by_states, math.inf if seconds is None else seconds - self.seconds))


Listener = Callable[[ExploreProgress], None]


@dataclass(frozen=True)
class ExploreRequest:
    """What is to be explored, checked for sense.

    `after` is the number of records by which the workload goes on after each recovery, 0
    for not at all.  `depth` says how many cuts may follow each other: 1 for a cut during the
    recovery from the first, 2 for one during the recovery from that.  `named` are states
    that are looked at whatever the budget, unless they are drawn: then once.  `kernel` is the
    User-Mode Linux that recovers: the host's, or that of a Debian suite.  `atomic_unit` (bytes)
    stands in for what the recorded disk promises not to tear, in its first cut.
    """

    model: Model = Model.EXACT
    policies: tuple[str, ...] = ALL_POLICIES
    at: tuple[InstantKind, ...] = tuple(InstantKind)
    budget: Budget = Budget(states=10_000)
    engine: str = "auto"
    jobs: int = 1
    seed: int = 0
    prune: Prune = Prune.BYTES
    confirm: bool = True
    per_policy: int = PER_POLICY
    after: int = 0
    depth: int = 0
    named: tuple[CrashState, ...] = ()
    kernel: str = HOST
    atomic_unit: int | None = None

    def __post_init__(self) -> None:
        check_policies(self.policies)
        if self.engine not in ENGINES:
            raise UsageError(
                f"there is no engine {self.engine!r}", hint="choose from " + ", ".join(ENGINES)
            )


class Undrawn:
    """States that were named and are not yet drawn, whoever thought of them."""

    def __init__(self, named: Iterable[CrashState]) -> None:
        self._left = {_nameless(state): state for state in named}

    def meet(self, state: CrashState) -> None:
        """It was drawn."""
        if self._left:
            self._left.pop(_nameless(state), None)

    def at(self, instant: int) -> tuple[CrashState, ...]:
        """Those of that instant which are left."""
        return tuple(state for state in self._left.values() if state.instant == instant)

    def rest(self) -> tuple[CrashState, ...]:
        """Those that are left, in the order in which they were named."""
        return tuple(self._left.values())


def _nameless(state: CrashState) -> CrashState:
    return replace(state, policy="")


class Reservoir:
    """So many of the states that are offered, all with the same chance (algorithm R)."""

    def __init__(self, seed: int, size: int) -> None:
        self._draw = random.Random(f"{seed}/recoveries")
        self._size = size
        self._offered = 0
        self._kept: list[CrashState] = []
        self._disks: set[bytes] = set()

    def drawn(self) -> list[CrashState]:
        """Those that were kept, in random order: any number from the beginning is as good."""
        return self._draw.sample(self._kept, len(self._kept))

    def offer(self, state: CrashState, disk: bytes = b"") -> None:
        """Takes it, perhaps; not if one with the same `disk`, a digest, was offered before.

        Whether an earlier state has decided it says nothing here: that depends on who was
        asked for which states.
        """
        if disk and disk in self._disks:
            return
        self._disks.add(disk)
        self._offered += 1
        if len(self._kept) < self._size:
            self._kept.append(state)
            return
        at = self._draw.randrange(self._offered)
        if at < self._size:
            self._kept[at] = state
