# SPDX-License-Identifier: Apache-2.0
"""What of a folder of this host goes along where a program is brought elsewhere.

A program brings its folder: into a root of its own, or to a machine.  powercut keeps its results
where the user is, which is often that folder.  Results would make each root larger than the last
and would change what was recorded, so they stay: every folder of results holds a mark, as a folder
of caches does (bford.info/cachedir).  A checkout's own records and compiled Python stay, too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

MARK: Final = ".powercut-results"
"""The file that a folder of results holds."""

_TEXT: Final = "Results of powercut. Where a program brings its folder along, this one stays.\n"
_RECORDS: Final = frozenset({".git", ".hg", ".svn"})
"""Of a checkout, at its top: they change with every look at it."""

_COMPILED: Final = "__pycache__"


def mark_results(folder: Path) -> None:
    """Says in `folder` that it holds results.  Raises OSError."""
    (folder / MARK).write_text(_TEXT, encoding="utf-8")


def make_results(outer: Path, inner: Path) -> None:
    """Makes two folders for results, one below the other, and marks the outer one, or the inner one
    if something else lies in the outer.

    Raises OSError.
    """
    for path in (outer, inner):
        path.mkdir(parents=True, exist_ok=True)
        # The mark comes first: a run that makes results here at the same moment must find it.
        if not any(path.iterdir()) and not (outer / MARK).is_file():
            mark_results(path)


def brought(folder: Path) -> list[Path]:
    """The paths below `folder` that go along, in their order; links are not followed.

    Left out: results, with links to them and folders in which there is nothing else.
    """
    return _below(folder, _RECORDS)[0]


def _below(folder: Path, stays: frozenset[str] = frozenset()) -> tuple[list[Path], bool]:
    """What goes along, and whether that is nothing because there are only results."""
    found: list[Path] = []
    results = False
    for path in sorted(folder.iterdir()):
        if path.name == _COMPILED or path.name in stays:
            continue
        if path.name == MARK or (path.is_dir() and (path / MARK).is_file()):
            results = True
        elif path.is_dir() and not path.is_symlink():
            below, only_results = _below(path)
            results |= only_results
            found += [] if only_results else [path, *below]
        else:
            found.append(path)
    return found, results and not found
