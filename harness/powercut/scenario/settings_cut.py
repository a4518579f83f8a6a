# SPDX-License-Identifier: Apache-2.0
"""The settings of the power cut, and of what is looked at besides it."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema

from powercut.model.contract import CutKind, CutPolicy
from powercut.scenario.choices import ExploreEngine, ExploreModel, ExplorePolicy
from powercut.scenario.quantity import Duration, format_duration
from powercut.scenario.settings_base import Positive, Settings


def _is_interval(value: tuple[int, int]) -> tuple[int, int]:
    if value[0] > value[1]:
        raise ValueError("the first moment comes after the second")
    return value


class TriggerSettings(Settings):
    """When the power goes: exactly one of these.  Times count from the moment when the workload
    has opened its log."""

    after: Duration | None = None
    """A time after the workload began."""

    acks: Positive | None = None
    """As soon as the record with this LSN is acknowledged."""

    flushes: Positive | None = None
    """When this flush, counted from the power-on, is submitted, before it acts.  It is in flight
    at the cut."""

    random: Annotated[tuple[Duration, Duration], AfterValidator(_is_interval)] | None = None
    """A moment between two times after the workload began, drawn from the trial's seed."""

    moving: Annotated[tuple[Duration, Duration], AfterValidator(_is_interval)] | None = None
    """A moment between two times after the last move or restart of `machine.during` began, drawn
    from the trial's seed: in the midst of it, if it takes as long."""

    def given(self) -> dict[str, Any]:
        """What was set."""
        return {key: value for key, value in self if value is not None}

    def __str__(self) -> str:
        if self.after is not None:
            return f"after {format_duration(self.after)}"
        if self.acks is not None:
            return f"once {self.acks} commits are acknowledged"
        if self.flushes is not None:
            return f"at flush {self.flushes}"
        first, last = self.random or self.moving or (0, 0)
        began = "" if self.moving is None else " after the last move or restart began"
        between = f"{format_duration(first)} and {format_duration(last)}"
        return f"at a random moment between {between}{began}"


def _is_one(value: TriggerSettings) -> TriggerSettings:
    if len(value.given()) != 1:
        raise ValueError("give exactly one of after, acks, flushes, random, moving")
    return value


class CutSettings(Settings):
    """The power cut."""

    kind: CutKind = CutKind.POWER_LOSS
    """What is lost: the guest's RAM (`guest-crash`), the hypervisor as well (`vm-kill`), the
    volatile caches below it as well (`power-loss`).  In a power loss the disk stops first, at one
    of the 32 requests after the trigger, between two or in the midst of one, as the seed says:
    what it has taken by then and not completed is in flight at the cut."""

    policy: CutPolicy = CutPolicy.DROP
    """What a power loss leaves of the disk's volatile cache and of the writes in flight: nothing
    (`drop`), all (`keep`), each write by chance, maybe torn (`random`), or the earliest by chance
    (`prefix`).  The other kinds leave it alone: `keep`."""

    trigger: Annotated[TriggerSettings, AfterValidator(_is_one)] = TriggerSettings(acks=300)
    """When."""


_BUDGET: Final = "^(auto|off|([1-9][0-9]*,)?[1-9][0-9]*(s|min|h)|[1-9][0-9]*)$"


def _is_budget(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return str(value)
    if isinstance(value, str) and re.fullmatch(_BUDGET, value):
        return value
    raise ValueError("write auto, off, a number of states, a time such as 60s, or both: 320,90s")


class ExploreSettings(Settings):
    """The crash states that are recovered after each cut, besides the one that it left: what a
    SAFE on a file system or an image format rests on.  Of few states half hold nothing but what is
    durable just after an ack, one of each sort of operation and others at random; the rest are
    of all kinds."""

    budget: Annotated[
        str,
        PlainValidator(_is_budget),
        WithJsonSchema({"type": ["string", "integer"], "pattern": _BUDGET}),
    ] = "auto"
    """How many states are recovered (`10000`), or for how long (`60s`), or both (`320,90s`: time
    ends nothing before there are 32).  `auto` is 64 states,
    after which the workload goes on by 16 records, or 320 of a program, where the cut itself has
    not lost anything yet.  `off` is for none: then nothing but a raw log can be SAFE."""

    model: ExploreModel = ExploreModel.EXACT
    """Which states count as legal: all that the disk's contract permits (`exact`), those of
    dm-log-writes (`epoch`), or those in the order of completion (`prefix`)."""

    policies: tuple[ExplorePolicy, ...] = tuple(ExplorePolicy)
    """Who draws states; by default everybody."""

    engine: ExploreEngine = ExploreEngine.AUTO
    """What recovers them: `raw` for a log on the device itself, `uml` or `guest` for others;
    `auto` takes the fastest that can."""

    after: Annotated[int, Field(ge=0, le=10_000)] = 0
    """After each recovery the workload goes on by so many records, and all that was acknowledged
    before and after must be there after a clean unmount, or after a second cut; 0 for not at
    all, but for budget `auto` and on an image format, where it means 16.  Needs a file system or
    an image format.  A program's `run` is started again, and killed once it has acknowledged so
    many operations."""

    depth: Annotated[int, Field(ge=0, le=8)] = 0
    """How many cuts may follow the first, each during the recovery from the one before.  Needs a
    file system."""
