# SPDX-License-Identifier: Apache-2.0
"""Crash states as a person names them, and as image files.

A state is named by

- its identifier, or the first digits of it, as `powercut explore` prints it;
- `cut`: the medium as the live cut really left it;
- `durable@T`: at instant T nothing but what had to be there;
- `everything@T`: at instant T everything that had been issued;
- `medium@T`: what the medium really held at instant T, a full cache's doing included;
- `flush:N`: durable-only just after the N-th flush completed, from 1;
- `ack:LSN`: durable-only just after record LSN was acknowledged.

T is nanoseconds of the recording's clock, or with a unit (`12.5ms`, `3s`) the time since
the first attempt, which is what `powercut show` prints.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from powercut.crash.applied import AppliedWrite, Kept
from powercut.crash.claims import Claims
from powercut.crash.legality import why_illegal
from powercut.crash.states import CrashState, StateSpace
from powercut.disk.growing_file import cut_to_size
from powercut.model.errors import DamagedRecording, UsageError
from powercut.model.extras import loaded, registered
from powercut.model.timeline import RequestKind
from powercut.model.units import NEVER
from powercut.recording import state_ref
from powercut.recording.instants import instant_of, number_of, plain_state, survivors_text
from powercut.recording.open_recording import IMPORT_FILE, Recording, find_recording
from powercut.recording.trial_recording import open_trial
from powercut.store.files import copy_sparse, host_errors
from powercut.store.trial_dir import TrialDir

__all__ = [
    "STATE_FORMS",
    "Materialized",
    "cut_state",
    "materialize",
    "medium_state",
    "open_recording",
    "resolve_state",
    "state_text",
    "write_image",
]

STATE_FORMS: Final = (
    "cut, durable@T, everything@T, medium@T, flush:N, ack:LSN, or a state's identifier"
)

_BLOCK: Final = 1 << 20


def open_recording(path: Path) -> Recording:
    """Reads the recording at `path`, as `find_recording` finds it, and checks its seal.

    Raises UsageError if there is none, and DamagedRecording for evidence that is missing
    or not what it was.
    """
    directory = find_recording(path)
    directory.check_seal()
    if (directory.path / IMPORT_FILE).is_file():
        return _open_import(directory)
    return open_trial(directory)


def _open_import(directory: TrialDir) -> Recording:
    """As the extra opens it that reads such logs: `powercut.recordings`."""
    place = registered("powercut.recordings").get(IMPORT_FILE)
    if place is None:
        raise UsageError(f"{directory.path}: is a log of another tool, and no extra reads it")
    opened: Recording = loaded(place)(directory)
    return opened


# --- names --------------------------------------------------------------------------


def resolve_state(recording: Recording, name: str) -> CrashState:
    """The state that `name` means, legal in the recording.

    Raises UsageError with the nearest names if there is none.
    """
    space = recording.space
    if name == "cut":
        return cut_state(space)
    by_instant = re.fullmatch(r"(durable|everything|medium)@(.+)", name)
    by_number = re.fullmatch(r"(flush|ack):(.+)", name)
    if by_instant:
        cut_ns = None if recording.timeline.cut is None else int(recording.timeline.cut.at)
        power_on_ns = int(recording.timeline.start_ns)
        instant = instant_of(by_instant[2], recording.start_ns, power_on_ns, cut_ns)
        if by_instant[1] == "medium":
            return medium_state(space, instant)
        return plain_state(space, instant, everything=by_instant[1] == "everything")
    if by_number:
        number = number_of(by_number[2], name, STATE_FORMS)
        find = _after_flush if by_number[1] == "flush" else _after_ack
        return plain_state(space, find(recording, number), everything=False)
    state = _by_identifier(recording, name)
    problems = why_illegal(space, state)
    if problems:
        raise DamagedRecording(
            f"state {name} is none that this recording permits: {problems[0]}",
            hint="it belongs to another recording, or was changed",
        )
    return state


def cut_state(space: StateSpace) -> CrashState:
    """What the live cut really left: durable(cut), what was destaged, and what survived.

    Raises UsageError if the power did not fail below the captured disk.
    """
    timeline = space.timeline
    if timeline.cut is None:
        raise UsageError(
            "the power never failed below this disk: there is no state `cut`",
            hint="name an instant: durable@T, everything@T, flush:N or ack:LSN",
        )
    return replace(medium_state(space, int(timeline.cut.at)), policy="cut")


def medium_state(space: StateSpace, instant: int) -> CrashState:
    """What the medium held at `instant`: durable(instant) and what had been destaged.

    At the cut also what survived it.
    """
    timeline = space.timeline
    durable = space.sets.durable(instant)
    there = [part for part in timeline.destaged if part.at < instant]
    if timeline.cut is not None and instant >= int(timeline.cut.at):
        there += timeline.survived
    kept: dict[int, list[tuple[int, int]]] = {}
    for part in there:
        if not durable[part.request]:
            kept.setdefault(part.request, []).append((part.offset, part.offset + part.length))
    torn = [
        Kept(write, begin, end)
        for write, ranges in sorted(kept.items())
        if ranges != [(int(space.begin[write]), int(space.end[write]))]
        for begin, end in sorted(ranges)
    ]
    return CrashState(instant, tuple(sorted(kept)), tuple(torn), policy="medium")


def state_text(recording: Recording, state: CrashState) -> str:
    """What the state is, for a person."""
    survivors = survivors_text(recording.space, state, "writes")
    text = f"{at_text(recording, state.instant)}: {survivors}"
    return text + (f", {len(state.moves)} out of order" if state.moves else "")


def at_text(recording: Recording, instant: int) -> str:
    """An instant for a person; for an imported log a place in its order."""
    if recording.imported:
        return f"instant {instant} of the log's order"
    cut = recording.timeline.cut
    name = "the cut, " if cut is not None and instant == int(cut.at) else ""
    return f"{name}{(instant - recording.start_ns) / 1e6:.3f} ms"


def _by_identifier(recording: Recording, name: str) -> CrashState:
    try:
        return state_ref.load(recording.directory, name)
    except UsageError as error:
        known = [*state_ref.saved(recording.directory), "cut"]
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.3)
        listed = f"nearest: {', '.join(near)}; " if near else ""
        raise UsageError(f"{error}", hint=f"{listed}STATE is {STATE_FORMS}") from error


def _after_flush(recording: Recording, number: int) -> int:
    requests = recording.timeline.requests
    flushes = np.flatnonzero(requests.kind == RequestKind.FLUSH)
    if number > len(flushes):
        raise UsageError(
            f"there is no flush {number}", hint=f"this recording has {len(flushes)} flushes"
        )
    done = int(recording.space.completed_ns[flushes[number - 1]])
    if done == NEVER:
        raise UsageError(
            f"flush {number} never completed", hint="name an earlier one, or an instant"
        )
    return done + 1


def _after_ack(recording: Recording, lsn: int) -> int:
    claims = recording.space.claims
    if not isinstance(claims, Claims) or lsn > claims.acked:
        acked = claims.acked if isinstance(claims, Claims) else 0
        raise UsageError(
            f"record {lsn} was never acknowledged",
            hint=f"records 1 to {acked} were" if acked else "nothing was acknowledged",
        )
    return int(claims.acked_ns(np.array([lsn]))[0]) + 1


# --- images -------------------------------------------------------------------------


@dataclass(frozen=True)
class Materialized:
    """An image that was written: where, of how many bytes, and their SHA-256."""

    path: Path
    size: int
    sha256: str


def materialize(
    recording: Recording, state: CrashState, path: Path, *, force: bool = False
) -> Materialized:
    """Writes the disk that `state` is to `path`, with holes where nothing was ever written.

    Raises UsageError if `path` exists and `force` is not given, HostError if it cannot be
    written, and DamagedRecording if the base image is not that of the recorded disk.
    """
    if path.exists() and (not force or not path.is_file()):
        raise UsageError(
            f"{path}: exists already",
            hint="give another name, or --force" if path.is_file() else "give the name of a file",
        )
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with host_errors(path):
        try:
            write_image(recording, recording.space.image_writes(state), unfinished)
            with unfinished.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
    return Materialized(path, path.stat().st_size, digest)


def write_image(recording: Recording, writes: Sequence[AppliedWrite], path: Path) -> None:
    """Base image and `writes`, in order, as the new file `path`: the disk, or the image file that
    grows on it.  OSErrors are the caller's.
    """
    size = recording.timeline.disk_size
    found = recording.base.stat().st_size
    if found != size:
        raise DamagedRecording(f"{recording.base}: {found} bytes, but the recorded disk has {size}")
    copy_sparse(recording.base, path)
    with path.open("r+b") as image:
        target = image.fileno()
        for write in writes:
            if write.data is None:
                end = write.offset + write.length
                _on_data(target, write.offset, end, lambda at, d: _put(target, at, bytes(len(d))))
            else:
                _put(target, write.offset, write.data.tobytes())
    if recording.system.parameters.machine.grows:
        cut_to_size(path)


def _on_data(fd: int, begin: int, end: int, act: Callable[[int, bytes], None]) -> None:
    """Calls `act` with the bytes of every part of the file that is no hole."""
    while begin < end:
        try:
            begin = os.lseek(fd, begin, os.SEEK_DATA)
        except OSError:  # ENXIO: only a hole is left
            return
        stop = min(os.lseek(fd, begin, os.SEEK_HOLE), end)
        while begin < stop:
            data = os.pread(fd, min(_BLOCK, stop - begin), begin)
            act(begin, data)
            begin += len(data)


def _put(fd: int, offset: int, data: bytes) -> None:
    while data:
        written = os.pwrite(fd, data, offset)
        data, offset = data[written:], offset + written
