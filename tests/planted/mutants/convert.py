# SPDX-License-Identifier: Apache-2.0
"""Rewrites entries that give lines of text into entries that give a place.

    .venv/bin/python tests/planted/mutants/convert.py

An entry (name, old text, new text, ...) whose old text stands once in its file becomes
(name, At(function, code), new code, ...): the smallest expression or run of statements that
differs, and is there once.  What planting it gives is the same program; where it is not, the
script says so and leaves the entry.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE.parent), str(ROOT / "harness")]

from mutants.place import At, c_function, planted, spans  # noqa: E402 (the path is set above)

Nodes = tuple[ast.AST, ...]
TABLES = [path for path in sorted(HERE.glob("*.py")) if "\nMUTANTS: tuple" in path.read_text()]


def differences(old: ast.AST, new: ast.AST) -> Iterator[tuple[Nodes, Nodes]]:
    """Pairs of what differs, the widest first."""
    if type(old) is not type(new):
        return
    changed = [
        (getattr(old, name, None), getattr(new, name, None))
        for name in old._fields
        if _dump(getattr(old, name, None)) != _dump(getattr(new, name, None))
    ]
    if len(changed) != 1:
        return
    a, b = changed[0]
    if isinstance(a, ast.AST) and isinstance(b, ast.AST):
        yield (a,), (b,)
        yield from differences(a, b)
    elif isinstance(a, list) and isinstance(b, list):
        yield from _in_lists(a, b)


def _in_lists(a: list[ast.AST], b: list[ast.AST]) -> Iterator[tuple[Nodes, Nodes]]:
    first = 0
    while first < min(len(a), len(b)) and _dump(a[first]) == _dump(b[first]):
        first += 1
    last = 0
    while last < min(len(a), len(b)) - first and _dump(a[-1 - last]) == _dump(b[-1 - last]):
        last += 1
    kind = a or b
    if kind and isinstance(kind[0], ast.stmt):
        for more in (2, 1, 0):  # neighbours, where a statement stands twice
            begin, end = max(0, first - more), max(0, last - more)
            left, right = a[begin : len(a) - end], b[begin : len(b) - end]
            if left and right:
                yield tuple(left), tuple(right)
    left, right = a[first : len(a) - last], b[first : len(b) - last]
    if len(left) == len(right) == 1 and isinstance(left[0], ast.AST):
        yield (left[0],), (right[0],)
        yield from differences(left[0], right[0])


def _dump(node: object) -> str:
    if isinstance(node, list):
        return "[" + ",".join(_dump(one) for one in node) + "]"
    return ast.dump(node) if isinstance(node, ast.AST) else repr(node)


def owner(text: str, nodes: Nodes) -> str:
    """The qualified name of the innermost function or class around those nodes."""
    line, names = nodes[0].lineno, ""

    def descend(top: ast.AST, name: str) -> None:
        nonlocal names
        for node in ast.iter_child_nodes(top):
            here = name
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                here = f"{name}.{node.name}".lstrip(".")
                if node.lineno <= line <= node.end_lineno and node is not nodes[0]:
                    names = here
            descend(node, here)

    descend(ast.parse(text), "")
    return names


def of_python(file: str, text: str, old: str, new: str) -> tuple[At, str] | None:
    """The smallest place, and what becomes of it."""
    mutated = text.replace(old, new)
    wanted = ast.dump(ast.parse(mutated))
    best = None
    poor = (ast.Constant, ast.Name, ast.Attribute)  # too little to know the place by
    for a, b in differences(ast.parse(text), ast.parse(mutated)):
        if not isinstance(a[0], (ast.expr, ast.stmt, ast.keyword)):
            continue
        if best and isinstance(a[0], poor):
            continue
        place = At(owner(text, a), "\n".join(map(ast.unparse, a)))
        said = "\n".join(map(ast.unparse, b))
        try:
            if ast.dump(ast.parse(planted(file, text, place, said))) == wanted:
                best = place, said
        except (LookupError, SyntaxError):
            continue
    return best


def of_c(file: str, text: str, old: str, new: str) -> tuple[At, str] | None:
    """The same text in its function."""
    at = text.index(old)
    names = re.findall(r"^\w[^;={}]*?\b(\w+)\([^;]*?\)\s*\{", text[:at], re.MULTILINE)
    for name in (*names[-1:], ""):
        if name and not (c_function(text, name)[0] <= at < c_function(text, name)[1]):
            continue
        place = At(name, old.strip())
        before, after = old[: len(old) - len(old.lstrip())], old[len(old.rstrip()) :]
        said = new.removeprefix(before).removesuffix(after) if after else new.removeprefix(before)
        if len(spans(file, text, place)) != 1:
            continue
        if planted(file, text, place, said).split() == text.replace(old, new).split():
            return place, said
    return None


def literal(text: str) -> str:
    """That string as a Python literal, line by line."""
    if "\n" not in text:
        return repr(text)
    return "(" + "".join(repr(line) + " " for line in text.splitlines(keepends=True)) + ")"


def _value(node: ast.AST, constants: dict[str, str]) -> str:
    """The string that an expression of a table is."""
    return str(eval(ast.unparse(node), {"__builtins__": {}}, dict(constants)))


def convert(table: Path) -> int:
    """Rewrites one table; how many entries are left as they were."""
    source = table.read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    constants = {
        node.targets[0].id: node.value.value
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
    }
    edits, left = [], 0
    for call in ast.walk(ast.parse(source)):
        if not (isinstance(call, ast.Call) and call.args and isinstance(call.func, ast.Name)):
            continue
        entries = [arg for arg in call.args[1:] if isinstance(arg, ast.Tuple)]
        if not entries or len(entries) != len(call.args) - 1:
            continue
        file = _value(call.args[0], constants)
        text = (ROOT / file).read_text()
        for entry in entries:
            if ast.unparse(entry.elts[1]).startswith("At("):
                continue
            old, new = (_value(entry.elts[n], constants) for n in (1, 2))
            made = None
            if text.count(old) == 1:
                made = (of_python if file.endswith(".py") else of_c)(file, text, old, new)
            if made is None:
                left += 1
                name = ast.literal_eval(entry.elts[0])
                sys.stderr.write(f"{table.name}: {name}: {old!r} is left as it was\n")
                continue
            place, said = made
            begin = starts[entry.elts[1].lineno - 1] + entry.elts[1].col_offset
            end = starts[entry.elts[2].end_lineno - 1] + entry.elts[2].end_col_offset
            put = f"At({place.function!r}, {literal(place.code)}), {literal(said)}"
            edits.append((begin, end, put))
    for begin, end, put in sorted(edits, reverse=True):
        source = source[:begin] + put.encode() + source[end:]
    if edits and b"import At" not in source:
        above = b"from mutants.suites"
        source = source.replace(above, b"from mutants.place import At\n" + above, 1)
    if edits:
        table.write_bytes(source)
        subprocess.run([Path(sys.executable).with_name("ruff"), "format", "-q", table], check=True)
    return left


if __name__ == "__main__":
    sys.exit(1 if sum(map(convert, TABLES)) else 0)
