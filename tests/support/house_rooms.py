# SPDX-License-Identifier: Apache-2.0
"""The rooms of the house, read from the sources: what lies where, and what imports what.

A module lies in the room of its folder, `powercut.crash.states` in `crash`, `powercut_extras.probe`
in the extra `probe`.  While the rooms of today become those of docs/whats-here.md, house_rooms.tsv
says for each module that has not moved yet which room is to have it; one that has moved has no row.

    .venv/bin/python tests/support/house_rooms.py           prints the figures
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

CORE = "powercut"
EXTRAS = "powercut_extras"

ROOMS = (
    "model", "scenario", "host", "crash", "workload", "disk", "machine", "recover", "recording",
    "judge", "explore", "run", "report", "cli",
)  # fmt: skip
"""The rooms of the core.  Each imports those before it, and no other."""

TABLE = Path(__file__).with_suffix(".tsv")


API = "powercut.api"
"""It takes of every room what users get: that narrows no wall."""


@dataclass(frozen=True)
class Module:
    """One file of Python."""

    name: str
    room: str
    """One of `ROOMS`, or an extra with `EXTRAS` before it: `powercut_extras.probe`."""

    path: Path
    tree: ast.Module
    lines: int


@dataclass(frozen=True)
class Import:
    """`importer` takes `names` from `imported`; an empty one is the module itself."""

    importer: Module
    imported: Module
    names: frozenset[str]


class House:
    """All modules of one checkout."""

    def __init__(self, harness: Path, planned: dict[str, str] | None = None) -> None:
        """`planned` has the rooms of modules that have not moved yet; by default the table's."""
        self.planned = read_table() if planned is None else planned
        found = [
            self._module(harness, path)
            for package in (CORE, EXTRAS)
            for path in sorted((harness / package).rglob("*.py"))
        ]
        self.modules = {module.name: module for module in found}

    def _module(self, harness: Path, path: Path) -> Module:
        text = path.read_text()
        parts = path.relative_to(harness).with_suffix("").parts
        name = ".".join(parts).removesuffix(".__init__")
        return Module(
            name, self._room(name), path, ast.parse(text, path.name), len(text.splitlines())
        )

    def _room(self, name: str) -> str:
        return self.planned.get(name) or room_of_folder(name)

    @cached_property
    def imports(self) -> tuple[Import, ...]:
        """All of them, those in functions, too."""
        return tuple(
            Import(module, self.modules[name], frozenset(names))
            for module in self.modules.values()
            for name, names in self._imported(ast.walk(module.tree)).items()
            if name != module.name
        )

    @cached_property
    def loaded(self) -> dict[str, set[str]]:
        """What each module imports when it is loaded."""
        return {
            name: set(self._imported(module.tree.body)) - {name}
            for name, module in self.modules.items()
        }

    def _imported(self, nodes: Iterable[ast.AST]) -> dict[str, set[str]]:
        found: dict[str, set[str]] = defaultdict(set)
        for node in nodes:
            for name, taken in named(node):
                if f"{name}.{taken}" in self.modules:
                    found[f"{name}.{taken}"].add("")
                elif name in self.modules:
                    found[name].add(taken)
        return found

    @cached_property
    def wrong(self) -> tuple[Import, ...]:
        """Imports against the order: of a later room, or of an extra by anything but itself."""
        return tuple(one for one in self.imports if _is_wrong(one))

    def taken_from(self, room: str) -> frozenset[str]:
        """The names, and the modules as such, that other rooms of the core import of it."""
        return frozenset(
            one
            for importer, imported, one in self._taken
            if imported == room != importer and not is_extra(importer)
        )

    def taken_by_extras(self) -> frozenset[str]:
        """Those that extras import of the core."""
        return frozenset(
            one
            for importer, imported, one in self._taken
            if is_extra(importer) and not is_extra(imported)
        )

    @cached_property
    def _taken(self) -> frozenset[tuple[str, str, str]]:
        """Importing room, imported room, name."""
        return frozenset(
            (one.importer.room, one.imported.room, f"{one.imported.name}.{name}".rstrip("."))
            for one in self.imports
            if one.importer.name != API
            for name in one.names
        )

    def lines_of_core(self) -> int:
        """Lines of Python in all rooms that are no extra."""
        return sum(one.lines for one in self.modules.values() if not is_extra(one.room))

    def longest_chain(self) -> list[str]:
        """The longest way along all imports."""
        following: dict[str, set[str]] = {name: set() for name in self.modules}
        for one in self.imports:
            following[one.importer.name].add(one.imported.name)
        return longest_way(following)


def longest_way(following: Mapping[str, Set[str]]) -> list[str]:
    """The longest way on which each is followed by one of its own, and none comes twice."""
    known: dict[str, list[str]] = {}

    def way(name: str, above: frozenset[str]) -> list[str]:
        if name not in known:
            ways = [way(one, above | {name}) for one in sorted(following[name] - above)]
            known[name] = [name, *max(ways, key=len, default=[])]
        return known[name]

    return max((way(name, frozenset()) for name in following), key=len)


def room_of_folder(name: str) -> str:
    """The room of a module by where it lies."""
    package, *rest = name.split(".")
    if package == EXTRAS:
        return ".".join((EXTRAS, *rest[:1]))
    return rest[0] if rest else ROOMS[0]


def is_extra(room: str) -> bool:
    """Whether the core can do without it."""
    return room.partition(".")[0] == EXTRAS


def read_table() -> dict[str, str]:
    """By module that has not moved yet: the room that is to have it."""
    if not TABLE.exists():
        return {}
    rows = (line.split("\t") for line in TABLE.read_text().splitlines())
    return {module: room for room, module in rows}


def named(node: ast.AST) -> Iterator[tuple[str, str]]:
    """What a statement imports: modules, and of each a name, empty for the module itself."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name, ""
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"line {node.lineno}: relative import"
        for alias in node.names:
            yield node.module or "", alias.name


def _is_wrong(one: Import) -> bool:
    above, below = one.importer.room, one.imported.room
    if is_extra(below):
        return above != below
    return not is_extra(above) and ROOMS.index(below) > ROOMS.index(above)


def main(harness: Path) -> None:
    house = House(harness)
    counts: dict[str, list[int]] = defaultdict(list)
    for module in house.modules.values():
        counts[module.room].append(module.lines)
    for room in sorted(counts, key=lambda one: (is_extra(one), one)):
        names = len(house.taken_from(room))
        lines = counts[room]
        sys.stdout.write(
            f"{room:28}{sum(lines):8,} lines {len(lines):4} modules {names:4} names taken\n"
        )
    sys.stdout.write(
        f"core {house.lines_of_core():,} lines; {len(house.wrong)} imports the wrong way; "
        f"longest chain {len(house.longest_chain())}; "
        f"{len(house.taken_by_extras())} names taken by extras\n"
    )


if __name__ == "__main__":
    main(Path(__file__).parents[2] / "harness")
