# SPDX-License-Identifier: Apache-2.0
"""Durations and sizes as people write them.

A duration always carries its unit ("300ms"); a bare number would be read as seconds
by one reader and as milliseconds by the next, so only 0 may stand alone.  A size may
be a bare number of bytes.  Both are integers once loaded, and written back they give
the same integer again.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_NUMBER: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-zµ]*)\s*")

DURATION_UNITS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
}

SIZE_UNITS: Final = {
    "": 1,
    "B": 1,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}


def _split(value: str, units: dict[str, int], example: str) -> int:
    match = _NUMBER.fullmatch(value)
    if match is None or match[2] not in units:
        known = ", ".join(unit for unit in units if unit)
        raise ValueError(f'write a number and a unit ({known}), such as "{example}"')
    exact = Fraction(match[1]) * units[match[2]]
    if exact.denominator != 1:
        raise ValueError("too fine: it is not a whole number of the smallest unit")
    return int(exact)


def parse_duration(value: Any) -> int:
    """Nanoseconds in `value`, such as "300ms"; ValueError if it is no duration."""
    if isinstance(value, str):
        return _split(value, DURATION_UNITS, "300ms")
    if value == 0 and isinstance(value, int) and not isinstance(value, bool):
        return 0
    raise ValueError('a duration needs its unit, such as "300ms"')


def format_duration(nanoseconds: int) -> str:
    """`nanoseconds` in the largest unit that divides them; `parse_duration` undoes it."""
    for unit in ("s", "ms", "us", "ns"):
        if nanoseconds % DURATION_UNITS[unit] == 0:
            return f"{nanoseconds // DURATION_UNITS[unit]}{unit}"
    raise AssertionError("every integer is a whole number of nanoseconds")


def parse_size(value: Any) -> int:
    """Bytes in `value`, such as "64 MiB" or 4096; ValueError if it is no size."""
    if isinstance(value, str):
        return _split(value, SIZE_UNITS, "64 MiB")
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise ValueError('a size is a number of bytes or carries a unit, such as "64 MiB"')


def format_size(size: int) -> str:
    """`size` (bytes) in the largest binary unit that divides it; `parse_size` undoes it."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size and size % SIZE_UNITS[unit] == 0:
            return f"{size // SIZE_UNITS[unit]} {unit}"
    return f"{size} B"


Duration = Annotated[
    int,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*(ns|us|µs|ms|s|min|h)\s*$"},
                {"const": 0},
            ],
        }
    ),
]
"""Nanoseconds; in YAML a number with its unit."""

Size = Annotated[
    int,
    BeforeValidator(parse_size),
    PlainSerializer(format_size, return_type=str, when_used="json"),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*(B|KiB|MiB|GiB|TiB)?\s*$"},
                {"type": "integer", "minimum": 0},
            ],
        }
    ),
]
"""Bytes; in YAML a number of bytes or a number with a binary unit."""
