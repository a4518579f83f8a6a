# SPDX-License-Identifier: Apache-2.0
"""What words of a definition mean for a disk's writes: a table for each format.

A word is a path in the format's own terms, such as `disk/driver@cache`.  Nothing is passed over in
silence: what no table knows is left out, and said.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from powercut.model.printable import printable
from powercut.scenario.likeness import LeftOut

_NAMED_MAX: Final = 4
_SHORT: Final = re.compile(r"[^/]{1,60}")
_HIDDEN: Final = re.compile(
    r"uuid|usage|username|secret|password|\bsource (.* )?(name|file|dev|path|dir|query)$"
)


class Fate(enum.Enum):
    """What becomes of a word."""

    CARRIED = "carried over"
    NO_EFFECT = "no effect on what is durable"
    LEFT_OUT = "left out, and said"


@dataclass(frozen=True)
class Meaning:
    """What becomes of a word, and why.

    The `usual` values of one that is left out say what machines here do anyway.
    """

    fate: Fate
    why: str
    usual: tuple[str, ...] = ()


Table = Mapping[str, Meaning]
"""By path; one that ends in `/*` is for all that is at it and below that no longer path names."""


def rows(meaning: Meaning, pattern: str, *words: str) -> dict[str, Meaning]:
    """A row for each of the words in these texts, at the `%` of the pattern."""
    return {pattern.replace("%", word): meaning for text in words for word in text.split()}


UNKNOWN = Meaning(Fate.LEFT_OUT, "powercut does not know what it means")

# What several formats have.
CARRIED: Final = Meaning(Fate.CARRIED, "")
DECIDES: Final = Meaning(Fate.CARRIED, "decides whether the disk is tested")
SLOWED: Final = Meaning(Fate.LEFT_OUT, "requests are held back; here none is")
ERRORS: Final = Meaning(Fate.LEFT_OUT, "what a failed request does to the guest", ("report",))
ELSEWHERE: Final = Meaning(Fate.NO_EFFECT, "no part of the way to a disk")
BESIDE: Final = Meaning(Fate.LEFT_OUT, "what is on it is not covered, if it is storage")


def meaning_of(table: Table, path: str) -> Meaning:
    """The row of the longest path; `UNKNOWN` without one."""
    if (found := table.get(path)) is not None:
        return found
    at = path
    while at:
        if (found := table.get(f"{at}/*")) is not None:
            return found
        at = at[: max(at.rfind("/"), at.rfind("@"), 0)]
    return UNKNOWN


def left_out(table: Table, said: Iterable[tuple[str, str]], subject: str) -> Iterator[LeftOut]:
    """Of the paths and values that are `said` of a `subject`, those that are left out, the words of
    one reason together.  Paths on a host, and names of secrets, are not shown."""
    reasons: dict[str, list[str]] = {}
    for path, value in said:
        row = meaning_of(table, path)
        if row.fate is Fate.LEFT_OUT and value not in row.usual:
            word = path.partition("/")[2] or path.partition("@")[2] or path
            shown = word.replace("/", " ").replace("@", " ")
            if value and not _HIDDEN.search(word) and _SHORT.fullmatch(value):
                shown += f"={value}"
            why = row.why if row is not UNKNOWN else f"{row.why}: {path}"
            words = reasons.setdefault(why, [])
            words += [shown] if (shown := printable(shown)) not in words else []
    for why, words in reasons.items():
        more = f" and {len(words) - _NAMED_MAX} more" if len(words) > _NAMED_MAX else ""
        yield LeftOut(f"{subject}: {', '.join(words[:_NAMED_MAX])}{more}", why)
