# SPDX-License-Identifier: Apache-2.0
"""How large the house is and how its parts hang together, as Markdown; of this or another checkout.

    .venv/bin/python tests/bench/house.py [CHECKOUT]

docs/measured/house.md has what it said, and what each row counts.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from house_rooms import House, longest_way

LATENCY = re.compile(r"\b(flush|fua)_latency")
PLACE = re.compile(r"\bworkload\.where\b|\bworkload\.root\b|\bmachine\.backend\b|\bWhere\.[A-Z]")


def closure(house: House, *roots: str) -> set[str]:
    """Those modules and all that they load, in the end."""
    seen: set[str] = set()
    left = [root for root in roots if root in house.modules]
    while left:
        if (one := left.pop()) not in seen:
            seen.add(one)
            left += house.loaded[one]
    return seen


def lines_of(harness: Path) -> dict[str, int]:
    """Lines of Python and C below harness/, by folder."""
    found: dict[str, int] = {}
    for path in sorted(harness.rglob("*")):
        if path.is_file() and path.suffix in (".py", ".c", ".h"):
            parts = path.relative_to(harness).parts
            room = parts[1] if parts[0] == "powercut" else f"{parts[0]} (C)"
            room = "files of no room" if room.endswith(".py") or ".py " in room else room
            found[room] = found.get(room, 0) + len(path.read_text().splitlines())
    return found


def asked_for_kinds(house: House) -> int:
    """How often isinstance asks for a class of the package that is no protocol."""
    trees = [module.tree for module in house.modules.values()]
    classes = [n for tree in trees for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]
    kinds = {one.name for one in classes if not _is_protocol(one)}
    return sum(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "isinstance"
        and bool({n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)} & kinds)
        for tree in trees
        for node in ast.walk(tree)
    )


def _is_protocol(node: ast.ClassDef) -> bool:
    return any("Protocol" in ast.unparse(base) for base in node.bases)


def main(root: Path) -> None:
    house, lines = House(root / "harness"), lines_of(root / "harness")
    texts = [module.path.read_text() for module in house.modules.values()]
    trial = [name for name in house.modules if re.fullmatch(r"powercut\.(trial|run)\.\w+", name)]
    rows = {
        **{room: f"{number:,}" for room, number in sorted(lines.items())},
        "all of harness/": f"{sum(lines.values()):,}",
        "modules": len(house.modules),
        "modules loaded for a trial": len(closure(house, *trial)),
        "longest chain of imports": len(longest_way(house.loaded)),
        "isinstance on a kind": asked_for_kinds(house),
        "asks where it runs": sum(len(PLACE.findall(text)) for text in texts),
        "modules that name a latency of the disk": sum(bool(LATENCY.search(t)) for t in texts),
    }
    for what, number in rows.items():
        sys.stdout.write(f"| {what} | {number} |\n")


if __name__ == "__main__":
    main(Path(*sys.argv[1:2]))
