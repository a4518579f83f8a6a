# SPDX-License-Identifier: Apache-2.0
"""A planted bug: a small patch to one file, and the tests that have to notice it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from mutants.place import At

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
    """The code at `place`, which is in `file` exactly once, becomes `new`.

    `what` says what is wrong then.  `equivalent` says why no test can notice it, empty for a
    mutant that has to be killed.
    """

    name: str
    suite: Suite
    file: str
    place: At
    new: str
    what: str
    equivalent: str = ""


def pytest(*paths: str) -> tuple[str, ...]:
    """A run of pytest that ends with the first failure, nightly tests among the others."""
    return (PYTEST, "-q", "-x", "-p", "no:cacheprovider", "-m", "nightly or not nightly", *paths)


def make(folder: str, *targets: str) -> tuple[str, ...]:
    """A build of one part into the scratch folder, or of `targets` in it, as the part's makefile has
    them: by the descriptor that make-part gives it."""
    named = (target.replace("{build}", "/proc/self/fd/8") for target in targets)
    return ("{tree}/harness/make-part", f"{{tree}}/{folder}", "{build}", "-s", *named)


Patch = tuple[str, At, str, str] | tuple[str, At, str, str, str]
"""name, place, what stands there then, what is wrong then, and why no test can notice."""


def planter(room: str, suite: Suite) -> Callable[..., Iterator[Mutant]]:
    """Makes mutants of one suite: `plant(file, (name, At(function, code), new, what), ...)`.

    An entry whose place is a line of text is refused: `mutants/convert.py` rewrites it.
    """

    def plant(file: str, *patches: Patch) -> Iterator[Mutant]:
        for name, place, new, what, *equivalent in patches:
            if not isinstance(place, At):
                raise TypeError(
                    f"{room}-{name}: run .venv/bin/python tests/planted/mutants/convert.py"
                )
            yield Mutant(f"{room}-{name}", suite, file, place, new, what, *equivalent)

    return plant
