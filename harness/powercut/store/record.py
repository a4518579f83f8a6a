# SPDX-License-Identifier: Apache-2.0
"""The base of what is stored as JSON, and how it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    PlainSerializer,
    ValidationError,
    WithJsonSchema,
)

from powercut.documented import Documented
from powercut.model.errors import DamagedRecording
from powercut.model.named_path import openable
from powercut.model.verdict import Verdict

Model = TypeVar("Model", bound=BaseModel)


class Record(Documented):
    """A part of a stored document: immutable, and unknown keys are errors."""


def read_model(path: Path, model: type[Model]) -> Model:
    """The document at `path`.  Raises DamagedRecording, with the place of the first mistake."""
    try:
        return parse_model(openable(path).read_bytes(), model, str(path))
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


# A verdict as it is stored: by its name, in lower case.


def _parse_verdict(value: Any) -> Verdict:
    if isinstance(value, Verdict):
        return value
    for verdict in Verdict:
        if value == verdict.name.lower():
            return verdict
    raise ValueError(f"no verdict: {value!r}")


VerdictName = Annotated[
    Verdict,
    BeforeValidator(_parse_verdict),
    PlainSerializer(lambda verdict: Verdict(verdict).name.lower(), when_used="json"),
    WithJsonSchema({"enum": [verdict.name.lower() for verdict in Verdict]}),
]
