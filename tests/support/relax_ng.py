# SPDX-License-Identifier: Apache-2.0
"""What a RELAX NG schema in XML allows below an element: paths of elements and attributes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

_RNG = "{http://relaxng.org/ns/structure/1.0}"
_DEPTH_MAX = 6


class Schema:
    """A grammar with the files that it includes."""

    def __init__(self, path: Path) -> None:
        self._defined: dict[str, list[ET.Element]] = {}
        self._read(path, set())

    def _read(self, path: Path, seen: set[Path]) -> None:
        if path in seen:
            return
        seen.add(path)
        grammar = ET.parse(path).getroot()
        for include in grammar.iter(f"{_RNG}include"):
            self._read(path.parent / include.get("href", ""), seen)
        for define in grammar.iter(f"{_RNG}define"):
            self._defined.setdefault(define.get("name", ""), []).append(define)

    def below(self, name: str) -> set[str]:
        """Of the definition `name`: `disk@type`, `disk/driver`, `disk/driver@cache`, ..."""
        found: set[str] = set()
        for define in self._defined[name]:
            found |= set(self._paths(define, "", frozenset()))
        return found

    def _paths(self, node: ET.Element, at: str, seen: frozenset[str]) -> Iterator[str]:
        for part in node:
            tag, name = part.tag.removeprefix(_RNG), part.get("name", "")
            if tag == "attribute":
                yield f"{at}@{name}"
            elif tag == "element" and at.count("/") < _DEPTH_MAX:
                inner = f"{at}/{name}" if at else name
                yield inner
                yield from self._paths(part, inner, seen)
            elif tag == "ref":
                if name not in seen:
                    for define in self._defined.get(name, ()):
                        yield from self._paths(define, at, seen | {name})
            else:
                yield from self._paths(part, at, seen)
