# SPDX-License-Identifier: Apache-2.0
"""Reads scenario files; every mistake is reported at once, each with its place.

A mistake reads `file:line:column: key.path: message, got VALUE; did you mean NEAREST?`
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictInt, StringConstraints, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from powercut.model.errors import UsageError
from powercut.scenario.expand import Draft, Fault, drafts, merge
from powercut.scenario.expand import Path as KeyPath
from powercut.scenario.plan import Cell, Plan, draw_trials
from powercut.scenario.refusal import refusals
from powercut.scenario.settings import GROUPS, Parameters

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
    """Root of every random choice; drawn and printed if it is left out."""

    matrix: Annotated[dict[str, Any], Field(default_factory=dict)]
    """Dotted settings, each with the list of values to try; their product makes the cells.
    `include` keeps only the cells that match one of its entries, `exclude` drops those that
    do; an entry gives some settings, and `cell` for the name of a named cell."""

    cells: list[dict[str, Any]] | None = None
    """Named cells, each with the dotted settings in which it differs.  With a matrix, every
    named cell is multiplied by it."""


@dataclass(frozen=True)
class Scenario:
    """A scenario without mistakes, and the text that it came from."""

    path: Path
    text: str
    settings: ScenarioFile
    cells: tuple[tuple[Draft, Parameters], ...]

    @property
    def name(self) -> str:
        """Its name, and that of its folder under results/."""
        return self.settings.name


def load_scenario(path: Path) -> Scenario:
    """Reads and checks one scenario file.

    Raises UsageError with every mistake in it.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise UsageError(
            f"{path}: cannot read the scenario: {reason}",
            hint="scenarios/ holds those that come with powercut",
        ) from error
    return parse_scenario(text, path)


def parse_scenario(text: str, path: Path) -> Scenario:
    """Checks the text of a scenario; `path` serves for messages.

    Raises UsageError with every mistake in it.
    """
    document = _parse_yaml(text, path)
    plain = _plain(document)
    faults: list[Fault] = []
    settings: ScenarioFile | None = None
    try:
        settings = ScenarioFile.model_validate(_without_base_gaps(plain))
    except ValidationError as error:
        faults += [_fault(item, ()) for item in error.errors()]
    made, more = drafts(plain)
    faults += more
    cells, more = _check_cells(plain, made)
    faults += more
    if faults or settings is None:
        raise UsageError(_report(path, document, faults), hint="see docs/scenario-reference.md")
    return Scenario(path, text, settings, cells)


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
                f"{scenario.path}: there is no cell {wanted!r}{_suggest(wanted, names)}",
                hint="`powercut plan` lists the cells",
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


def _parse_yaml(text: str, path: Path) -> CommentedMap:
    try:
        document = YAML(typ="rt").load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise UsageError(f"{place}: not valid YAML: {error.problem or error.context}") from error
    except YAMLError as error:
        raise UsageError(f"{path}: not valid YAML: {error}") from error
    if not isinstance(document, CommentedMap):
        raise UsageError(
            f"{path}:1:1: a scenario is a mapping of settings",
            hint="it begins with `powercut: 1` and `name: ...`",
        )
    return document


def _plain(node: Any) -> Any:
    """`node` without ruamel's types, whose equality and text differ from Python's own."""
    if isinstance(node, Mapping):
        return {_plain(key): _plain(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_plain(item) for item in node]
    for kind in (bool, int, float, str):
        if isinstance(node, kind):
            return kind(node)
    return node


def _without_base_gaps(plain: dict[str, Any]) -> dict[str, Any]:
    """What the base of a scenario may leave to its cells is implied, not an error."""
    return {**plain, **merge(plain, {})}


def _check_cells(
    plain: Mapping[str, Any], made: Sequence[Draft]
) -> tuple[tuple[tuple[Draft, Parameters], ...], list[Fault]]:
    good: list[tuple[Draft, Parameters]] = []
    faults: list[Fault] = []
    refused: dict[tuple[KeyPath, str], list[str]] = {}
    for draft in made:
        try:
            parameters = Parameters.model_validate(merge(plain, draft.overrides))
        except ValidationError as error:
            faults += [_fault(item, _origin(draft, item["loc"])) for item in error.errors()]
            continue
        good.append((draft, parameters))
        for dotted, reason in refusals(parameters):
            place = draft.origin.get(dotted, tuple(dotted.split(".")))
            named = dotted in ".".join(str(part) for part in place)
            message = reason if named else f"{dotted}: {reason}"
            refused.setdefault((place, message), []).append(draft.name)
    for (place, message), names in refused.items():
        faults.append(Fault(place, _naming(message, [name for name in names if name], len(made))))
    return tuple(good), faults


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


def _fault(item: Any, path: KeyPath) -> Fault:
    """One of pydantic's errors as ours."""
    loc: KeyPath = item["loc"]
    place = path or loc
    kind = item["type"]
    if kind == "missing":
        return Fault(place[:-1], f"the key {loc[-1]!r} is missing")
    if kind == "extra_forbidden":
        return Fault(place, "unknown key", near=_keys_beside(loc))
    message = str(item["msg"]).removeprefix("Value error, ").removeprefix("Input should be ")
    context = item.get("ctx", {})
    choices = tuple(re.findall(r"'([^']*)'", str(context.get("expected", ""))))
    if choices:
        message = f"should be one of {', '.join(choices)}"
    elif message != item["msg"] and not str(item["msg"]).startswith("Value error"):
        message = f"should be {message}"
    value = context.get("item", item["input"])
    return Fault(place, message, value, near=choices, has_value=True)


def _keys_beside(loc: KeyPath) -> tuple[str, ...]:
    if len(loc) == 1:
        return tuple(ScenarioFile.model_fields)
    group: Any = GROUPS.get(str(loc[0]))
    if group is not None and len(loc) == 3:
        group = {"cut": type(Parameters().cut.trigger)}.get(str(loc[0]))
    return tuple(group.model_fields) if group is not None else ()


def _suggest(word: object, near: Sequence[str]) -> str:
    close = difflib.get_close_matches(str(word), near, n=1, cutoff=0.5)
    if not close and "." not in str(word):
        # A setting given without its group: `sync` for `workload.sync`.
        close = [key for key in near if key.rpartition(".")[2] == str(word)][:1]
    return f"; did you mean {close[0]}?" if close else ""


def _report(path: Path, document: CommentedMap, faults: Sequence[Fault]) -> str:
    lines: dict[str, tuple[int, int]] = {}
    for fault in faults:
        line, column = _position(document, fault.path)
        key = ".".join(str(part) for part in fault.path)
        text = f"{path}:{line}:{column}: "
        text += f"{key}: {fault.message}" if key else fault.message
        if fault.has_value:
            text += f", got {_shown(fault.value)}"
        wrong = fault.value if fault.has_value else (fault.path[-1] if fault.path else "")
        text += _suggest(wrong, fault.near)
        lines.setdefault(text, (line, column))
    return "\n".join(sorted(lines, key=lambda text: lines[text]))


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else text[:77] + "..."


def _position(document: CommentedMap, path: KeyPath) -> tuple[int, int]:
    """Line and column, from 1, of the deepest part of `path` that the file has."""
    node: Any = document
    place = (0, 0)
    for part in path:
        if isinstance(node, CommentedMap) and part in node:
            line, column = node.lc.key(part)[:2]
        elif isinstance(node, CommentedSeq) and isinstance(part, int) and part < len(node):
            line, column = node.lc.item(part)[:2]
        else:
            break
        place = (line, column)
        node = node[part]
    return place[0] + 1, place[1] + 1
