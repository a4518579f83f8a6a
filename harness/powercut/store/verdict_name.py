# SPDX-License-Identifier: Apache-2.0
"""A verdict as it is stored: by its name, in lower case."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from powercut.model.verdict import Verdict


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
