# SPDX-License-Identifier: Apache-2.0
"""Settings by dotted key, as a matrix and its readers want them."""

from __future__ import annotations

from typing import Any, Final

from powercut.scenario.settings import GROUPS, SINGLE, Parameters

_NO_MATTER: Final = ("deadline", "trials", "controls", "expect")
"""Settings that are not what a cell is about."""


def flat(parameters: Parameters) -> dict[str, Any]:
    """Every setting that matters, by dotted key, as in JSON."""
    data = parameters.model_dump(mode="json")
    grouped = {f"{group}.{key}": value for group in GROUPS for key, value in data[group].items()}
    return grouped | {key: data[key] for key in SINGLE if key not in _NO_MATTER}


DEFAULTS: Final = flat(Parameters())
"""Every setting by dotted key, where a scenario says nothing."""


def differing(parameters: Parameters) -> dict[str, Any]:
    """The settings that differ from the defaults."""
    return {key: value for key, value in flat(parameters).items() if value != DEFAULTS.get(key)}


def is_default(key: str, value: object) -> bool:
    """Whether `value` is the default of a setting."""
    return key in DEFAULTS and value == DEFAULTS[key]
