# SPDX-License-Identifier: Apache-2.0
"""The base of what is stored as JSON, and how it is read."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from powercut.model.errors import DamagedRecording

Model = TypeVar("Model", bound=BaseModel)


class Record(BaseModel):
    """A part of a stored document: immutable, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


def read_model(path: Path, model: type[Model]) -> Model:
    """The document at `path`.  Raises DamagedRecording, with the place of the first mistake."""
    try:
        return model.model_validate_json(path.read_bytes())
    except OSError as error:
        raise DamagedRecording(f"{path}: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise DamagedRecording(f"{path}: {place or 'file'}: {first['msg']}") from error


def find_model(path: Path, model: type[Model]) -> Model | None:
    """As `read_model`; None if there is no such file."""
    try:
        return read_model(path, model)
    except DamagedRecording as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise
