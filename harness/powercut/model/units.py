# SPDX-License-Identifier: Apache-2.0
"""Distinct types for numbers that must not be mixed up."""

from typing import Final, NewType

Instant = NewType("Instant", int)
"""Nanoseconds of the host's CLOCK_MONOTONIC: the one clock of a recording."""

NEVER: Final = Instant(2**63 - 1)
"""The instant of what did not happen: a request that never completed."""

BEGINNING: Final = Instant(0)
"""The instant before everything, where no better bound is known."""

SECTOR: Final = 512
"""Bytes in a sector."""


def count(number: int, noun: str) -> str:
    """`number` with thousands apart, and `noun` in its number."""
    plural = "es" if noun.endswith("sh") else "s"
    return f"{number:,} {noun}{'' if number == 1 else plural}"


def milliseconds(value: float) -> str:
    """A time in milliseconds, in a unit that reads well."""
    if value >= 10_000:
        return f"{value / 1000:.0f} s"
    if value >= 1000:
        return f"{value / 1000:.1f} s"
    if value < 0.01:
        return "under 0.01 ms"
    return f"{value:.0f} ms" if value >= 10 else f"{value:.2g} ms"
