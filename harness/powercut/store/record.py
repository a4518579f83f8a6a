# SPDX-License-Identifier: Apache-2.0
"""The base of what is stored as JSON."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """A part of a stored document: immutable, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
