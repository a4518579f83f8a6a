# SPDX-License-Identifier: Apache-2.0
"""The lines of a program (docs/adding-a-program.md), and the file that keeps them.

A program says what it does on the descriptor POWERCUT_FD, a line for each claim:

    ready        it is set up and begins to work
    ? N          it is about to try operation N
    + N          N is durable
    - N          N has failed, and may or may not be there
    ! TEXT       trouble of its own

Its `check` says what it finds after a crash:

    = N, = A-B   these operations are there, and right
    x N TEXT     N is there, and wrong
    bad TEXT     the store contradicts itself

N is a number from 0 to 2^63 - 1 in decimal digits.  A line is ASCII or UTF-8, ends with a
newline and has at most 4,096 bytes.  Whatever else comes is a mistake of the program, and makes
what it says incomplete: never a loss.

The file: 8 bytes `PCLINES1`, 32 bytes that name the recording (powercut.model.binding), then for
each packet that was received its instant (u64,
nanoseconds of CLOCK_MONOTONIC at which it was written), its length (u32) and its bytes,
little-endian.  A claim is made when its line is whole: its instant is that of the packet with the
newline.
"""

from __future__ import annotations

import enum
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from powercut.model.binding import Binding
from powercut.model.errors import DamagedRecording

MAGIC: Final = b"PCLINES1"
LINE_MAX: Final = 4096
OPERATION_MAX: Final = 2**63 - 1
_PROBLEMS_MAX: Final = 8
_HEADER: Final = struct.Struct("<QI")
_RANGE: Final = re.compile(r"([0-9]{1,19})(?:-([0-9]{1,19}))?")


class LineKind(enum.Enum):
    """What a line begins with."""

    READY = "ready"
    ATTEMPT = "?"
    ACK = "+"
    FAILED = "-"
    TROUBLE = "!"
    PRESENT = "="
    WRONG = "x"
    BAD = "bad"


_OF_RUN: Final = frozenset(
    {LineKind.READY, LineKind.ATTEMPT, LineKind.ACK, LineKind.FAILED, LineKind.TROUBLE}
)
_OF_CHECK: Final = frozenset(
    {LineKind.PRESENT, LineKind.WRONG, LineKind.BAD, LineKind.TROUBLE, LineKind.READY}
)


@dataclass(frozen=True)
class Line:
    """One line: operations from `first` to `last` (both 0 where it names none), and its text."""

    kind: LineKind
    first: int = 0
    last: int = 0
    text: str = ""
    at_ns: int = 0


@dataclass(frozen=True)
class Packet:
    """What one write of a program carried, and when it was made."""

    at_ns: int
    data: bytes


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
    return _read([Packet(0, data)], _OF_CHECK, unfinished_is_a_problem=True)


def _read(
    packets: Iterable[Packet], kinds: frozenset[LineKind], *, unfinished_is_a_problem: bool
) -> Lines:
    lines: list[Line] = []
    problems: list[str] = []
    rest = b""
    for packet in packets:
        *whole, rest = (rest + packet.data).split(b"\n")
        for raw in whole:
            _take(raw, packet.at_ns, kinds, lines, problems)
        if len(rest) > LINE_MAX:
            problems.append(f"a line of more than {LINE_MAX} bytes")
            rest = b""
    if rest and unfinished_is_a_problem:
        problems.append(f"the last line has no end: {_shown(rest)}")
    more = len(problems) - _PROBLEMS_MAX
    told = problems[:_PROBLEMS_MAX] + ([f"and {more} more such lines"] if more > 0 else [])
    return Lines(tuple(lines), tuple(told))


def _take(
    raw: bytes, at_ns: int, kinds: frozenset[LineKind], lines: list[Line], problems: list[str]
) -> None:
    line = _parse(raw, at_ns)
    if line is None or line.kind not in kinds:
        problems.append(f"no line of the contract: {_shown(raw)}")
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
        case LineKind.READY:
            return None if text else Line(kind, at_ns=at_ns)
        case LineKind.TROUBLE | LineKind.BAD:
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
    found = _RANGE.fullmatch(text)
    if found is None:
        return None
    first = int(found.group(1))
    last = int(found.group(2) or first)
    return (first, last) if first <= last <= OPERATION_MAX else None


def _shown(raw: bytes) -> str:
    return repr(raw[:60].decode(errors="replace")) + ("..." if len(raw) > 60 else "")


def pack(packet: Packet) -> bytes:
    """A packet as it stands in the file."""
    return _HEADER.pack(packet.at_ns, len(packet.data)) + packet.data


def header(binding: Binding) -> bytes:
    """The beginning of the file of a recording."""
    return MAGIC + binding.digest


def unpack(data: bytes, binding: Binding) -> tuple[Packet, ...]:
    """The packets of a file.

    Raises DamagedRecording for anything else: a file that was cut, or one of another recording.
    """
    if not data.startswith(MAGIC):
        raise DamagedRecording("the lines of the program do not begin as such a file does")
    if not data.startswith(header(binding)):
        raise DamagedRecording("the lines of the program are of another recording")
    packets = []
    at = len(header(binding))
    while at < len(data):
        if at + _HEADER.size > len(data):
            raise DamagedRecording(f"the lines of the program end within a packet, at byte {at}")
        instant, length = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        if at + length > len(data):
            raise DamagedRecording(f"the lines of the program end within a packet, at byte {at}")
        packets.append(Packet(instant, data[at : at + length]))
        at += length
    return tuple(packets)
