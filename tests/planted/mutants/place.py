# SPDX-License-Identifier: Apache-2.0
"""Where a bug is planted: a function by its name, and in it an expression, a statement or several.

Layout does not count: code is compared as `ast.unparse` writes it, C with any white space where
some stands.  So a refactoring that moves or formats code leaves its mutants alone.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_BARE = (ast.keyword, ast.Starred)  # which take no parentheses


@dataclass(frozen=True)
class At:
    """`code` in `function`: a qualified name ("Class.method", "outer.inner"), "" for the module."""

    function: str
    code: str


@dataclass(frozen=True)
class Span:
    """A part of a file, in bytes; `indent` is that of a statement, -1 for an expression."""

    begin: int
    end: int
    indent: int = -1
    bare: bool = False


def planted(file: str, text: str, place: At, new: str) -> str:
    """The text with `new` at that place.  Raises LookupError unless the place is there once."""
    found = spans(file, text, place)
    if len(found) != 1:
        raise LookupError(
            f"{file}, {place.function}: {place.code!r} stands there {len(found)} times"
        )
    (span,) = found
    data = text.encode()
    if not file.endswith(".py"):
        put = new
    elif span.indent >= 0:
        put = textwrap.indent(textwrap.dedent(new), " " * span.indent).lstrip()
    else:
        put = new if span.bare else f"({new})"
    return (data[: span.begin] + put.encode() + data[span.end :]).decode()


def spans(file: str, text: str, place: At) -> list[Span]:
    """All parts of the text that are that code in that function."""
    return _of_python(text, place) if file.endswith(".py") else _of_c(text, place)


def _of_python(text: str, place: At) -> list[Span]:
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    wanted, length = forms(place.code), 1
    with suppress(SyntaxError):
        length = len(ast.parse(textwrap.dedent(place.code).strip()).body)
    found = {}
    for top in functions(ast.parse(text), place.function):
        for nodes in parts(top, length):
            if "\n".join(ast.unparse(node) for node in nodes) in wanted:
                first, last = nodes[0], nodes[-1]
                begin = starts[_line(first) - 1] + first.col_offset
                end = starts[last.end_lineno - 1] + last.end_col_offset
                is_statement = isinstance(first, ast.stmt)
                indent = first.col_offset if is_statement else -1
                span = Span(begin, end, indent, isinstance(first, _BARE))
                if (begin, end) not in found or indent < 0:
                    found[begin, end] = span
    return list(found.values())


def _line(node: ast.AST) -> int:
    """The first line of a node, decorators included."""
    return min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])


def forms(code: str) -> set[str]:
    """How `ast.unparse` writes that code: as statements, as an expression, as a keyword."""
    code = textwrap.dedent(code).strip()
    said = set()
    with suppress(SyntaxError):
        said.add(ast.unparse(ast.parse(code)))
    with suppress(SyntaxError):
        (call,) = ast.parse(f"_({code})").body
        said.update(ast.unparse(keyword) for keyword in call.value.keywords)
    return said


def functions(module: ast.Module, name: str) -> Iterator[ast.AST]:
    """The functions or classes of that qualified name; the module for an empty one."""
    if not name:
        yield module
        return
    tops: list[ast.AST] = [module]
    for word in name.split("."):
        tops = [
            node for top in tops for node in _inner(top)
            if isinstance(node, _FUNCTIONS) and node.name == word
        ]  # fmt: skip
    yield from tops


def _inner(top: ast.AST) -> Iterator[ast.AST]:
    """What lies in it, but not what lies in a function of it."""
    for node in ast.iter_child_nodes(top):
        yield node
        if not isinstance(node, _FUNCTIONS):
            yield from _inner(node)


def parts(top: ast.AST, length: int) -> Iterator[tuple[ast.AST, ...]]:
    """Each expression and each run of so many statements; not what lies in an f-string, whose
    positions Python 3.11 does not know.
    """
    for node in ast.iter_child_nodes(top):
        if isinstance(node, (ast.expr, ast.keyword)):
            yield (node,)
        if not isinstance(node, ast.JoinedStr):
            yield from parts(node, length)
    for name in ("body", "orelse", "finalbody"):
        body = getattr(top, name, None)
        if isinstance(body, list):
            for first in range(len(body) - length + 1):
                yield tuple(body[first : first + length])


def _of_c(text: str, place: At) -> list[Span]:
    words = [re.escape(word) for word in place.code.split()]
    found = re.finditer(r"\s+".join(words), text)
    area = (0, len(text)) if not place.function else c_function(text, place.function)
    return [
        Span(len(text[: m.start()].encode()), len(text[: m.end()].encode()))
        for m in found
        if area[0] <= m.start() and m.end() <= area[1]
    ]


def c_function(text: str, name: str) -> tuple[int, int]:
    """From a function's name to the brace at the margin that ends it; an empty area if none."""
    begin = re.search(rf"^\w[^;={{}}]*?\b{re.escape(name)}\([^;]*?\)\s*\{{", text, re.MULTILINE)
    if begin is None:
        return (0, 0)
    end = text.find("\n}", begin.end())
    return begin.start(), end if end >= 0 else len(text)
