# SPDX-License-Identifier: Apache-2.0
"""What all settings are made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StrictInt

from powercut.documented import Documented
from powercut.scenario.choices import Writeback


class Settings(Documented):
    """Base of all groups: immutable, and unknown keys are errors."""


class OfWorkload(Settings):
    """Base of every workload's settings: all of them write through a kernel's page cache."""

    writeback: Writeback = Writeback.PRESSED
    """When the recorded kernel writes back what no sync asked for: `pressed`, early and at seeded
    instants in part of the run, as a kernel at work does it at any time; or `usual`, as it does by
    itself: in a short run never, so that an order of writes which is the kernel's to choose is not
    tested.  No flush comes of it.  Beside a `program` a neighbour on its file systems commits, too,
    in part of a `pressed` run: it syncs a file of its own that has no name, as others and the
    file system's timers do at work; under `usual` nobody else commits.  Of a machine that is there
    already (`foreign`) and of a loop device the kernel is left alone."""


Count = Annotated[StrictInt, Field(ge=0)]
Positive = Annotated[StrictInt, Field(ge=1)]


def is_printable(value: str) -> str:
    """`value`; ValueError if it holds control characters, which no option or argument has."""
    if not value.isprintable():
        raise ValueError("control characters mean nothing here")
    return value
