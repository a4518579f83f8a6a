# SPDX-License-Identifier: Apache-2.0
"""A plan: what a scenario expands to once its root seed is known.  Nothing here acts."""

from __future__ import annotations

import enum
import hashlib
import secrets
from dataclasses import dataclass
from typing import Final

from powercut.scenario.quantity import format_duration
from powercut.scenario.settings import Expect, Parameters, TriggerSettings

STOP_WITHIN: Final = 32
"""The disk stops at one of so many requests after the trigger."""


class TriggerKind(enum.Enum):
    """What a trial waits for before it cuts."""

    AFTER = "after"
    ACKS = "acks"
    FLUSHES = "flushes"
    MOVING = "moving"


@dataclass(frozen=True)
class Trigger:
    """When one trial cuts, with nothing left to chance.

    `value` is for AFTER nanoseconds from when the workload has opened its log, for ACKS an
    LSN, for FLUSHES a number of flushes from power-on, and for MOVING nanoseconds from when the
    guest's last move began.
    """

    kind: TriggerKind
    value: int

    def __str__(self) -> str:
        match self.kind:
            case TriggerKind.AFTER:
                return f"after {format_duration(self.value)}"
            case TriggerKind.ACKS:
                return f"once {self.value} commits are acknowledged"
            case TriggerKind.FLUSHES:
                return f"at flush {self.value}"
            case TriggerKind.MOVING:
                return f"{format_duration(self.value)} after the last move or restart began"


@dataclass(frozen=True)
class DiskStop:
    """How the disk stops for a power loss: the first to notice that the power goes.

    `completions` more requests complete.  With `taking` the disk keeps taking requests until
    the hypervisor is gone, and the cut finds them in flight; else it stops between two requests.
    """

    completions: int
    taking: bool


@dataclass(frozen=True)
class Trial:
    """One seeded run of a cell; `number` counts from 1."""

    number: int
    seed: int
    cut_seed: int
    trigger: Trigger

    @property
    def disk_stop(self) -> DiskStop:
        """Where between two requests, or in one, the disk stops: `cut_seed` decides.

        A commit takes up to about ten requests, so that a few commits' worth of them reaches
        each of their kinds.  A quarter of the cuts fall between requests.
        """
        drawn = derive_seed(self.cut_seed, "disk stop", self.number)
        return DiskStop(completions=drawn % STOP_WITHIN, taking=drawn // STOP_WITHIN % 4 != 0)


@dataclass(frozen=True)
class Cell:
    """One combination of settings, and the trials to make of it.

    `overrides` are the settings in which it differs from the scenario, as written.
    """

    name: str
    parameters: Parameters
    trials: tuple[Trial, ...]
    overrides: tuple[tuple[str, object], ...] = ()
    description: str = ""

    @property
    def expect(self) -> Expect:
        """The verdict that the cell should get."""
        return self.parameters.expect


@dataclass(frozen=True)
class Plan:
    """All that a run of a scenario will do."""

    scenario: str
    description: str
    seed: int
    cells: tuple[Cell, ...]

    @property
    def trials(self) -> int:
        """How many trials there are, without controls."""
        return sum(len(cell.trials) for cell in self.cells)


def draw_trigger(settings: TriggerSettings, seed: int) -> Trigger:
    """The trigger of one trial; `seed` decides where the settings leave it to chance."""
    if interval := settings.random or settings.moving:
        first, last = interval
        # Microseconds: finer than the cut can be placed, and readable.
        drawn = draw_between(seed, first // 1000, last // 1000) * 1000
        return Trigger(TriggerKind.AFTER if settings.random else TriggerKind.MOVING, drawn)
    ((name, value),) = settings.given().items()
    return Trigger(TriggerKind(name), value)


def draw_trials(root: int, cell: str, parameters: Parameters, count: int) -> tuple[Trial, ...]:
    """The first `count` trials of a cell."""
    return tuple(
        Trial(
            number=number,
            seed=derive_seed(root, cell, number),
            cut_seed=derive_seed(root, cell, number, "cut"),
            trigger=draw_trigger(
                parameters.cut.trigger, derive_seed(root, cell, number, "trigger")
            ),
        )
        for number in range(1, count + 1)
    )


# Every random choice comes from one printed root seed.
#
# The seed of a choice is the first eight bytes, big-endian and without the top bit, of
#
#     SHA-256("powercut/1" NUL root NUL cell NUL trial NUL purpose)
#
# with the numbers in decimal and the text in UTF-8.  So a trial can be repeated by
# itself, and adding a cell or a trial changes no other.


def derive_seed(root: int, cell: str, trial: int, purpose: str = "") -> int:
    """The seed, 0 to 2**63 - 1, of one choice in trial number `trial` of `cell`."""
    text = "\0".join(("powercut/1", str(root), cell, str(trial), purpose))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def fresh_seed() -> int:
    """A random root seed; short enough to be typed."""
    return secrets.randbelow(10**9)


def draw_between(seed: int, first: int, last: int) -> int:
    """A whole number from `first` to `last`, both included."""
    return first + seed % (last - first + 1)
