# SPDX-License-Identifier: Apache-2.0
"""YAML files of ours: reading them, and saying where in them a mistake is.

A mistake reads `file:line:column: key.path: message, got VALUE; did you mean NEAREST?`
"""

from __future__ import annotations

import difflib
import json
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, YAMLError

from powercut.model.errors import UsageError
from powercut.model.named_path import openable

KeyPath = tuple[str | int, ...]

TEXT_MAX = 16 << 20
"""Bytes of a file of ours."""

NODES_MAX = 1_000_000
"""Values that a file may have, aliases written out."""

DEPTH_MAX = 200
"""Brackets within brackets."""

_ENDLESS = 1 << 60


@dataclass(frozen=True)
class Fault:
    """Something wrong at `path` of the file."""

    path: KeyPath
    message: str
    value: Any = None
    near: tuple[str, ...] = ()
    has_value: bool = False


def read_text(path: Path, what: str, hint: str) -> str:
    """The text of a file that is a `what`.  Raises UsageError, with `hint`."""
    try:
        with openable(path).open(encoding="utf-8") as file:
            text = file.read(TEXT_MAX + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise UsageError(f"{path}: cannot read the {what}: {reason}", hint=hint) from error
    if len(text) > TEXT_MAX:
        raise UsageError(f"{path}: more than {TEXT_MAX >> 20} MiB: that is no {what}", hint=hint)
    return text


def parse_yaml(text: str, path: Path, not_a_mapping: tuple[str, str]) -> CommentedMap:
    """`text` as a mapping that knows its lines.

    Raises UsageError; `not_a_mapping` is what to say, and the hint, if it is something else.
    """
    too_deep = UsageError(f"{path}: nested too deeply", hint=not_a_mapping[1])
    if _brackets(text) > DEPTH_MAX:  # which take the scanner time that grows with their square
        raise too_deep
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReusedAnchorWarning)  # the last one counts
            document = YAML(typ="rt").load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise UsageError(f"{place}: not valid YAML: {error.problem or error.context}") from error
    except YAMLError as error:
        raise UsageError(f"{path}: not valid YAML: {error}") from error
    except RecursionError:
        raise too_deep from None
    except (ValueError, TypeError, AttributeError, LookupError, AssertionError) as error:
        # What its constructors make of odd tags, dates and keys.
        raise UsageError(f"{path}: not valid YAML: {error}") from error
    if _odd_key(document):
        raise UsageError(f"{path}: a key is no word", hint=not_a_mapping[1])
    if (size := _expanded(document)) > NODES_MAX:
        how_many = f"{size:,} values" if size < _ENDLESS else "values without end"
        raise UsageError(
            f"{path}: its aliases stand for {how_many}, and {NODES_MAX:,} are the most",
            hint="write fewer aliases of aliases",
        )
    if not isinstance(document, CommentedMap):
        message, hint = not_a_mapping
        raise UsageError(f"{path}:1:1: {message}", hint=hint)
    return document


def _brackets(text: str) -> int:
    """The depth of flow collections in `text`, roughly: those in strings and comments count."""
    deepest = depth = 0
    for match in re.finditer(r"[\[{]|[\]}]", text):
        depth = depth + 1 if match[0] in "[{" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest


def _odd_key(document: Any) -> bool:
    """Whether a mapping in `document` has a key that is a collection."""
    seen: set[int] = set()
    todo = [document]
    while todo:
        node = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Mapping):
            if any(isinstance(key, Mapping | list | tuple | set) for key in node):
                return True
            todo += node.values()
        elif isinstance(node, list | tuple):
            todo += node
    return False


def _expanded(document: Any) -> int:
    """How many values `document` has once its aliases are written out; _ENDLESS: no end."""
    sizes: dict[int, int] = {}
    todo = [document]
    while todo:
        node = todo[-1]
        inner: list[Any] = []
        if isinstance(node, Mapping):
            inner = [*node.keys(), *node.values()]
        elif isinstance(node, list | tuple | set):
            inner = list(node)
        if id(node) not in sizes:
            sizes[id(node)] = _ENDLESS  # as long as it is open: meeting it again is a cycle
            todo += [each for each in inner if id(each) not in sizes]
            continue
        todo.pop()
        sizes[id(node)] = min(_ENDLESS, 1 + sum(sizes[id(each)] for each in inner))
    return sizes[id(document)]


def plain(node: Any) -> Any:
    """`node` without ruamel's types, whose equality and text differ from Python's own."""
    if isinstance(node, Mapping):
        return {plain(key): plain(value) for key, value in node.items()}
    if isinstance(node, list):
        return [plain(item) for item in node]
    for kind in (bool, int, float, str):
        if isinstance(node, kind):
            return kind(node)
    return node


def fault_of(item: Any, path: KeyPath, keys_beside: Callable[[KeyPath], tuple[str, ...]]) -> Fault:
    """One of pydantic's errors as ours, at `path` or else where pydantic says.

    `keys_beside` gives the keys that may stand where an unknown one does.
    """
    loc: KeyPath = item["loc"]
    place = path or loc
    kind = item["type"]
    if kind == "missing":
        return Fault(place[:-1], f"the key {loc[-1]!r} is missing")
    if kind == "extra_forbidden":
        return Fault(place, "unknown key", near=keys_beside(loc))
    message = str(item["msg"]).removeprefix("Value error, ").removeprefix("Input should be ")
    context = item.get("ctx", {})
    choices = tuple(re.findall(r"'([^']*)'", str(context.get("expected", ""))))
    if choices:
        message = f"should be one of {', '.join(choices)}"
    elif message != item["msg"] and not str(item["msg"]).startswith("Value error"):
        message = f"should be {message}"
    if not place:  # about the whole, which would be too much to show
        return Fault(place, message)
    value = context.get("item", item["input"])
    return Fault(place, message, value, near=choices, has_value=True)


def did_you_mean(word: object, near: Sequence[str]) -> str:
    """`; did you mean NEAREST?`, or nothing."""
    close = difflib.get_close_matches(str(word), near, n=1, cutoff=0.5)
    if not close and "." not in str(word):
        # A setting given without its group: `sync` for `workload.sync`.
        close = [key for key in near if key.rpartition(".")[2] == str(word)][:1]
    return f"; did you mean {close[0]}?" if close else ""


def report(path: Path, document: CommentedMap, faults: Sequence[Fault]) -> str:
    """All of `faults`, a line each, in the order in which they stand in the file."""
    lines: dict[str, tuple[int, int]] = {}
    for fault in faults:
        line, column = _position(document, fault.path)
        key = ".".join(str(part) for part in fault.path)
        text = f"{path}:{line}:{column}: "
        text += f"{key}: {fault.message}" if key else fault.message
        if fault.has_value:
            text += f", got {_shown(fault.value)}"
        wrong = fault.value if fault.has_value else (fault.path[-1] if fault.path else "")
        text += did_you_mean(wrong, fault.near)
        lines.setdefault(text, (line, column))
    return "\n".join(sorted(lines, key=lambda text: lines[text]))


def _shown(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except TypeError:  # a key of YAML's own kinds
        text = str(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _position(document: CommentedMap, path: KeyPath) -> tuple[int, int]:
    """Line and column, from 1, of the deepest part of `path` that the file has."""
    node: Any = document
    place = (0, 0)
    for part in path:
        if isinstance(node, CommentedMap) and part in node:
            # What `<<` has brought from an anchor has no place in the map: the map's it is.
            own = part in (node.lc.data or {})
            line, column = node.lc.key(part)[:2] if own else (node.lc.line, node.lc.col)
        elif isinstance(node, CommentedSeq) and isinstance(part, int) and part < len(node):
            # A tagged sequence knows no place of its items.
            line, column = (node.lc.item(part) or place)[:2]
        else:
            break
        place = (line, column)
        node = node[part]
    return place[0] + 1, place[1] + 1
