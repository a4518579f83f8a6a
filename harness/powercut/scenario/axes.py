# SPDX-License-Identifier: Apache-2.0
"""Axes that are added to a scenario from outside, such as versions on the command line."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from ruamel.yaml import YAML

from powercut.model.errors import UsageError
from powercut.scenario.expand import label
from powercut.scenario.load import Scenario, parse_scenario
from powercut.scenario.settings import GROUPS, Parameters, setting_paths


def with_axes(scenario: Scenario, axes: Mapping[str, Sequence[Any]]) -> Scenario:
    """`scenario`, each of its cells multiplied by `axes`: dotted settings, values for each.

    What the scenario itself says of such a setting gives way, also where it has it in its
    matrix; a setting without values changes nothing.  The text of the new scenario has the axes
    in it, so that what is kept of a run repeats it.  Raises UsageError for a setting or a value
    that is none, or cells that cannot be.
    """
    given = {key: list(dict.fromkeys(values)) for key, values in axes.items() if values}
    if not given:
        return scenario
    for key, values in given.items():
        _check(key, values)
    yaml = YAML(typ="rt")
    yaml.width = 1000
    document = yaml.load(scenario.text)
    if scenario.strategy is not None and document.get("cells"):
        document["cells"] = _without_axes(document["cells"], given, scenario.name)
    matrix = document.setdefault("matrix", {})
    for key, values in given.items():
        matrix[key] = values
    out = io.StringIO()
    yaml.dump(document, out)
    return parse_scenario(out.getvalue(), scenario.path)


def _without_axes(
    cells: Sequence[Mapping[str, Any]], axes: Mapping[str, Sequence[Any]], name: str
) -> list[dict[str, Any]]:
    """Cells that a matrix was written out to, as if it had not had `axes`; each once.

    Else one that is called by a version would run on another, and the same combination would
    count several times.
    """
    kept: list[dict[str, Any]] = []
    for cell in cells:
        rest = {key: value for key, value in cell.items() if key not in axes}
        gone = {
            f"{short}={label(value)}"
            for key, value in cell.items()
            if key in axes
            for short in (key, key.rpartition(".")[2])
        }
        words = [word for word in str(cell["name"]).split(",") if word not in gone]
        rest["name"] = ",".join(words) or name
        if rest not in kept:
            kept.append(rest)
    return kept


def _check(key: str, values: Sequence[Any]) -> None:
    if key not in setting_paths():
        raise UsageError(f"{key}: unknown setting", hint="see docs/scenario-reference.md")
    group, _, name = key.rpartition(".")
    for value in values:
        try:
            if group:
                model = next(each for each in GROUPS[group] if name in each.model_fields)
                model.model_validate({name: value})
            else:
                Parameters.model_validate({name: value})
        except ValidationError as error:
            words = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
            raise UsageError(
                f"{key}: {words.replace('Input should', 'should')}, got {value!r}",
                hint="see docs/scenario-reference.md",
            ) from None
