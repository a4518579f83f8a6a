# SPDX-License-Identifier: Apache-2.0
"""Reads scenario files; every mistake is reported at once, each with its place.

A mistake reads `file:line:column: key.path: message, got VALUE; did you mean NEAREST?`
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field, StrictBool, StrictInt, StringConstraints, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from powercut.model.errors import UsageError
from powercut.scenario.choose import LeftOut, Strategy, choose_pairwise, left_out_as_impossible
from powercut.scenario.expand import PRESET, Draft, Drafts, drafts, merge
from powercut.scenario.plan import Cell, Plan, draw_trials
from powercut.scenario.preset import UnknownPreset, find_preset, named_settings, preset_names
from powercut.scenario.refusal import Reason, refusals
from powercut.scenario.settings import GROUPS, SINGLE, Parameters, TriggerSettings
from powercut.scenario.settings_workload import KINDS, kind_of
from powercut.scenario.yaml_file import (
    Fault,
    KeyPath,
    did_you_mean,
    fault_of,
    parse_yaml,
    plain,
    read_text,
    report,
)

SHOWN_CELLS = 3
"""How many cells an error names that concerns several."""


class ScenarioFile(Parameters):
    """A powercut scenario."""

    powercut: Literal[1]
    """Version of the scenario format: 1.  Also marks the file as a scenario."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
    """Name of the scenario and of its folder under results/: lower case, digits, hyphens."""

    description: str = ""
    """What the scenario shows, in a sentence or two."""

    campaign: StrictBool = False
    """Whether the scenario takes minutes to hours: pytest runs it only with `-m campaign`."""

    seed: Annotated[StrictInt, Field(ge=0, lt=2**63)] | None = None
    """Seed of every random choice; drawn and printed if it is left out."""

    preset: str | None = None
    """A preset (`powercut list presets`), or `NAME/remedy`: its settings apply where the scenario
    says nothing else.  A named cell may have one, too, and the matrix a list of them."""

    matrix: Annotated[dict[str, Any], Field(default_factory=dict)]
    """Dotted settings, each with the list of values to try; their product makes the cells.
    `include` keeps only the cells that match one of its entries, `exclude` drops those that
    do; an entry gives some settings, and `cell` for the name of a named cell.  With a
    `strategy` combinations that cannot be are left out instead of being mistakes, and of the
    rest `product` takes all, `pairwise` so many that every pair of values occurs."""

    cells: list[dict[str, Any]] | None = None
    """Named cells, each with the dotted settings in which it differs.  With a matrix, every
    named cell is multiplied by it."""


@dataclass(frozen=True)
class Scenario:
    """A scenario without mistakes, and the text that it came from.

    Where it names presets the text has their settings instead: it stands for itself, whatever
    becomes of the presets.
    """

    path: Path
    text: str
    settings: ScenarioFile
    cells: tuple[tuple[Draft, Parameters], ...]
    left_out: tuple[LeftOut, ...] = ()
    """Combinations of its matrix that no cell stands for."""

    strategy: Strategy | None = None
    """How the combinations were chosen; None if nothing says."""

    @property
    def name(self) -> str:
        """Its name, and that of its folder under results/."""
        return self.settings.name


def load_scenario(path: Path, *, strategy: Strategy | None = None) -> Scenario:
    """Reads and checks one scenario file; `strategy` replaces its own.

    Raises UsageError with every mistake in it.
    """
    text = read_text(path, "scenario", "scenarios/ holds those that come with powercut")
    return parse_scenario(text, path, strategy=strategy)


def parse_scenario(
    text: str,
    path: Path,
    *,
    strategy: Strategy | None = None,
) -> Scenario:
    """Checks the text of a scenario; `path` serves for messages, `strategy` replaces its own.

    Raises UsageError with every mistake in it.
    """
    document = parse_yaml(
        text,
        path,
        ("a scenario is a mapping of settings", "it begins with `powercut: 1` and `name: ...`"),
    )
    text = with_folders(text, document, path)
    data = plain(document)
    faults: list[Fault] = []
    settings: ScenarioFile | None = None
    try:
        settings = ScenarioFile.model_validate(_without_base_gaps(data))
    except ValidationError as error:
        faults += [fault_of(item, (), _keys_beside) for item in _errors(error)]
    made, more = drafts(data)
    faults += more
    used, more = use_presets(data, made.cells)
    faults += more
    chosen = _strategy(made, faults) if strategy is None else strategy
    cells, refused, more = _check_cells(used, leave_out=chosen is not None)
    faults += more
    if faults or settings is None:
        raise UsageError(report(path, document, faults), hint="see docs/scenario-reference.md")
    left_out = [LeftOut(*entry) for entry in made.excluded] + left_out_as_impossible(refused)
    if chosen is Strategy.PAIRWISE:
        picked, more_left_out = choose_pairwise([draft for draft, _ in cells])
        left_out += more_left_out
        names = {draft.name for draft in picked}
        cells = tuple(cell for cell in cells if cell[0].name in names)
    # What is kept names what is run, and not what cannot be.
    used = replace(used, cells=tuple(draft for draft, _ in cells))
    text = scenario_text(text, used, written_out=chosen is not None)
    return Scenario(path, text, settings, cells, tuple(left_out), chosen)


def _strategy(made: Drafts, faults: list[Fault]) -> Strategy | None:
    if made.strategy is None:
        return None
    names = [item.value for item in Strategy]
    if made.strategy in names:
        return Strategy(made.strategy)
    text = f"should be one of {', '.join(names)}"
    place = ("matrix", "strategy")
    faults.append(Fault(place, text, made.strategy, near=tuple(names), has_value=True))
    return None


def preset_scenario(names: Sequence[str]) -> Scenario:
    """A scenario of the presets `names`: a cell for each, and one for its remedy if it has one.

    A name may also be `NAME/remedy`.  Raises UsageError if there is no such preset.
    """
    return parse_scenario(*preset_text(names))


def expand(
    scenario: Scenario, *, seed: int, trials: int | None = None, only: Sequence[str] = ()
) -> Plan:
    """The plan that `scenario` makes with root seed `seed`.

    `trials` replaces the number of trials of every cell; `only` selects cells by name or
    by pattern (as file names are).  Raises UsageError if `only` selects nothing.
    """
    names = [draft.name or scenario.name for draft, _ in scenario.cells]
    for wanted in only:
        if not any(name == wanted or fnmatchcase(name, wanted) for name in names):
            raise UsageError(
                f"{scenario.path}: there is no cell {wanted!r}{did_you_mean(wanted, names)}",
                hint="`powercut run --dry-run` lists the cells",
            )
    cells = []
    for name, (draft, parameters) in zip(names, scenario.cells, strict=True):
        if only and not any(name == wanted or fnmatchcase(name, wanted) for wanted in only):
            continue
        count = parameters.trials if trials is None else trials
        cells.append(
            Cell(
                name=name,
                parameters=parameters,
                trials=draw_trials(seed, name, parameters, count),
                overrides=tuple(draft.overrides.items()),
                description=draft.description,
            )
        )
    return Plan(scenario.name, scenario.settings.description, seed, tuple(cells))


def _without_base_gaps(data: dict[str, Any]) -> dict[str, Any]:
    """What the base of a scenario may leave to its cells is implied, not an error."""
    return {**data, **merge(data, {})}


def _check_cells(
    used: PresetUse, *, leave_out: bool
) -> tuple[tuple[tuple[Draft, Parameters], ...], list[tuple[Draft, Reason]], list[Fault]]:
    """The cells that can be, those that cannot, and what is wrong.

    What cannot be is wrong unless it is to be left out.
    """
    good: list[tuple[Draft, Parameters]] = []
    faults: list[Fault] = []
    impossible: list[tuple[Draft, Reason]] = []
    refused: dict[tuple[KeyPath, str], list[str]] = {}
    for draft in used.cells:
        try:
            parameters = Parameters.model_validate(merge(used.base, draft.overrides))
        except ValidationError as error:
            faults += [
                fault_of(item, _origin(draft, item["loc"]), _keys_beside) for item in _errors(error)
            ]
            continue
        reasons = refusals(parameters)
        if leave_out and reasons:
            impossible.append((draft, reasons[0]))
            continue
        good.append((draft, parameters))
        for dotted, reason in reasons:
            place = draft.origin.get(dotted, tuple(dotted.split(".")))
            named = dotted in ".".join(str(part) for part in place)
            message = reason if named else f"{dotted}: {reason}"
            refused.setdefault((place, message), []).append(draft.name)
    for (place, message), names in refused.items():
        faults.append(
            Fault(place, _naming(message, [name for name in names if name], len(used.cells)))
        )
    if leave_out and not good and not faults:
        faults.append(Fault(("matrix",), f"no combination is possible: {impossible[0][1][1]}"))
    return tuple(good), impossible, faults


def _naming(message: str, names: Sequence[str], total: int) -> str:
    if not names or len(names) == total:
        return message
    shown = "; ".join(names[:SHOWN_CELLS])
    if len(names) > SHOWN_CELLS:
        shown += f"; and {len(names) - SHOWN_CELLS} more"
    return f"{message} (in cell {shown})"


def _origin(draft: Draft, loc: tuple[str | int, ...]) -> KeyPath:
    """Where in the file the value at `loc` of a cell's settings was written."""
    for length in (2, 1):
        dotted = ".".join(str(part) for part in loc[:length])
        if dotted in draft.origin:
            return (*draft.origin[dotted], *loc[length:])
    return loc


def _errors(error: ValidationError) -> list[dict[str, Any]]:
    errors: list[dict[str, Any]] = [{**item} for item in error.errors()]
    for item in errors:
        loc = item["loc"]
        if loc[:1] == ("workload",) and len(loc) > 1 and loc[1] in KINDS:
            item["loc"] = ("workload", *loc[2:])  # pydantic names the kind, the file does not
        if item["type"] == "workload_kind":
            kinds = ", ".join(f"'{kind}'" for kind in KINDS)
            kind = kind_of(item["input"])
            item |= {"loc": (*loc, "kind"), "input": kind, "ctx": {"expected": kinds}}
    return errors


def _keys_beside(loc: KeyPath) -> tuple[str, ...]:
    if len(loc) == 1:
        return tuple(ScenarioFile.model_fields)
    models: tuple[type[BaseModel], ...] = GROUPS.get(str(loc[0]), ())
    if models and len(loc) == 3:
        models = {"cut": (TriggerSettings,)}.get(str(loc[0]), ())
    return tuple(dict.fromkeys(key for model in models for key in model.model_fields))


# Where a scenario's programs are: below its own folder, written down.
#
# What is kept of a run is the text of its scenario, in another folder.  So the text says where
# the programs start before anything else is done with it.

FOLDER: Final = "folder"
_KIND: Final = "kind"
_PROGRAMS: Final = ("program", "cluster")


def with_folders(text: str, document: CommentedMap, path: Path) -> str:
    """`text`, in which every program says where it starts: by default in the folder of `path`.

    `document` is what was read from it, and says so afterwards, too.  A text without programs is
    the same as before.
    """
    places = list(_places(document))
    if not places:
        return text
    for mapping, key in places:
        mapping[key] = str(path.absolute().parent)
    out = io.StringIO()
    yaml = YAML(typ="rt")
    yaml.width = 1000
    yaml.dump(document, out)
    return out.getvalue()


def _places(document: CommentedMap) -> Iterator[tuple[Any, str]]:
    workload = document.get("workload")
    if isinstance(workload, dict) and workload.get(_KIND) in _PROGRAMS and FOLDER not in workload:
        yield workload, FOLDER
    cells = document.get("cells")
    for cell in cells if isinstance(cells, list) else []:
        key = f"workload.{FOLDER}"
        kind = cell.get(f"workload.{_KIND}") if isinstance(cell, dict) else None
        if kind in _PROGRAMS and key not in cell:
            yield cell, key


# Presets in a scenario: `preset: NAME` for all of it, in a cell, or in the matrix.
#
# The settings of a preset stand below what is said beside it:
#
# 1. those of the preset of the scenario,
# 2. what the scenario itself says,
# 3. those of the preset of a cell, or of the matrix,
# 4. what the cell and the matrix say.
#
# What is kept of a run names no preset any more, but has its settings: it can be repeated
# whatever becomes of the file.

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
