# SPDX-License-Identifier: Apache-2.0
"""Which settings tell the cells of a scenario apart, and what a person calls them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from powercut_extras.certify.certificate import CertifiedCell

CASE: Final = "cell"
"""The name that a scenario gives to a cell, where that tells cells apart."""

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
    "machine.hotplug": "plugged in later",
    "machine.iothread": "thread of its own",
    "machine.queues": "queues",
    "machine.qemu": "QEMU",
    "machine.during": "meanwhile",
    "machine.qemu_after_move": "QEMU afterwards",
    "machine.cache_after_move": "cache mode afterwards",
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


class CellSettings:
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
        matrix = [path for path in self.varying if self.in_names(path)]
        chosen = sorted(matrix, key=row_rank)
        if not self._unique(chosen) and CASE in self.varying:
            chosen.insert(0, CASE)
        for path in sorted(self.varying, key=row_rank):
            if self._unique(chosen):
                break
            if path not in chosen and self._refines(chosen, path):
                chosen.append(path)
        return chosen

    def in_names(self, path: str) -> bool:
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


def row_rank(path: str) -> tuple[int, str]:
    """By what to sort settings, so that they stand in the order of rows."""
    return (_ROWS.index(path) if path in _ROWS else len(_ROWS), path)
