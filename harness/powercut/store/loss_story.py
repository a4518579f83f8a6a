# SPDX-License-Identifier: Apache-2.0
"""How one acknowledged record was lost, as the judge of its trial stored it."""

from __future__ import annotations

from typing import Final, Literal

from powercut.store.record import Record

Lane = Literal["workload", "write", "flush", "power"]
Sign = Literal["begin", "end", "point", "ack", "cut", "gone", "note"]

LANES: Final[tuple[Lane, ...]] = ("workload", "write", "flush", "power")
"""Who speaks in a story, from the top down."""


class LossStep(Record):
    """One event: when, in which lane, and in words."""

    at_ns: int | None
    """Nanoseconds of the recording's clock; null for what has no instant of its own."""

    lane: Lane
    """Who speaks."""

    sign: Sign
    """`begin` and `end` of a request that was in flight between them, an instant, or, with `gone`,
    what is missing afterwards."""

    text: str
    """In words."""


class LossStory(Record):
    """How the record or operation `lsn` was lost."""

    lsn: int
    """Which record."""

    start_ns: int
    """When the story begins, on the recording's clock."""

    steps: tuple[LossStep, ...]
    """What happened, in order."""

    unit: Literal["record", "operation"] = "record"
    """What `lsn` numbers."""
