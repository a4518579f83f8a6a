# SPDX-License-Identifier: Apache-2.0
"""What all settings are made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictInt


class Settings(BaseModel):
    """Base of all groups: immutable, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


Count = Annotated[StrictInt, Field(ge=0)]
Positive = Annotated[StrictInt, Field(ge=1)]


def is_printable(value: str) -> str:
    """`value`; ValueError if it holds control characters, which no option or argument has."""
    if not value.isprintable():
        raise ValueError("control characters mean nothing here")
    return value
