# SPDX-License-Identifier: Apache-2.0
"""Lays the cells of a scenario out as maps: rows and columns of settings, a field each.

Two kinds of map:

- *exact*: every field is one combination of settings, and holds the cells that have it.
  This is what a full product, or most of one, becomes.
- *summarised*: a row for each value of each setting, a column for each value of one, and
  in a field all the cells that have both.  This is what a covering array becomes, of
  which an exact map would be nearly empty.

A field shows the worst verdict in it; a combination without a cell was not tested.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

from powercut.model.verdict import Verdict
from powercut.store.certificate import CertifiedCell

COLUMNS_MAX: Final = 12
"""More columns than this become a further map below."""

ROWS_MAX: Final = 48
"""More rows than this become a map for each value of their first setting."""

_FILLED_MIN: Final = 0.34
"""Exact maps with a smaller share of fields than this are summarised instead."""

CASE: Final = "cell"
"""The name that a scenario gives to a cell, where that tells cells apart."""

_COLUMNS: Final = (
    "machine.cache",
    "disk.volatile_cache",
    "machine.guest_write_cache",
    "disk.flush",
    "workload.sync",
    "filesystem.type",
)
"""What goes into the columns, the first that tells cells apart."""

_ROWS: Final = (
    CASE,
    "machine.qemu",
    "machine.kernel",
    "machine.bus",
    "machine.format",
    "machine.aio",
    "filesystem.type",
    "filesystem.mount",
    "workload.sync",
    "workload.direct",
)
"""In which order settings make up the rows; others follow."""

_NO_AXES: Final = ("expect", "trials", "controls", "deadline")

_NAMES: Final = {
    CASE: "cell",
    "machine.cache": "cache mode",
    "machine.bus": "bus",
    "machine.format": "image format",
    "machine.format_options": "format options",
    "machine.aio": "aio",
    "machine.write_cache": "write cache",
    "machine.direct": "past the host's cache",
    "machine.no_flush": "flushes dropped",
    "machine.config_wce": "guest may switch",
    "machine.qemu": "QEMU",
    "machine.kernel": "guest kernel",
    "machine.guest_write_cache": "guest believes",
    "filesystem.type": "file system",
    "filesystem.mount": "mount options",
    "filesystem.mkfs": "mkfs options",
    "workload.sync": "sync mode",
    "workload.direct": "O_DIRECT",
    "workload.layout": "log layout",
    "disk.volatile_cache": "volatile cache",
    "disk.flush": "disk's flush",
    "disk.fua": "disk's FUA",
    "disk.model": "disk model",
    "cut.kind": "kind of cut",
    "cut.policy": "cut policy",
}


def axis_name(path: str) -> str:
    """What a person calls the setting at `path`."""
    return _NAMES.get(path, path.rpartition(".")[2].replace("_", " "))


def value_text(value: Any) -> str:
    """The value of a setting as a person writes it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "default"
    if isinstance(value, list | tuple):
        return " ".join(map(value_text, value)) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{key} {value_text(item)}" for key, item in value.items() if item)
    return str(value)


def flat_settings(cell: CertifiedCell) -> dict[str, Any]:
    """Every setting of `cell` by its dotted key."""
    settings: dict[str, Any] = {}
    for name, group in cell.parameters.model_dump(mode="json").items():
        if isinstance(group, dict):
            settings.update({f"{name}.{key}": value for key, value in group.items()})
        else:
            settings[name] = group
    return settings


def case_name(cell: CertifiedCell) -> str:
    """The part of the cell's name that is no combination of the matrix."""
    labels = [label for label in cell.cell.split(",") if "=" not in label]
    return ",".join(labels)


@dataclass(frozen=True)
class Spot:
    """A cell of the certificate with its number there, and where its settings place it."""

    index: int
    cell: CertifiedCell
    values: Mapping[str, str]


@dataclass(frozen=True)
class MapField:
    """One field; no spots if the combination was not tested."""

    spots: tuple[Spot, ...] = ()

    @property
    def worst(self) -> Spot | None:
        """The spot to look at first: the worst verdict, of these one that nobody expected."""
        return max(
            self.spots,
            key=lambda spot: (spot.cell.verdict, not spot.cell.as_expected, -spot.index),
            default=None,
        )

    @property
    def counts(self) -> tuple[tuple[Verdict, int], ...]:
        """How many spots have each verdict, the worst first."""
        found = Counter(spot.cell.verdict for spot in self.spots)
        return tuple((verdict, found[verdict]) for verdict in sorted(found, reverse=True))

    @property
    def surprise(self) -> bool:
        """Whether a cell here has another verdict than was expected."""
        return any(not spot.cell.as_expected for spot in self.spots)


@dataclass(frozen=True)
class Head:
    """A heading over `span` columns, or beside as many rows."""

    text: str
    span: int = 1


@dataclass(frozen=True)
class MapRow:
    """A row: the headings that begin here, outer ones first, and its fields."""

    heads: tuple[Head, ...]
    fields: tuple[MapField, ...]


@dataclass(frozen=True)
class HeatMap:
    """One map.  `column_heads` has a tuple for each of `column_axes`, outer ones first."""

    title: str
    row_axes: tuple[str, ...]
    column_axes: tuple[str, ...]
    column_heads: tuple[tuple[Head, ...], ...]
    rows: tuple[MapRow, ...]
    summarised: bool = False

    @property
    def columns(self) -> int:
        """How many columns of fields."""
        return len(self.rows[0].fields) if self.rows else 0


@dataclass(frozen=True)
class Layout:
    """The maps of one scenario, and which cells stand in the same row of them.

    `families` gives each cell, by its number, the row that it shares with others; cells of
    one family differ in nothing but the settings of the columns.
    """

    maps: tuple[HeatMap, ...]
    families: Mapping[int, str] = field(default_factory=dict)
    axes: tuple[str, ...] = ()


class _Space:
    """The cells of one scenario and the settings that tell them apart."""

    def __init__(
        self, cells: Sequence[tuple[int, CertifiedCell]], order: Mapping[str, Sequence[Any]]
    ) -> None:
        flat = [flat_settings(cell) | {CASE: case_name(cell)} for _, cell in cells]
        raw = [{path: value for path, value in one.items() if path not in _NO_AXES} for one in flat]
        paths = list(dict.fromkeys(path for one in raw for path in one))
        self.varying = [path for path in paths if len({_key(one.get(path)) for one in raw}) > 1]
        self.spots = [
            Spot(index, cell, {path: value_text(one.get(path)) for path in self.varying})
            for (index, cell), one in zip(cells, raw, strict=True)
        ]
        self._order = order

    def values(self, path: str, spots: Sequence[Spot]) -> list[str]:
        """The values of `path` that occur, in the order in which the certificate has them."""
        present = list(dict.fromkeys(spot.values[path] for spot in spots))
        known = [value_text(value) for value in self._order.get(path, ())]
        # Stable: what the certificate does not list keeps the order in which it came.
        return sorted(present, key=lambda v: known.index(v) if v in known else len(known))

    @cached_property
    def axes(self) -> list[str]:
        """The settings that are needed to tell the cells apart, those of the matrix first."""
        matrix = [path for path in self.varying if self._in_names(path)]
        chosen = sorted(matrix, key=_row_rank)
        if not self._unique(chosen) and CASE in self.varying:
            chosen.insert(0, CASE)
        for path in sorted(self.varying, key=_row_rank):
            if self._unique(chosen):
                break
            if path not in chosen and self._refines(chosen, path):
                chosen.append(path)
        return chosen

    def _in_names(self, path: str) -> bool:
        """Whether the matrix of the scenario has `path`: then it is part of the names."""
        marks = (f"{path.rpartition('.')[2]}=", f"{path}=")
        return path != CASE and any(
            label.startswith(marks) for spot in self.spots for label in spot.cell.cell.split(",")
        )

    def _groups(self, axes: Sequence[str]) -> int:
        return len({tuple(spot.values[path] for path in axes) for spot in self.spots})

    def _unique(self, axes: Sequence[str]) -> bool:
        return self._groups(axes) == len(self.spots)

    def _refines(self, axes: Sequence[str], path: str) -> bool:
        return self._groups([*axes, path]) > self._groups(axes)


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _row_rank(path: str) -> tuple[int, str]:
    return (_ROWS.index(path) if path in _ROWS else len(_ROWS), path)


def lay_out(
    cells: Sequence[tuple[int, CertifiedCell]], order: Mapping[str, Sequence[Any]]
) -> Layout:
    """The maps of `cells`, all of one scenario, each given with its number in the certificate.

    `order` is what the certificate says of its axes: their values, in order.
    """
    if not cells:
        return Layout(())
    space = _Space(cells, order)
    columns, rows = _split(space)
    families = {spot.index: " | ".join(spot.values[path] for path in rows) for spot in space.spots}
    if _filled(space, rows, columns) < _FILLED_MIN and len(space.axes) > 2:
        return Layout(tuple(_summarised(space, columns[-1])), {}, tuple(space.axes))
    return Layout(tuple(_exact(space, rows, columns)), families, tuple(space.axes))


def _split(space: _Space) -> tuple[list[str], list[str]]:
    """Which settings go into the columns and which into the rows."""
    axes = space.axes
    if len(axes) < 2:
        return [], list(axes)
    wanted = [path for path in _COLUMNS if path in axes]
    fitting = [path for path in wanted if len(space.values(path, space.spots)) <= COLUMNS_MAX]
    first = fitting[0] if fitting else axes[-1]
    columns, rows = [first], [path for path in axes if path != first]
    width = len(space.values(first, space.spots))
    while len(rows) > 2:
        # Rows of many settings are hard to read: a short one more goes into the columns.
        last = rows[-1]
        width *= len(space.values(last, space.spots))
        if width > COLUMNS_MAX:
            break
        rows.remove(last)
        columns.insert(0, last)
    return columns, rows


def _filled(space: _Space, rows: Sequence[str], columns: Sequence[str]) -> float:
    """The share of the fields of an exact map in which there is a cell."""
    height = len({tuple(spot.values[path] for path in rows) for spot in space.spots})
    width = len({tuple(spot.values[path] for path in columns) for spot in space.spots})
    return len(space.spots) / (height * width)


def _exact(space: _Space, rows: Sequence[str], columns: Sequence[str]) -> Iterator[HeatMap]:
    height = len({tuple(spot.values[path] for path in rows) for spot in space.spots})
    if height <= ROWS_MAX or len(rows) < 2:
        yield from _tables(space, space.spots, rows, columns, "")
        return
    for value in space.values(rows[0], space.spots):
        spots = [spot for spot in space.spots if spot.values[rows[0]] == value]
        yield from _tables(space, spots, rows[1:], columns, f"{axis_name(rows[0])} {value}")


def _tables(
    space: _Space,
    spots: Sequence[Spot],
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
) -> Iterator[HeatMap]:
    """One map, or several below each other if there are too many columns."""
    row_keys = _keys(space, spots, rows)
    column_keys = _keys(space, spots, columns)
    found: dict[tuple[tuple[str, ...], tuple[str, ...]], list[Spot]] = {}
    for spot in spots:
        place = (_place(spot, rows), _place(spot, columns))
        found.setdefault(place, []).append(spot)
    heads = _row_heads(row_keys)
    for begin in range(0, len(column_keys), COLUMNS_MAX):
        part = column_keys[begin : begin + COLUMNS_MAX]
        yield HeatMap(
            title=title,
            row_axes=tuple(map(axis_name, rows)),
            column_axes=tuple(map(axis_name, columns)),
            column_heads=tuple(_column_heads(part, level) for level in range(len(columns))),
            rows=tuple(
                MapRow(heads[number], tuple(_field(found, row, column) for column in part))
                for number, row in enumerate(row_keys)
            ),
        )


def _field(
    found: Mapping[tuple[tuple[str, ...], tuple[str, ...]], list[Spot]],
    row: tuple[str, ...],
    column: tuple[str, ...],
) -> MapField:
    return MapField(tuple(found.get((row, column), ())))


def _place(spot: Spot, axes: Sequence[str]) -> tuple[str, ...]:
    return tuple(spot.values[path] for path in axes)


def _keys(space: _Space, spots: Sequence[Spot], axes: Sequence[str]) -> list[tuple[str, ...]]:
    """The combinations of `axes` that occur, in the order of their values."""
    ranks = [
        {value: number for number, value in enumerate(space.values(path, spots))} for path in axes
    ]
    present = {_place(spot, axes) for spot in spots}
    return sorted(
        present, key=lambda key: tuple(rank[v] for rank, v in zip(ranks, key, strict=True))
    )


def _column_heads(keys: Sequence[tuple[str, ...]], level: int) -> tuple[Head, ...]:
    """The headings of one level; equal ones side by side are joined."""
    return tuple(Head(text, span) for text, span in _joined(keys, level))


def _row_heads(keys: Sequence[tuple[str, ...]]) -> list[tuple[Head, ...]]:
    """For each row the headings that begin in it."""
    heads: list[list[Head]] = [[] for _ in keys]
    for level in range(len(keys[0]) if keys else 0):
        at = 0
        for text, span in _joined(keys, level):
            heads[at].append(Head(text, span))
            at += span
    return [tuple(row) for row in heads]


def _joined(keys: Sequence[tuple[str, ...]], level: int) -> list[tuple[str, int]]:
    """Runs of keys that are equal down to `level`."""
    edges = [0]
    edges += [
        number
        for number, (before, after) in enumerate(pairwise(keys), 1)
        if before[: level + 1] != after[: level + 1]
    ]
    edges.append(len(keys))
    return [(keys[begin][level], end - begin) for begin, end in pairwise(edges) if end > begin]


def _summarised(space: _Space, column: str) -> Iterator[HeatMap]:
    """Rows: each value of each other setting.  Also settings that no cell needs to be told
    apart: that they vary is why somebody wants to see them."""
    others = [
        path
        for path in sorted(space.varying, key=_row_rank)
        if path not in (column, CASE) and (path in space.axes or space._in_names(path))
    ]
    values = space.values(column, space.spots)
    for begin in range(0, len(values), COLUMNS_MAX):
        part = values[begin : begin + COLUMNS_MAX]
        rows: list[MapRow] = []
        for path in others:
            those = space.values(path, space.spots)
            for number, value in enumerate(those):
                heads = [Head(axis_name(path), len(those))] if number == 0 else []
                fields = [
                    MapField(
                        tuple(
                            spot
                            for spot in space.spots
                            if spot.values[path] == value and spot.values[column] == over
                        )
                    )
                    for over in part
                ]
                rows.append(MapRow((*heads, Head(value)), tuple(fields)))
        yield HeatMap(
            title="",
            row_axes=("setting", "value"),
            column_axes=(axis_name(column),),
            column_heads=(tuple(Head(value) for value in part),),
            rows=tuple(rows),
            summarised=True,
        )
