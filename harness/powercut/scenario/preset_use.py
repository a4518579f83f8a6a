# SPDX-License-Identifier: Apache-2.0
"""Presets in a scenario: `preset: NAME` for all of it, in a cell, or in the matrix.

The settings of a preset stand below what is said beside it:

1. those of the preset of the scenario,
2. what the scenario itself says,
3. those of the preset of a cell, or of the matrix,
4. what the cell and the matrix say.

What is kept of a run names no preset any more, but has its settings: it can be repeated
whatever becomes of the file.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from powercut.model.errors import UsageError
from powercut.scenario.expand import PRESET, Draft, merge
from powercut.scenario.preset import UnknownPreset, find_preset, named_settings, preset_names
from powercut.scenario.settings import GROUPS, SINGLE
from powercut.scenario.yaml_file import Fault, KeyPath

_HEAD = ("powercut", "name", "description", "campaign", "seed")
"""What a scenario has besides settings, cells and presets."""


@dataclass(frozen=True)
class PresetUse:
    """A scenario with the settings of its presets in their places.

    `presets` are the names that were used, in order; none: nothing was changed.
    """

    head: Mapping[str, Any]
    base: Mapping[str, Any]
    cells: tuple[Draft, ...]
    presets: tuple[str, ...]


def use_presets(data: Mapping[str, Any], made: Sequence[Draft]) -> tuple[PresetUse, list[Fault]]:
    """The scenario `data` and its cells with presets replaced, and what is wrong with those."""
    faults: dict[KeyPath, Fault] = {}
    names: dict[str, None] = {}

    def settings_of(name: Any, place: KeyPath) -> dict[str, Any]:
        try:
            if not isinstance(name, str):
                raise UsageError("should be the name of a preset")
            found = named_settings(name)
        except UnknownPreset:
            text = "there is no such preset"
            faults[place] = Fault(place, text, name, near=preset_names(), has_value=True)
            return {}
        except UsageError as error:
            faults[place] = Fault(place, str(error), name, has_value=True)
            return {}
        names[name] = None
        return found

    base, origin = data, {}
    if data.get(PRESET) is not None:
        settings = settings_of(data[PRESET], (PRESET,))
        base = below(data, settings)
        origin = {key: (PRESET,) for key in settings if not _says(data, key)}
    cells = []
    for draft in made:
        overrides, where = dict(draft.overrides), {**origin, **draft.origin}
        if PRESET in overrides:
            place = where.pop(PRESET)
            settings = settings_of(overrides.pop(PRESET), place)
            where = {**where, **dict.fromkeys(settings, place), **_without(draft.origin, PRESET)}
            overrides = {**settings, **overrides}
        cells.append(replace(draft, overrides=overrides, origin=where))
    head = {key: data[key] for key in _HEAD if key in data}
    return PresetUse(head, base, tuple(cells), tuple(names)), list(faults.values())


def _without(mapping: Mapping[str, KeyPath], key: str) -> dict[str, KeyPath]:
    return {name: value for name, value in mapping.items() if name != key}


def _says(data: Mapping[str, Any], dotted: str) -> bool:
    """Whether the scenario itself sets `dotted`."""
    group, _, key = dotted.partition(".")
    if not key:
        return group in data
    return isinstance(data.get(group), dict) and key in data[group]


def below(data: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """`data` with `settings` where it says nothing itself."""
    unsaid = {key: value for key, value in settings.items() if not _says(data, key)}
    broken = {key for key in GROUPS if key in data and not isinstance(data[key], dict)}
    usable = {key: value for key, value in unsaid.items() if key.partition(".")[0] not in broken}
    return {**data, **merge(data, usable)}


def scenario_text(text: str, used: PresetUse, *, written_out: bool = False) -> str:
    """`text` if it names no preset, else a scenario of the same cells that names none.

    With `written_out` it names each cell in any case.
    """
    if not used.presets and not written_out:
        return text
    lines = ["# Written out, one cell after the other."]
    if used.presets:
        lines = ["# Written out: where presets were named, their settings stand."]
    lines += [f"# {name}: {_in_words(name)}" for name in used.presets]
    base = {key: used.base[key] for key in (*GROUPS, *SINGLE) if key in used.base}
    cells = [
        {
            "name": draft.name or used.head["name"],
            **({"description": draft.description} if draft.description else {}),
            **draft.overrides,
        }
        for draft in used.cells
    ]
    return "\n".join(lines) + "\n" + _dump({**used.head, **base, "cells": cells})


def _in_words(name: str) -> str:
    preset = find_preset(name.partition("/")[0])
    words = f"{preset.product}, {preset.versions}: {preset.title}"
    if preset.remedy is not None and "/" in name:
        words += f"; {preset.remedy.does}"
    return " ".join(words.split())


def _dump(data: Mapping[str, Any]) -> str:
    yaml = YAML(typ="rt")
    yaml.width = 1000
    out = io.StringIO()
    yaml.dump(dict(data), out)
    return out.getvalue()


def preset_text(names: Sequence[str]) -> tuple[str, Path]:
    """A scenario of the presets `names` and their remedies, a cell each, and what to call it.

    A name may be `NAME/remedy`, for that alone.  Raises UsageError if there is no such preset.
    """
    wanted: dict[str, None] = {}
    for name in names:
        named_settings(name)
        wanted[name] = None
        if "/" not in name and find_preset(name).remedy is not None:
            wanted[f"{name}/remedy"] = None
    cells = [{"name": name.replace("/", "-"), PRESET: name} for name in wanted]
    bases = list(dict.fromkeys(name.partition("/")[0] for name in wanted))
    title = f"preset-{bases[0]}" if len(bases) == 1 else "presets"
    claims = [find_preset(name).claim for name in bases]
    data = {
        "powercut": 1,
        "name": title,
        "description": claims[0] if len(claims) == 1 else f"{len(claims)} presets.",
        "cells": cells,
    }
    return _dump(data), Path(f"{title}.yaml")
