# SPDX-License-Identifier: Apache-2.0
"""Where the crash states of an exploration lie: when the power was cut, and how much they lack.

It is bounded, however many states there were.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from powercut.store.record import Record

COLUMNS: Final = 120
"""Of equal width, from the first instant to the last."""

TENTHS: Final = 10
ROWS: Final = TENTHS + 2
"""0: nothing is missing; 1 to 10: up to so many tenths of the writes that were not durable, but not
all; 11: all of them."""


class MapField(Record):
    """The states of one column and row."""

    column: Annotated[int, Field(ge=0, lt=COLUMNS)]
    row: Annotated[int, Field(ge=0, lt=ROWS)]
    states: int

    lossy: int = 0
    """In how many of them something was lost, borne out by the recorded kernel or not."""

    undecided: int = 0
    """How many could not be judged."""


class StateMap(Record):
    """All states that were checked of the recording itself, without those of recoveries."""

    begin: int
    """The first instant, in nanoseconds on the clock of the recording."""

    end: int

    fields: Annotated[tuple[MapField, ...], Field(max_length=COLUMNS * ROWS)]
    """Those with states, by column and row."""
