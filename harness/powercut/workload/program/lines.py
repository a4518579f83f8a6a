# SPDX-License-Identifier: Apache-2.0
"""The lines of a program (docs/adding-a-program.md).

A program says what it does on the descriptor POWERCUT_FD, a line for each claim:

    atomic       an operation that was tried is there whole, or not at all
    promise W    it keeps less than each `+ N`: of these a `prefix`, or it only `opens`
    ready        it is set up and begins to work
    ? N          it is about to try operation N
    + N          N is durable
    - N          N has failed, and may or may not be there
    ! TEXT       trouble of its own

Its `check` says what it finds after a crash:

    = N, = A-B   these operations are there, and right
    x N TEXT     N is there, and wrong
    bad TEXT     the store contradicts itself

What begins with `~` is a note of the tracer (sync_trace.py), if one runs the program.

N is a number from 0 to 2^63 - 1 in decimal digits.  A line is ASCII or UTF-8, ends with a
newline and has at most 4,096 bytes, and there are 4,194,304 lines at the most, of which 100,000 may
claim nothing.  Whatever else comes
is a mistake of the program, and makes what it says incomplete: never a loss.

A claim is made when its line is whole: its instant is that of the packet with the newline.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from powercut.channel.lines import LINE_MAX, LINES_MAX
from powercut.model.operations import Packet

OPERATION_MAX: Final = 2**63 - 1
_PROBLEMS_MAX: Final = 8
_PART: Final = 1 << 20
_PROMISES: Final = ("prefix", "opens")
_RANGE: Final = re.compile(r"([0-9]{1,19})(?:-([0-9]{1,19}))?")


class LineKind(enum.Enum):
    """What a line begins with."""

    ATOMIC = "atomic"
    PROMISE = "promise"
    READY = "ready"
    ATTEMPT = "?"
    ACK = "+"
    FAILED = "-"
    TROUBLE = "!"
    PRESENT = "="
    WRONG = "x"
    BAD = "bad"
    NOTE = "~"


_OF_RUN: Final = frozenset(
    {
        LineKind.ATOMIC,
        LineKind.PROMISE,
        LineKind.READY,
        LineKind.ATTEMPT,
        LineKind.ACK,
        LineKind.FAILED,
        LineKind.TROUBLE,
        LineKind.NOTE,
    }
)
_OF_CHECK: Final = frozenset(
    {LineKind.PRESENT, LineKind.WRONG, LineKind.BAD, LineKind.TROUBLE, LineKind.READY}
)


@dataclass(frozen=True, slots=True)
class Line:
    """One line: operations from `first` to `last` (both 0 where it names none), and its text."""

    kind: LineKind
    first: int = 0
    last: int = 0
    text: str = ""
    at_ns: int = 0


@dataclass(frozen=True)
class Lines:
    """All lines in order; `problems` says what was no line (the first few), empty if all were."""

    lines: tuple[Line, ...]
    problems: tuple[str, ...] = ()


def lines_of_run(packets: Iterable[Packet]) -> Lines:
    """What `run` said.  An unfinished last line was not said."""
    return _read(packets, _OF_RUN, unfinished_is_a_problem=False)


def lines_of_check(data: bytes) -> Lines:
    """What `check` said."""
    parts = (data[at : at + _PART] for at in range(0, len(data), _PART))
    packets = (Packet(0, part) for part in parts)  # all lines at once would take much memory
    return _read(packets, _OF_CHECK, unfinished_is_a_problem=True)


def _read(
    packets: Iterable[Packet], kinds: frozenset[LineKind], *, unfinished_is_a_problem: bool
) -> Lines:
    lines: list[Line] = []
    problems = FirstFew(_PROBLEMS_MAX, "such lines")
    rest, too_long, last = b"", False, None
    for packet in packets:
        *whole, rest = (rest + packet.data).split(b"\n")
        if too_long and whole:  # this is its end, and no line of its own
            whole, too_long = whole[1:], False
        for raw in whole:
            if raw == last and unfinished_is_a_problem:  # said once more it means no more
                continue
            last = raw
            if len(lines) == LINES_MAX:
                problems.add(f"more than {LINES_MAX:,} lines")
                return Lines(tuple(lines), problems.told())
            _take(raw, packet.at_ns, kinds, lines, problems)
        if len(rest) > LINE_MAX and not too_long:
            problems.add(f"a line of more than {LINE_MAX} bytes")
            too_long = True
        rest = b"" if too_long else rest
    if rest and unfinished_is_a_problem:
        problems.add(f"the last line has no end: {_shown(rest)}")
    return Lines(tuple(lines), problems.told())


class FirstFew:
    """What is wrong: the first `most` of it, and how much more, which may be of millions."""

    def __init__(self, most: int, of_what: str, known: Iterable[str] = ()) -> None:
        self._most = most
        self._of_what = of_what
        self._first: list[str] = []
        self._more = 0
        for words in known:
            self.add(words)

    def add(self, words: str) -> None:
        """One more."""
        if len(self._first) == self._most:
            self._more += 1
        else:
            self._first.append(words)

    def told(self) -> tuple[str, ...]:
        """What is shown of it; empty if nothing is wrong."""
        return (*self._first, *([f"and {self._more} more {self._of_what}"] if self._more else []))


def _take(
    raw: bytes, at_ns: int, kinds: frozenset[LineKind], lines: list[Line], problems: FirstFew
) -> None:
    line = _parse(raw, at_ns)
    if line is None or line.kind not in kinds:
        problems.add(f"no line of the contract: {_shown(raw)}")
    else:
        lines.append(line)


def _parse(raw: bytes, at_ns: int) -> Line | None:
    if len(raw) > LINE_MAX:
        return None
    word, _, text = raw.decode(errors="replace").strip("\r").partition(" ")
    try:
        kind = LineKind(word)
    except ValueError:
        return None
    match kind:
        case LineKind.READY | LineKind.ATOMIC | LineKind.PROMISE:
            may_be = _PROMISES if kind is LineKind.PROMISE else ("",)
            return Line(kind, text=text, at_ns=at_ns) if text in may_be else None
        case LineKind.TROUBLE | LineKind.BAD | LineKind.NOTE:
            return Line(kind, text=text.strip(), at_ns=at_ns)
        case LineKind.WRONG:
            number, _, reason = text.partition(" ")
            found = _operations(number)
        case _:
            found, reason = _operations(text), ""
    if found is None or (found[0] != found[1] and kind is not LineKind.PRESENT):
        return None
    return Line(kind, *found, reason.strip(), at_ns)


def _operations(text: str) -> tuple[int, int] | None:
    match = _RANGE.fullmatch(text)
    if match is None:
        return None
    first = int(match.group(1))
    last = int(match.group(2) or first)
    return (first, last) if first <= last <= OPERATION_MAX else None


def _shown(raw: bytes) -> str:
    return repr(raw[:60].decode(errors="replace")) + ("..." if len(raw) > 60 else "")
