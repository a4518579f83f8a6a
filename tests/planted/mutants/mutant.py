# SPDX-License-Identifier: Apache-2.0
"""A planted bug: a small patch to one file, and the tests that have to notice it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

PYTEST: Final = "pytest"
"""As the first word of a check: pytest with the rest as its arguments."""


@dataclass(frozen=True)
class Suite:
    """Where mutants of one part are looked for.

    `build` must succeed, or the mutant is none.  Then each of `checks` runs until one fails: a
    mutant that survives them all has survived.  `{tree}` and `{build}` stand for the scratch
    tree and its folder of built parts.
    """

    name: str
    build: tuple[tuple[str, ...], ...]
    checks: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Mutant:
    """Text `old`, which stands in `file` exactly once, becomes `new`.

    `what` says what is wrong then.  `equivalent` says why no test can notice it, empty for a
    mutant that has to be killed.
    """

    name: str
    suite: Suite
    file: str
    old: str
    new: str
    what: str
    equivalent: str = ""


def pytest(*paths: str) -> tuple[str, ...]:
    """A run of pytest that ends with the first failure."""
    return (PYTEST, "-q", "-x", "-p", "no:cacheprovider", *paths)


def make(folder: str, *targets: str) -> tuple[str, ...]:
    """A build of one part into the scratch folder."""
    return ("make", "-s", "-C", f"{{tree}}/{folder}", "BUILD={build}", *targets)


Patch = tuple[str, str, str, str] | tuple[str, str, str, str, str]
"""name, old text, new text, what is wrong then, and why nobody can notice."""


def planter(room: str, suite: Suite) -> Callable[..., Iterator[Mutant]]:
    """Makes mutants of one suite: `plant(file, (name, old, new, what), ...)`."""

    def plant(file: str, *patches: Patch) -> Iterator[Mutant]:
        for name, old, new, what, *equivalent in patches:
            yield Mutant(f"{room}-{name}", suite, file, old, new, what, *equivalent)

    return plant
