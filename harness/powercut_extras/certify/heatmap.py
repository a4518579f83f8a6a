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

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from powercut.model.verdict import Verdict
from powercut_extras.certify.cell_settings import CASE, CellSettings, Spot, axis_name, row_rank
from powercut_extras.certify.certificate import CertifiedCell

COLUMNS_MAX: Final = 12
"""More columns than this become a further map below."""

ROWS_MAX: Final = 48
"""More rows than this become a map for each value of their first setting."""

_FILLED_MIN: Final = 0.34
"""Exact maps with a smaller share of fields than this are summarised instead."""

_COLUMNS: Final = (
    "machine.cache",
    "disk.volatile_cache",
    "machine.guest_write_cache",
    "disk.flush",
    "workload.sync",
    "filesystem.type",
)
"""What goes into the columns, the first that tells cells apart."""


@dataclass(frozen=True)
class MapField:
    """One field; no spots if the combination was not tested."""

    spots: tuple[Spot, ...] = ()

    @property
    def worst(self) -> Spot | None:
        """The spot to look at first: the worst verdict, of these an unexpected one."""
        return max(
            self.spots,
            key=lambda spot: (spot.cell.verdict, not spot.cell.as_expected, -spot.index),
            default=None,
        )

    @property
    def counts(self) -> tuple[tuple[Verdict, int], ...]:
        """How many spots have each verdict, the worst first."""
        verdicts = Counter(spot.cell.verdict for spot in self.spots)
        return tuple((verdict, verdicts[verdict]) for verdict in sorted(verdicts, reverse=True))

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


def lay_out(
    cells: Sequence[tuple[int, CertifiedCell]], order: Mapping[str, Sequence[Any]]
) -> Layout:
    """The maps of `cells`, all of one scenario, each given with its number in the certificate.

    `order` is what the certificate says of its axes: their values, in order.
    """
    if not cells:
        return Layout(())
    settings = CellSettings(cells, order)
    columns, rows = _split(settings)
    families = {
        spot.index: " | ".join(spot.values[path] for path in rows) for spot in settings.spots
    }
    if _filled(settings, rows, columns) < _FILLED_MIN and len(settings.axes) > 2:
        return Layout(tuple(_summarised(settings, columns[-1])), {}, tuple(settings.axes))
    return Layout(tuple(_exact(settings, rows, columns)), families, tuple(settings.axes))


def _split(settings: CellSettings) -> tuple[list[str], list[str]]:
    """Which settings go into the columns and which into the rows."""
    axes = settings.axes
    if len(axes) < 2:
        return [], list(axes)
    wanted = [path for path in _COLUMNS if path in axes]
    fitting = [path for path in wanted if len(settings.values(path, settings.spots)) <= COLUMNS_MAX]
    first = fitting[0] if fitting else axes[-1]
    columns, rows = [first], [path for path in axes if path != first]
    width = len(settings.values(first, settings.spots))
    while len(rows) > 2:
        # Rows of many settings are hard to read: a short one more goes into the columns.
        last = rows[-1]
        width *= len(settings.values(last, settings.spots))
        if width > COLUMNS_MAX:
            break
        rows.remove(last)
        columns.insert(0, last)
    return columns, rows


def _filled(settings: CellSettings, rows: Sequence[str], columns: Sequence[str]) -> float:
    """The share of the fields of an exact map in which there is a cell."""
    height = len({tuple(spot.values[path] for path in rows) for spot in settings.spots})
    width = len({tuple(spot.values[path] for path in columns) for spot in settings.spots})
    return len(settings.spots) / (height * width)


def _exact(
    settings: CellSettings, rows: Sequence[str], columns: Sequence[str]
) -> Iterator[HeatMap]:
    height = len({tuple(spot.values[path] for path in rows) for spot in settings.spots})
    if height <= ROWS_MAX or len(rows) < 2:
        yield from _tables(settings, settings.spots, rows, columns, "")
        return
    for value in settings.values(rows[0], settings.spots):
        spots = [spot for spot in settings.spots if spot.values[rows[0]] == value]
        yield from _tables(settings, spots, rows[1:], columns, f"{axis_name(rows[0])} {value}")


def _tables(
    settings: CellSettings,
    spots: Sequence[Spot],
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
) -> Iterator[HeatMap]:
    """One map, or several below each other if there are too many columns."""
    row_keys = _keys(settings, spots, rows)
    column_keys = _keys(settings, spots, columns)
    by_place: dict[tuple[tuple[str, ...], tuple[str, ...]], list[Spot]] = {}
    for spot in spots:
        place = (_place(spot, rows), _place(spot, columns))
        by_place.setdefault(place, []).append(spot)
    heads = _row_heads(row_keys)
    for begin in range(0, len(column_keys), COLUMNS_MAX):
        part = column_keys[begin : begin + COLUMNS_MAX]
        yield HeatMap(
            title=title,
            row_axes=tuple(map(axis_name, rows)),
            column_axes=tuple(map(axis_name, columns)),
            column_heads=tuple(_column_heads(part, level) for level in range(len(columns))),
            rows=tuple(
                MapRow(heads[number], tuple(_field(by_place, row, column) for column in part))
                for number, row in enumerate(row_keys)
            ),
        )


def _field(
    by_place: Mapping[tuple[tuple[str, ...], tuple[str, ...]], list[Spot]],
    row: tuple[str, ...],
    column: tuple[str, ...],
) -> MapField:
    return MapField(tuple(by_place.get((row, column), ())))


def _place(spot: Spot, axes: Sequence[str]) -> tuple[str, ...]:
    return tuple(spot.values[path] for path in axes)


def _keys(
    settings: CellSettings, spots: Sequence[Spot], axes: Sequence[str]
) -> list[tuple[str, ...]]:
    """The combinations of `axes` that occur, in the order of their values."""
    ranks = [
        {value: number for number, value in enumerate(settings.values(path, spots))}
        for path in axes
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


def _summarised(settings: CellSettings, column: str) -> Iterator[HeatMap]:
    """Rows: each value of each other setting.  Also settings that no cell needs to be told
    apart: that they vary is why they are shown."""
    others = [
        path
        for path in sorted(settings.varying, key=row_rank)
        if path not in (column, CASE) and (path in settings.axes or settings.in_names(path))
    ]
    values = settings.values(column, settings.spots)
    for begin in range(0, len(values), COLUMNS_MAX):
        part = values[begin : begin + COLUMNS_MAX]
        rows: list[MapRow] = []
        for path in others:
            those = settings.values(path, settings.spots)
            for number, value in enumerate(those):
                heads = [Head(axis_name(path), len(those))] if number == 0 else []
                fields = [
                    MapField(
                        tuple(
                            spot
                            for spot in settings.spots
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
