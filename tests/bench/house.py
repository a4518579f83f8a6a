# SPDX-License-Identifier: Apache-2.0
"""How large the house is and how its parts hang together, as Markdown; of this or another checkout.

    .venv/bin/python tests/bench/house.py [CHECKOUT]

docs/measured/house.md has what it said, and what each row counts.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Iterator
from pathlib import Path

PLACE = re.compile(r"\bworkload\.where\b|\bworkload\.root\b|\bmachine\.backend\b|\bWhere\.[A-Z]")


class House:
    """The modules of one checkout, by dotted name."""

    def __init__(self, root: Path) -> None:
        self.harness = root / "harness"
        paths = sorted((self.harness / "powercut").rglob("*.py"))
        self.texts = {self._name(path): path.read_text() for path in paths}
        self.trees = {name: ast.parse(text) for name, text in self.texts.items()}
        classes = [
            n for t in self.trees.values() for n in ast.walk(t) if isinstance(n, ast.ClassDef)
        ]
        self.kinds = {one.name for one in classes if not _is_protocol(one)}

    def _name(self, path: Path) -> str:
        return ".".join(path.relative_to(self.harness).with_suffix("").parts).removesuffix(
            ".__init__"
        )

    @functools.cached_property
    def imports(self) -> dict[str, set[str]]:
        """What each module imports when it is loaded."""
        return {name: set(self._imported(tree)) - {name} for name, tree in self.trees.items()}

    def _imported(self, tree: ast.Module) -> Iterator[str]:
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    yield from {inner if inner in self.trees else node.module} & self.trees.keys()

    def closure(self, *roots: str) -> set[str]:
        """Those modules and all that they import, in the end."""
        seen: set[str] = set()
        left = [root for root in roots if root in self.trees]
        while left:
            if (one := left.pop()) not in seen:
                seen.add(one)
                left += self.imports[one]
        return seen

    def longest_chain(self) -> int:
        """How many modules the longest way along imports passes through."""

        @functools.cache
        def depth(name: str) -> int:
            return 1 + max((depth(one) for one in self.imports[name]), default=0)

        return max(map(depth, self.imports))

    def lines(self) -> dict[str, int]:
        """Lines of Python and C below harness/, by room."""
        found: dict[str, int] = {}
        for path in sorted(self.harness.rglob("*")):
            if path.is_file() and path.suffix in (".py", ".c", ".h"):
                parts = path.relative_to(self.harness).parts
                room = parts[1] if parts[0] == "powercut" else f"{parts[0]} (C)"
                room = "files of no room" if room.endswith(".py") or ".py " in room else room
                found[room] = found.get(room, 0) + len(path.read_text().splitlines())
        return found

    def asked_for_kinds(self) -> int:
        """How often isinstance asks for a class of the package that is no protocol."""
        return sum(
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "isinstance"
            and bool({n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)} & self.kinds)
            for tree in self.trees.values()
            for node in ast.walk(tree)
        )

    def naming(self, pattern: re.Pattern[str]) -> list[str]:
        """Modules that say it."""
        return [name for name, text in self.texts.items() if pattern.search(text)]

    def asked_for_place(self) -> int:
        """How often code asks where a workload runs."""
        return sum(len(PLACE.findall(text)) for text in self.texts.values())


def _is_protocol(node: ast.ClassDef) -> bool:
    return any("Protocol" in ast.unparse(base) for base in node.bases)


def main(root: Path) -> None:
    house = House(root)
    lines = house.lines()
    trial = [name for name in house.trees if re.fullmatch(r"powercut\.(trial|run)\.\w+", name)]
    latency = re.compile(r"\b(flush|fua)_latency")
    rows = {
        **{room: f"{number:,}" for room, number in sorted(lines.items())},
        "all of harness/": f"{sum(lines.values()):,}",
        "modules": len(house.trees),
        "modules loaded for a trial": len(house.closure(*trial)),
        "longest chain of imports": house.longest_chain(),
        "isinstance on a kind": house.asked_for_kinds(),
        "asks where it runs": house.asked_for_place(),
        "modules that name a latency of the disk": len(house.naming(latency)),
    }
    for what, number in rows.items():
        sys.stdout.write(f"| {what} | {number} |\n")


if __name__ == "__main__":
    main(Path(*sys.argv[1:2]))
