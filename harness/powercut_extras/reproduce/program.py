# SPDX-License-Identifier: Apache-2.0
"""A crash state of a captured folder as a program that needs no powercut.

The folder that is written has `calls`, one recorded call a line in the order in which they were
made, up to the cut of the state; those that the state lacks are marked.  What was there before the
first of these is in `before`, by file.  `reproduce.py` does the calls without the marked ones, says
"cut here", makes the folder of that, and runs the recorded check in it; with --all it leaves
out none, and nothing may be lost.

It is a writer: which state loses something is what `powercut.witness.folder` has found.
"""

from __future__ import annotations

import bisect
import json
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any, Final

import numpy as np

from powercut.crash.folder_rows import AttributeChange, NameChange, Row, SizeChange
from powercut.crash.states import CrashState
from powercut.model.errors import UsageError
from powercut.model.folder import MAKING, FolderOp
from powercut.model.timeline import RequestKind
from powercut.recording.folder import PERMISSIONS, FolderRecording, write_contents
from powercut.recording.folder_names import FolderNames, in_file
from powercut.recording.state_names import plain_state, resolve_state
from powercut.store.files import host_errors

PROGRAM: Final = "reproduce.py"
CALLS: Final = "calls"
BYTES: Final = "bytes"
BEFORE: Final = "before"
LOST: Final = "LOST"

_KINDS: Final = {
    FolderOp.CREATE: "file",
    FolderOp.MKDIR: "folder",
    FolderOp.SYMLINK: "link",
    FolderOp.PIPE: "pipe",
    FolderOp.SOCKET: "socket",
}

_TEXT: Final = Template('''\
#!/usr/bin/env python3
"""$title

The calls of the file `calls` are done without those marked LOST, which no sync made durable; then
the power is cut.  With --all none is lost.  Exit status: 1 if operation $number is lost, 0 if it is
there, 2 if the check failed.  DIR in the environment: where the folder is made."""
import json, os, re, shutil, subprocess, sys, tempfile
os.chdir(os.path.dirname(os.path.abspath(__file__)))
top = tempfile.mkdtemp()
folder = os.environ["DIR"] = os.path.abspath(os.environ.get("DIR", top + "/dir"))
data, made, names, sizes, modes = open("bytes", "rb").read(), {1: ("folder", "")}, {1: {}}, {}, {}
for mark, call, number, *words, text in map(json.loads, open("calls")):
    if text:
        print(f"{mark:4} {text}")
    if mark and "--all" not in sys.argv:
        continue
    if call == "make":
        made[number], names[number], sizes[number] = words, {}, 0
        there = os.path.exists(f"before/{number}")
        shutil.copyfile(f"before/{number}" if there else os.devnull, f"{top}/{number}")
    elif call == "name":
        [names[parent].pop(name, None) for parent, name, _ in words[0]]
        [names[parent].update({name: to}) for parent, name, to in words[0] if to]
    elif call == "write":
        with open(f"{top}/{number}", "r+b") as file:
            os.pwrite(file.fileno(), data[words[1]:words[2]] or bytes(words[3]), words[0])
    elif call == "size":
        sizes[number] = max(words[0], sizes[number] * words[1])
        words[1] or os.truncate(f"{top}/{number}", words[0])
    elif call == "mode":
        modes[number] = words[0]
print("     ---- cut here ----")
def build(number, path):
    kind, target = made[number]
    if kind == "link":
        return os.symlink(target, path)
    if kind == "file":
        os.truncate(f"{top}/{number}", sizes[number])
        shutil.copyfile(f"{top}/{number}", path)
    elif kind != "folder":
        os.mknod(path, {"pipe": 0o010600, "socket": 0o140600}[kind])
    else:
        os.makedirs(path, exist_ok=True)
        [build(to, f"{path}/{name}") for name, to in names[number].items()]
    os.chmod(path, modes.get(number, 0o700))
build(1, folder)
with open(f"{top}/said", "w+") as said:  # the check tells what it finds in lines, = N or = N-M
    environment = {**os.environ, "POWERCUT_FD": str(said.fileno())}
    check = subprocess.run(CHECK := $check, shell=True, cwd=$where,
                           env=environment, pass_fds=[said.fileno()], stdin=subprocess.DEVNULL)
    found = open(f"{top}/said").read()
print(f"$$ {CHECK}\\n{found}exit status {check.returncode}")
said = re.findall(r"^= (\\d+)-?(\\d*)$$", found, re.M)
there = any(int(first) <= $number <= int(last or first) for first, last in said)
bad = re.search(r"^(bad|x $number) .*", found, re.M)
lost = bool(bad) or (check.returncode == 0 and not there)
print("LOST" if lost else "there" if there else "the check failed", "(operation $number)")
sys.exit(1 if lost else 0 if there else 2)
''')


@dataclass(frozen=True)
class Reproduction:
    """What was written: the operation that it is about, and how many calls, of which lost."""

    folder: Path
    operation: int
    calls: int
    lost: tuple[str, ...]

    @property
    def program(self) -> Path:
        """What a maintainer starts."""
        return self.folder / PROGRAM


def write_reproduction(
    recording: FolderRecording, name: str, operation: int, target: Path
) -> Reproduction:
    """Writes the program of a state and what it needs into `target`, which is made.

    Raises UsageError for a state that no such program can make, HostError.
    """
    state = resolve_state(recording, name)
    if state.moves:
        raise UsageError(
            f"state {name} has writes out of order, which such a program does not make",
            hint="name another state that loses something",
        )
    writer = _Writer(recording, state)
    with host_errors(target):
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise UsageError(
                f"{target}: exists already", hint="give the name of a new or an empty folder"
            )
        (target / BEFORE).mkdir(parents=True)
        lines = list(writer.lines(target / BEFORE))
        (target / CALLS).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        (target / BYTES).write_bytes(bytes(writer.data))
        program = target / PROGRAM
        program.write_text(_program(recording, name, operation))
        program.chmod(0o755)
    shown = [line for line in lines if line[-1]]
    lost = tuple(line[-1] for line in shown if line[0] == LOST)
    return Reproduction(target, operation, len(shown), lost)


def _program(recording: FolderRecording, name: str, operation: int) -> str:
    record = recording.record
    folder = record.folder
    words = [
        '"$DIR"'.join(shlex.quote(part) if part else "" for part in word.split(folder))
        for word in record.check
    ]
    title = f"Operation {operation} was acknowledged, and state {name} does not have it."
    return _TEXT.substitute(
        title=title, number=operation, check=repr(" ".join(words)), where=repr(record.where)
    )


class _Writer:
    """The calls of one state as lines: [mark, call, number, ..., what a person reads]."""

    def __init__(self, recording: FolderRecording, state: CrashState) -> None:
        space = recording.space
        self._space, self._state = space, state
        self._history = recording.history
        self._names = FolderNames(space, state.instant)
        self._there = set(space.application_order(state).tolist())
        self.data = bytearray()
        rows = space.rows
        lost = [
            rows[index].request.submitted_ns
            for index in space.volatile(state.instant).tolist()
            if index not in self._there or index in state.torn_parts
        ]
        self._from = min(lost, default=state.instant)

    def lines(self, before: Path) -> Iterator[list[Any]]:
        """All lines; the contents of files that were there at first go to `before`."""
        space = self._space
        first = plain_state(space, self._from, everything=True)
        tree = space.tree(first)
        contents = {state.number: state for _, state in tree.files}
        issued = set(space.application_order(first).tolist())
        yield from self._at_first(space.rows[index] for index in sorted(issued))
        for number, state in contents.items():
            write_contents(space, state, before / str(number))
            yield ["", "size", number, state.size, 0, ""]
        later = [
            (row.request.submitted_ns, index, row)
            for index, row in enumerate(space.rows)
            if index not in issued and self._from <= row.request.submitted_ns < self._state.instant
        ]
        acks = [
            (int(at), len(space.rows), int(number))
            for number, at in zip(self._history.acked, self._history.ack_ns, strict=True)
            if self._from <= at < self._state.instant
        ]
        for _, index, what in sorted([*later, *acks], key=lambda one: one[:2]):
            if isinstance(what, Row):
                yield from self._line(index, what)
            else:
                yield ["", "ack", what, f"---- operation {what} is acknowledged"]
        for _, end in space.tree(self._state).files:
            if end.attributes.mode is not None:
                yield ["", "mode", end.number, end.attributes.mode & PERMISSIONS, ""]

    def _at_first(self, rows: Iterable[Row]) -> Iterator[list[Any]]:
        """What was there, by name, before the first call that is shown."""
        made: dict[int, list[Any]] = {}
        entries: dict[int, dict[str, int]] = defaultdict(dict)
        for row in rows:
            if isinstance(row.change, NameChange):
                made |= {line[2]: line for line in self._made(row, row.change)}
                for parent, name, number in row.change.entries:
                    entries[parent].pop(name, None)
                    if number is not None:
                        entries[parent][name] = number
        named = {number for below in entries.values() for number in below.values()}
        used = {row.request.object for row in self._space.rows[self._first_row() :]}
        yield from (line for number, line in made.items() if number in named | used)
        for parent, below in entries.items():
            if below:
                all_of_it = [(parent, name, number) for name, number in below.items()]
                yield ["", "name", parent, all_of_it, ""]

    def _first_row(self) -> int:
        times = [row.request.submitted_ns for row in self._space.rows]
        return bisect.bisect_left(times, self._from)

    def _made(self, row: Row, change: NameChange) -> Iterator[list[Any]]:
        if change.made is not None and row.request.op in MAKING:
            target = row.request.names[1] if row.request.op is FolderOp.SYMLINK else ""
            yield ["", "make", change.made, _KINDS[row.request.op], target, ""]

    def _line(self, index: int, row: Row) -> Iterator[list[Any]]:
        """A call that is shown."""
        number = row.request.object
        mark = "" if index in self._there else LOST
        match row.change:
            case NameChange() as change:
                yield from self._made(row, change)
                yield [mark, "name", number, change.entries, self._names.describe(row, [])]
            case SizeChange(file, size, at_least):
                yield [mark, "size", file, size, int(at_least), self._names.describe(row, [])]
            case AttributeChange():
                yield [mark, "attributes", number, self._names.describe(row, [])]
            case None if row.kind is RequestKind.FLUSH:
                if row.request.completed_ns < self._state.instant:
                    yield ["", "sync", number, self._names.sync(row.request)]
            case None:
                yield from self._write(index, row)

    def _write(self, index: int, row: Row) -> Iterator[list[Any]]:
        """A write: of one that is torn the parts that are there, and those that are not."""
        whole = in_file(row.offset, row.offset + row.length)
        base = row.offset - whole[0]
        kept = [
            (one.begin - base, one.end - base) for one in self._state.torn if one.write == index
        ]
        if not kept:
            yield self._part(row, "" if index in self._there else LOST, *whole)
            return
        at = whole[0]
        for begin, end in sorted(kept):
            if at < begin:
                yield self._part(row, LOST, at, begin)
            yield self._part(row, "", begin, end)
            at = end
        if at < whole[1]:
            yield self._part(row, LOST, at, whole[1])

    def _part(self, row: Row, mark: str, begin: int, end: int) -> list[Any]:
        request, at = row.request, len(self.data)
        if row.kind is RequestKind.WRITE and request.data_offset >= 0:
            start = begin - request.offset
            payload: np.ndarray = self._space.folder.payload(request)
            self.data += payload[start : start + end - begin].tobytes()
        text = self._names.describe(row, [(begin, end)])
        call = f"write of {text}" if row.kind is RequestKind.WRITE else text
        return [mark, "write", request.object, begin, at, len(self.data), end - begin, call]
