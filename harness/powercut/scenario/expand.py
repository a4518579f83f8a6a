# SPDX-License-Identifier: Apache-2.0
"""From the settings of a scenario to its cells: named cells times the matrix.

Everything is still as written here; positions stay attached, so that an error in a
cell points at the line that caused it.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from powercut.scenario.machines import backends, row_of
from powercut.scenario.settings import GROUPS, SINGLE, setting_paths
from powercut.scenario.settings_program import ON_MACHINE, ClusterSettings
from powercut.scenario.workloads import USUAL
from powercut.scenario.yaml_file import Fault
from powercut.scenario.yaml_file import KeyPath as Path

CELL_KEYS = ("name", "description")
"""What a named cell has besides settings."""

STRATEGY: Final = "strategy"
"""The key of a matrix that says how combinations are chosen (choose.py)."""

MATRIX_MAX: Final = 100_000
"""Combinations that a matrix may have: each is looked at before the first is run."""

NODES: Final = ("a", "b", "c", "d")
"""What the nodes of a cluster are called, and their disks."""

NODE_DISK: Final = "128MiB"
"""Size of each node's disk, unless the scenario says another."""

PROGRAM_DISK: Final = "512MiB"
"""Size of the disk of a program, unless the scenario says another: databases want room."""

_NO_AXIS: Final = ("include", "exclude", STRATEGY)

PRESET: Final = "preset"
"""A key that stands for the settings of a preset (preset_use.py)."""


@dataclass(frozen=True)
class Draft:
    """A cell before validation.

    `cell` is the named cell that it comes from, `row` its number and the index of the value of
    each axis; `origin` says where in the file each overridden dotted key got its value.
    """

    name: str
    description: str
    overrides: Mapping[str, Any]
    origin: Mapping[str, Path]
    cell: str = ""
    row: tuple[int, ...] = ()


def merge(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a cell as written: `base` with dotted keys replaced."""
    merged: dict[str, Any] = {
        key: copy.deepcopy(base[key]) for key in (*GROUPS, *SINGLE) if key in base
    }
    for dotted, value in overrides.items():
        group, _, key = dotted.partition(".")
        if not key:
            merged[group] = value
            continue
        if not isinstance(merged.get(group), dict):
            merged[group] = {}
        merged[group][key] = copy.deepcopy(value)
    _imply(merged)
    return merged


def _imply(merged: dict[str, Any]) -> None:
    """Fills in what follows from other settings where the scenario does not."""
    filesystem, workload = merged.get("filesystem"), merged.get("workload", {})
    raw = isinstance(filesystem, dict) and filesystem.get("type") == "raw"
    kind = workload.get("kind", USUAL) if isinstance(workload, dict) else None
    if kind == "program":
        disk = merged.get("disk", {})
        if isinstance(disk, dict):
            merged["disk"] = {"size": PROGRAM_DISK, **disk}
        if isinstance(workload, dict) and _has_own_system(merged):
            merged["workload"] = {"root": ON_MACHINE, **workload}
    elif kind == "cluster" and isinstance(disk := merged.get("disk", {}), dict):
        disk = {"size": NODE_DISK, "name": NODES[0], **disk}
        others = {"size": disk["size"], "holds": "folder"}
        count = workload.get("nodes", ClusterSettings.model_fields["nodes"].default)
        names = NODES[1:count] if isinstance(count, int) else ()
        merged["disk"] = {"also": [{"name": name, **others} for name in names], **disk}
    elif raw and kind == "wal":
        merged["workload"] = {"layout": "raw", **workload}
    cut = merged.get("cut")
    if isinstance(cut, dict) and cut.get("kind") in ("guest-crash", "vm-kill"):
        merged["cut"] = {"policy": "keep", **cut}


def _has_own_system(merged: Mapping[str, Any]) -> bool:
    machine = merged.get("machine")
    backend = machine.get("backend") if isinstance(machine, dict) else None
    return backend in backends() and bool(row_of(backend).own_system)


@dataclass(frozen=True)
class Drafts:
    """The cells of a scenario as written.

    `excluded` says of each entry under `exclude` how many combinations it took away, and of
    `include` how many match none of its entries; `strategy` is as written, None if it is not.
    """

    cells: list[Draft]
    excluded: list[tuple[Mapping[str, Any], str, int]]
    strategy: Any = None


def drafts(data: Mapping[str, Any]) -> tuple[Drafts, list[Fault]]:
    """The cells of a scenario as written, and what is wrong with their description."""
    faults: list[Fault] = []
    named = list(_named_cells(data, faults))
    axes, rules = _axes(data, faults)
    total = 0 if faults else len(named) * math.prod(len(values) for values in axes.values())
    if total > MATRIX_MAX:
        text = f"has {total:,} combinations, more than {MATRIX_MAX:,}: make several scenarios of it"
        faults.append(Fault(("matrix",), text))
    if faults:
        return Drafts([], []), faults
    made = [
        _combine(cell, number, axes, combination)
        for number, cell in enumerate(named)
        for combination in _product(axes)
    ]
    kept, excluded = _select(made, rules, faults)
    names = Counter(draft.name for draft in kept)
    faults += [
        Fault(("cells",), "two cells have the same name", name, has_value=True)
        for name in sorted(name for name, count in names.items() if count > 1)
    ]
    if not kept and not faults:
        faults.append(Fault(("matrix",), "include and exclude leave no cell"))
    return Drafts(kept, excluded, data.get("matrix", {}).get(STRATEGY)), faults


def _named_cells(data: Mapping[str, Any], faults: list[Fault]) -> Iterator[Draft]:
    cells = data.get("cells")
    if cells is None:
        yield Draft("", "", {}, {})
        return
    if not isinstance(cells, list) or not cells:
        faults.append(Fault(("cells",), "should be a list of cells, each with a name"))
        return
    for index, cell in enumerate(cells):
        path: Path = ("cells", index)
        if not isinstance(cell, dict):
            faults.append(Fault(path, "should be a mapping with a name"))
            continue
        name = cell.get("name")
        if not isinstance(name, str) or not _good_name(name):
            faults.append(
                Fault(
                    (*path, "name") if "name" in cell else path,
                    "a cell needs a name of letters, digits, '-', '_', '.', ',' and '='",
                    name,
                    has_value="name" in cell,
                )
            )
            continue
        overrides = {key: value for key, value in cell.items() if key not in CELL_KEYS}
        faults += _unknown_keys(path, overrides, (*CELL_KEYS, PRESET))
        yield Draft(
            name,
            str(cell.get("description", "")),
            overrides,
            {key: (*path, key) for key in overrides},
        )


def _good_name(name: str) -> bool:
    return (
        name.isascii()
        and name[:1].isalnum()
        and all(letter.isalnum() or letter in "-_.,=" for letter in name)
    )


def _axes(
    data: Mapping[str, Any], faults: list[Fault]
) -> tuple[dict[str, list[Any]], dict[str, list[dict[str, Any]]]]:
    matrix = data.get("matrix", {})
    if not isinstance(matrix, dict):
        faults.append(Fault(("matrix",), "should map settings to lists of values"))
        return {}, {}
    rules: dict[str, list[dict[str, Any]]] = {}
    for verb in ("include", "exclude"):
        entries = matrix.get(verb, [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            faults.append(Fault(("matrix", verb), "should be a list of mappings"))
            continue
        rules[verb] = entries
        for index, entry in enumerate(entries):
            faults += _unknown_keys(("matrix", verb, index), entry, ("cell", PRESET))
    axes = {key: values for key, values in matrix.items() if key not in _NO_AXIS}
    faults += _unknown_keys(("matrix",), axes, (*_NO_AXIS, PRESET))
    for key, values in axes.items():
        if not isinstance(values, list) or not values:
            faults.append(
                Fault(("matrix", key), "should be a list of values", values, has_value=True)
            )
    return axes, rules


def _unknown_keys(path: Path, mapping: Mapping[str, Any], extra: Sequence[str]) -> list[Fault]:
    known = (*setting_paths(), *extra)
    return [
        Fault((*path, key), "unknown setting", near=known) for key in mapping if key not in known
    ]


def _product(axes: Mapping[str, list[Any]]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(len(values)) for values in axes.values()))


def _combine(
    cell: Draft, number: int, axes: Mapping[str, list[Any]], chosen: tuple[int, ...]
) -> Draft:
    overrides, origin = dict(cell.overrides), dict(cell.origin)
    labels = [cell.name] if cell.name else []
    short = {key: _short_name(key, axes) for key in axes}
    for (key, values), index in zip(axes.items(), chosen, strict=True):
        overrides[key] = values[index]
        origin[key] = ("matrix", key, index)
        labels.append(f"{short[key]}={label(values[index])}")
    name = ",".join(labels)
    return Draft(name, cell.description, overrides, origin, cell.name, (number, *chosen))


def _short_name(key: str, axes: Mapping[str, list[Any]]) -> str:
    last = key.rpartition(".")[2]
    return last if sum(other.rpartition(".")[2] == last for other in axes) == 1 else key


def label(value: Any) -> str:
    """`value` as part of a cell's name, and so of a folder's."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return "-".join(f"{key}-{label(item)}" for key, item in value.items())
    if isinstance(value, list):
        return "-".join(label(item) for item in value) or "none"
    text = str(value).replace(" ", "").replace(":", "-")
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in text)


def _select(
    made: list[Draft], rules: Mapping[str, list[dict[str, Any]]], faults: list[Fault]
) -> tuple[list[Draft], list[tuple[Mapping[str, Any], str, int]]]:
    """What `include` and `exclude` leave of `made`, and what they took away."""
    kept = made
    gone: list[tuple[Mapping[str, Any], str, int]] = []
    for verb, entries in rules.items():
        matched = [[_matches(draft, entry) for draft in made] for entry in entries]
        faults += [
            Fault(("matrix", verb, index), f"matches no cell, so that it {verb}s nothing")
            for index, row in enumerate(matched)
            if not any(row)
        ]
        if not entries:
            continue
        wanted = verb == "include"
        hit = [any(column) for column in zip(*matched, strict=True)]
        chosen = {id(draft) for draft, matches in zip(made, hit, strict=True) if matches == wanted}
        if wanted:
            gone.append(({}, "not among what the scenario includes", hit.count(False)))
        else:
            pairs = zip(entries, matched, strict=True)
            gone += [(entry, "excluded by the scenario", row.count(True)) for entry, row in pairs]
        kept = [draft for draft in kept if id(draft) in chosen]
    return kept, [entry for entry in gone if entry[2]]


def _matches(draft: Draft, entry: Mapping[str, Any]) -> bool:
    """Whether every setting in `entry` is overridden to that value in `draft`."""
    for key, value in entry.items():
        if key == "cell":
            if draft.cell != value:
                return False
        elif key not in draft.overrides or draft.overrides[key] != value:
            return False
    return True
