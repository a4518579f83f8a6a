# SPDX-License-Identifier: Apache-2.0
"""The base of what is stored as JSON, and how it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from powercut.model.errors import DamagedRecording

Model = TypeVar("Model", bound=BaseModel)


class Record(BaseModel):
    """A part of a stored document: immutable, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


def without_none(value: dict[str, Any], *keys: str) -> dict[str, Any]:
    """A serialised document without those of `keys` that say nothing, which older ones lack."""
    return {key: told for key, told in value.items() if told is not None or key not in keys}


def read_model(path: Path, model: type[Model]) -> Model:
    """The document at `path`.  Raises DamagedRecording, with the place of the first mistake."""
    try:
        return parse_model(path.read_bytes(), model, str(path))
    except OSError as error:
        raise DamagedRecording(f"{path}: {error.strerror}") from error


def parse_model(text: str | bytes, model: type[Model], name: str) -> Model:
    """The document in `text`, called `name`.  Raises DamagedRecording likewise."""
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise DamagedRecording(f"{name}: {place or 'file'}: {first['msg']}") from error


def find_model(path: Path, model: type[Model]) -> Model | None:
    """As `read_model`; None if there is no such file."""
    try:
        return read_model(path, model)
    except DamagedRecording as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise
