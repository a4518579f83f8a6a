# SPDX-License-Identifier: Apache-2.0
"""The notes of the tracer that runs a program and sees its syncs (workloads/synctrace).

It writes them to the program's own channel, so that they have the clock of the disk's log, as the
program's lines do.  Its first line comes before the program begins, and says the key that its later
ones have: what else begins with `~` is the program's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from powercut.model.operations import Packet
from powercut.model.units import NEVER
from powercut.paths import PARTS
from powercut.workload.program.lines import Line, LineKind, lines_of_run

TRACER: Final = PARTS / "bin" / "synctrace"
"""As workloads/synctrace/Makefile leaves it."""

TOOLS: Final = "/run/powercut"
"""The folder in which a program's root has powercut's own tools while it runs, the tracer among
them."""

_BEGIN: Final = re.compile(r"([0-9a-f]{16}) trace 1")


@dataclass(frozen=True)
class Frame:
    """A place in the program's code; `module` is a file, `address` as its symbols have it."""

    module: str
    address: int

    @property
    def text(self) -> str:
        """What there is without symbols."""
        return f"{Path(self.module).name}+{self.address:#x}" if self.address else self.module


@dataclass(frozen=True)
class CallSite:
    """Where a program asks for its data to be durable.

    `stack` names its frames, innermost first, and the call; `path` is of the file, below the
    program's folder where it lies there, with # for numbers; `-` if the call has none.
    """

    number: int
    stack: str
    call: str
    path: str
    frames: tuple[Frame, ...] = ()

    @property
    def key(self) -> str:
        """What `workload.dropped_sync` calls it."""
        return f"{self.stack} {self.path}"

    @property
    def opens(self) -> bool:
        """Whether it opens a file so that each write to it is a sync; opening is none."""
        return self.call.startswith("open(")

    @property
    def file(self) -> str:
        """The path for a person; empty if the call has none."""
        return "" if self.path == "-" else unquote(self.path)


@dataclass(frozen=True)
class SyncCall:
    """One call of a site, on the clock of the disk's log (ns).

    `end_ns` is NEVER if the call had not returned when the trace ended; `result` is 0 or more, or
    -errno.  A call that was dropped was not made.
    """

    site: int
    thread: int
    begin_ns: int
    end_ns: int
    result: int = 0
    dropped: bool = False


@dataclass(frozen=True)
class SyncTrace:
    """All calls in the order in which they began, and what the tracer does not follow.

    `begin_ns` is when the tracer began, before the program did.  `writes` says that writes to files
    opened with O_SYNC or O_DSYNC are among the calls; older recordings have only the opens.
    """

    key: str
    begin_ns: int
    sites: tuple[CallSite, ...]
    calls: tuple[SyncCall, ...]
    beyond: tuple[str, ...]
    writes: bool = False

    def count(self, site: int, *, dropped: bool = False) -> int:
        """How many calls of a site were made, or dropped."""
        return sum(call.site == site and call.dropped is dropped for call in self.calls)


def traced(argv: tuple[str, ...], folder: str, dropped: str = "") -> tuple[str, ...]:
    """The command line that runs `argv` under the tracer; `dropped` is the key of a call site."""
    stack, _, path = dropped.partition(" ")
    words = (f"drop={stack}", f"path={path}") if stack else ()
    return (f"{TOOLS}/{TRACER.name}", f"dir={folder}", *words, "--", *argv)


def read_trace(packets: Iterable[Packet]) -> SyncTrace:
    """The trace in the lines of a run; without a key if there is none."""
    return trace_of(lines_of_run(packets).lines)


def trace_of(lines: Sequence[Line], earliest: Sequence[Line] = ()) -> SyncTrace:
    """The same, of lines that were read already.

    `earliest` are these lines with the earliest instants at which they can have been written, where
    those are others: a call then lasts as long as it can have.
    """
    notes = [line for line in lines if line.kind is LineKind.NOTE]
    begin = _BEGIN.fullmatch(notes[0].text) if notes and notes[0] is lines[0] else None
    if begin is None:
        return SyncTrace("", int(NEVER), (), (), ("the tracer did not begin",))
    reader = _Reader()
    early = [line for line in earliest or lines if line.kind is LineKind.NOTE]
    for line, first in zip(notes[1:], early[1:], strict=True):
        key, _, text = line.text.partition(" ")
        if key == begin.group(1):
            reader.take(text, first.at_ns, line.at_ns)
    calls = sorted(reader.calls, key=lambda call: call.begin_ns)
    beyond = tuple(dict.fromkeys(reader.beyond))
    sites = tuple(reader.sites)
    return SyncTrace(begin.group(1), early[0].at_ns, sites, tuple(calls), beyond, reader.writes)


class _Reader:
    def __init__(self) -> None:
        self.sites: list[CallSite] = []
        self.beyond: list[str] = []
        self.writes = False
        self._done: list[SyncCall] = []
        self._open: dict[int, tuple[int, int]] = {}

    @property
    def calls(self) -> list[SyncCall]:
        return self._done + [
            SyncCall(site, thread, begin_ns, int(NEVER))
            for thread, (site, begin_ns) in self._open.items()
        ]

    def take(self, text: str, earliest_ns: int, at_ns: int) -> None:
        """Takes one note of the tracer's own, written between the two instants."""
        match text.split(" "):
            case ["site", _, stack, name, path, *frames]:
                places = tuple(_frame(word) for word in frames)
                self.sites.append(CallSite(len(self.sites), stack, name, path, places))
            case ["begin", site, thread]:
                self._open[int(thread)] = (int(site), earliest_ns)
            case ["end", site, thread, result]:
                _, begin_ns = self._open.pop(int(thread), (int(site), earliest_ns))
                self._done.append(SyncCall(int(site), int(thread), begin_ns, at_ns, int(result)))
            case ["drop", site, thread]:
                self._done.append(
                    SyncCall(int(site), int(thread), earliest_ns, at_ns, dropped=True)
                )
            case ["writes", _]:
                self.writes = True
            case ["beyond", *words]:
                self.beyond.append("the program " + " ".join(words))
            case _:
                self.beyond.append(f"a note of the tracer's cannot be read: {text[:60]!r}")


def _frame(word: str) -> Frame:
    module, plus, address = word.rpartition("+")
    return Frame(unquote(module), int(address, 16)) if plus else Frame(unquote(word), 0)
