# SPDX-License-Identifier: Apache-2.0
"""Mutants that a seed draws out of all places in the rooms that a verdict rests on.

What may become of a place is said by the operators of cosmic-ray: a comparison becomes another
one, `and` becomes `or`, a number its neighbour, a loop runs for nothing, an exception is not caught.
First a place is drawn and then an operator, or a plus, which has twelve of them, would come up
twelve times as often as a `not`.

A mutant runs against the tests that import its module, then those of its room, and then those that
import what imports it.  It counts as noticed as well if these do not end.  One that nobody can
notice belongs into EQUIVALENT.
"""

from __future__ import annotations

import ast
import difflib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mutants.mutant import Suite, pytest

from powercut.paths import ROOT

ROOMS: Final = {
    "crash": ("tests/unit/crash",),
    "checkers": ("tests/unit/checkers",),
    "verdict": ("tests/unit/verdict",),
    "recording": ("tests/unit/recording",),
    "explore": ("tests/unit/explore",),
    "recover": ("tests/unit/recover",),
    "workload": ("tests/unit/workload",),
    "channel": ("tests/unit/channel",),
}
"""Where mutants are drawn, and the tests of that room."""

_HARNESS: Final = "harness/powercut"
_NEAR: Final = ("tests/unit", "tests/property", "tests/planted")
_NEAR_MAX: Final = 8
_NEXT_MAX: Final = 24
_LEFT_OUT: Final = ("core/RemoveDecorator", "core/VariableReplacer", "core/VariableInserter")
"""The first leaves what is no program; the others need to be told names."""

EQUIVALENT: Final[dict[tuple[str, str, str], str]] = {
    (
        "harness/powercut/explore/state_images.py",
        "if space is not self._other[0]:",
        "if space is not self._other[ 1]:",
    ): "what is kept is computed each time, and comes to the same",
}
"""Why no test can notice it, by file, line and what the line becomes."""


@dataclass(frozen=True)
class Drawn:
    """One change of one file; `before` and `after` are the lines that differ."""

    file: str
    line: int
    operator: str
    before: str
    after: str
    text: str

    @property
    def suite(self) -> Suite:
        """The nearest tests."""
        near = nearest(self.file)
        room = ROOMS[Path(self.file).parts[2]]
        following = next_nearest(self.file)
        checks = [pytest(*files) for files in (near, room, following) if files]
        return Suite(self.file, (), tuple(checks))

    @property
    def equivalent(self) -> str:
        """Why no test can notice it; empty for one that has to be."""
        return EQUIVALENT.get((self.file, self.before, self.after), "")

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.operator}\n  - {self.before}\n  + {self.after}"


def nearest(file: str) -> tuple[str, ...]:
    """The test files that import a module, shortest first: those are of little else."""
    return _tests_of([file])[:_NEAR_MAX]


def next_nearest(file: str) -> tuple[str, ...]:
    """The same of the modules that import it, without those."""
    above = [path for path in (ROOT / _HARNESS).rglob("*.py") if _imports([file], path.read_text())]
    found = _tests_of([path.relative_to(ROOT).as_posix() for path in above])
    near = nearest(file)
    return tuple(one for one in found[:_NEXT_MAX] if one not in near)


def _tests_of(modules: Sequence[str]) -> tuple[str, ...]:
    found = [
        path
        for folder in _NEAR
        for path in (ROOT / folder).rglob("test_*.py")
        if "mark.vm" not in (text := path.read_text()) and _imports(modules, text)
    ]
    found.sort(key=lambda path: (path.stat().st_size, path))
    return tuple(path.relative_to(ROOT).as_posix() for path in found)


def _imports(files: Sequence[str], text: str) -> bool:
    names = (one.removeprefix("harness/").removesuffix(".py").replace("/", ".") for one in files)
    return any(f"from {name} import" in text for name in names)


def files(rooms: Sequence[str]) -> list[str]:
    """The modules of some rooms."""
    return [
        path.relative_to(ROOT).as_posix()
        for room in rooms
        for path in sorted((ROOT / _HARNESS / room).rglob("*.py"))
        if path.name != "__init__.py"
    ]


def draw(seed: int, rooms: Sequence[str]) -> Iterator[Drawn]:
    """Mutants without end, none of them twice, and none that changes nothing a program does."""
    chosen = random.Random(f"mutants {seed}")
    names = files(rooms)
    texts = {name: (ROOT / name).read_text() for name in names}
    sizes = [len(texts[name]) for name in names]
    places: dict[str, list[list[tuple[str, int]]]] = {}
    seen: set[tuple[str, str]] = set()
    while True:
        (file,) = chosen.choices(names, sizes)
        if file not in places:
            places[file] = _places(texts[file])
        if not places[file]:
            continue
        operator, occurrence = chosen.choice(chosen.choice(places[file]))
        text = _mutated(texts[file], operator, occurrence)
        if (file, text) in seen or not _differs(texts[file], text):
            continue
        seen.add((file, text))
        yield _drawn(file, operator, texts[file], text)


def _operators() -> dict[str, Any]:
    from cosmic_ray import plugins  # by whoever draws: it is of no use to others

    names = (name for name in plugins.operator_names() if name not in _LEFT_OUT)
    return {name: plugins.get_operator(name)() for name in names}


def _places(text: str) -> list[list[tuple[str, int]]]:
    """For each place the operators that it has, and which of their occurrences it is."""
    from cosmic_ray.ast import ast_nodes, get_ast

    nodes = list(ast_nodes(get_ast(text)))
    found: dict[object, list[tuple[str, int]]] = {}
    for name, operator in _operators().items():
        spots = [spot for node in nodes for spot in operator.mutation_positions(node)]
        for occurrence, spot in enumerate(spots):
            found.setdefault(spot, []).append((name, occurrence))
    return list(found.values())


def _mutated(text: str, operator: str, occurrence: int) -> str:
    from cosmic_ray.mutating import mutate_code

    made: str = mutate_code(text, _operators()[operator], occurrence)
    return made


def _differs(text: str, made: str) -> bool:
    """Whether it is a program, and another one: annotations and docstrings do not count, and
    what a decorator is told does not either."""
    try:
        return _meaning(text) != _meaning(made)
    except SyntaxError:
        return False


def _meaning(text: str) -> str:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
            node.decorator_list = []
        elif isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
        elif isinstance(node, ast.ClassDef):
            node.decorator_list = []
    return ast.dump(tree)


def _drawn(file: str, operator: str, text: str, made: str) -> Drawn:
    old, new = text.splitlines(), made.splitlines()
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    changes = [change for change in matcher.get_opcodes() if change[0] != "equal"]
    _, first, last, begin, end = changes[0]
    before = " ".join(line.strip() for line in old[first:last])
    after = " ".join(line.strip() for line in new[begin:end])
    return Drawn(file, first + 1, operator.removeprefix("core/"), before, after, made)
