# SPDX-License-Identifier: Apache-2.0
"""A recording as its time line is made of it: disks, captured folders and imported logs alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Protocol, cast

import numpy as np

from powercut.crash.arrays import I64
from powercut.crash.exposure import exposure
from powercut.crash.folder_rows import Promise
from powercut.crash.states import CrashState, StateSpace
from powercut.model.errors import DamagedRecording, HostError, PowercutError
from powercut.model.extras import provided
from powercut.model.operations import OperationHistory
from powercut.model.timeline import RequestKind
from powercut.model.units import NEVER
from powercut.recording import state_ref
from powercut.recording.disk import DiskRecording, cut_state
from powercut.recording.folder import open_capture
from powercut.recording.open_recording import open_disk
from powercut.recording.state_names import resolve_state
from powercut.store.exploration import (
    ExplorationFinding,
    ExploreResult,
    FoundState,
    read_exploration,
)
from powercut.store.folder import RECORD, CaptureDir
from powercut.store.trial_dir import TrialDir
from powercut.store.witness import read_witness
from powercut.witness.search import Drop, items_of
from powercut_extras.pages.timeline.inside import Inside
from powercut_extras.pages.timeline.names import DiskNames, Names, TreeNames
from powercut_extras.pages.timeline.waits import Waits, waits_of

STATES_MAX: Final = 40
"""States that a page has in store, those of findings first."""

LANES_MAX: Final = 14
"""Lanes of files and places, besides that of all others."""

_BY: Final = {Promise.JOURNAL: "", Promise.POSIX: ", by POSIX alone"}
"""What the title of an exploration of files says of its promise."""

FLUSHES: Final = "flushes"
"""The lane of what makes other requests durable."""

LOST_ALONE: Final = "lost its power: "
"""How the mark of one of several disks begins (harness/capture/lose.c)."""

_TOGETHER_NS: Final = 20_000_000

FILESYSTEM: Final = "file system"
"""The lane of what belongs to no file, of one of several disks."""


@dataclass(frozen=True)
class Acks:
    """Acknowledgements in the order of their instants.

    `exposed_ns` says of each for how long its bytes were exposed, 0 for not at all; None where
    no bytes are recognised.
    """

    at_ns: I64
    number: I64
    exposed_ns: I64 | None = None


@dataclass(frozen=True)
class Shown:
    """A state that the page has in store, and what was found in it, if that was told."""

    name: str
    state: CrashState
    finding: ExplorationFinding | None = None
    example: FoundState | None = None


class Picture(Protocol):
    """What another extra draws into the page of a recording that it has looked at."""

    view: object
    """What the template has of it."""

    def lanes(self, page: Source) -> dict[str, Any]:
        """What the script has of it."""


@dataclass(frozen=True)
class Source:
    """What a time line is made of.  Instants count on the clock of the recording."""

    path: Path
    space: StateSpace
    start_ns: int
    end_ns: int
    acks: Acks
    names: Names
    states: tuple[Shown, ...] = ()
    witness: str = ""
    """The name of the state that was minimised."""

    explored: tuple[tuple[str, ExploreResult], ...] = ()
    """The explorations that are kept, each with what it was for."""

    audit: Picture | None = None
    inside: Inside | None = None
    """Looks into states that are mounted for it; None where they are known without, or cannot be.
    """

    waits: Waits | None = None
    """What an ack waits for, where there are several disks."""

    problems: tuple[str, ...] = ()
    noun: str = "operation"
    names_of_acks: tuple[str, ...] = ()
    """Of marks, in their order."""

    imported: bool = False

    @property
    def node_cuts(self) -> list[tuple[int, str]]:
        """Which of several disks lost their power when, before all did; of one cut together."""
        cuts: list[tuple[int, str]] = []
        for at, mark in self.space.timeline.marks:
            name = mark.removeprefix(LOST_ALONE)
            if name == mark:
                continue
            if cuts and at - cuts[-1][0] < _TOGETHER_NS:
                cuts[-1] = (cuts[-1][0], f"{cuts[-1][1]}, {name}")
            else:
                cuts.append((int(at), name))
        return cuts

    @cached_property
    def lanes(self) -> Lanes:
        """Of the file or the place that each request belongs to; of several disks what is no file
        is its file system."""
        timeline = self.space.timeline
        flush = timeline.requests.kind == RequestKind.FLUSH

        def lane(request: int) -> str:
            disk = timeline.disk_name(request) if timeline.disks else ""
            what = FLUSHES if flush[request] else self.names.lane(request)
            if not disk:
                return what
            own = FILESYSTEM if what.startswith("disk ") else what.removeprefix(f"{disk}/")
            return f"disk {disk}: {own}"

        of = [lane(request) for request in range(len(timeline.requests))]
        witness = [shown.state for shown in self.states if shown.name == self.witness]
        return Lanes(of, {of[write] for state in witness for write in self.missing(state)})

    def missing(self, state: CrashState) -> list[int]:
        """The writes that `state` lacks, whole or in part, rising."""
        drops = (item for item in items_of(self.space, state) if isinstance(item, Drop))
        return sorted({drop.write for drop in drops})


class Lanes:
    """Which lane each request is drawn in, by number: flushes, the busiest files, all others."""

    def __init__(self, belong: Sequence[str], first: Collection[str] = ()) -> None:
        """`belong` has for each request its file or place, or `FLUSHES`; `first` are those of what
        was lost."""
        counts = Counter(belong)
        flushes = {name for name in counts if name.endswith(FLUSHES)}
        kinds = counts.keys() - flushes
        files = sorted(kinds, key=lambda name: (name not in first, -counts[name], name))
        others = files[LANES_MAX:]
        drawn = {*flushes, *files[:LANES_MAX]}
        self.names = sorted(drawn, key=lambda name: _by_disk(name, first))
        if others:
            self.names.append(f"{len(others)} other files and places")
        number = {name: index for index, name in enumerate(self.names)}
        last = len(self.names) - 1
        self.of = [number.get(name, last) for name in belong]
        self.flushes = frozenset(number[name] for name in flushes)


def _by_disk(name: str, first: Collection[str]) -> tuple[str, bool, bool, bool, str]:
    """Those of one disk stand together: its flushes, its files, its file system."""
    disk, _, what = name.rpartition(": ") if name.startswith("disk ") else ("", "", name)
    return disk, what != FLUSHES, what == FILESYSTEM, name not in first, what


def source_at(path: Path) -> Source:
    """The recording in the folder `path`.  Raises UsageError, DamagedRecording."""
    return _of_folder(CaptureDir(path)) if (path / RECORD).is_file() else _of_disk(path)


def _of_disk(path: Path) -> Source:
    recording = open_disk(path)
    directory, cut = recording.directory, recording.timeline.cut
    start = recording.start_ns
    end = _last_ns(recording.space) if cut is None else int(cut.at)
    explored, witness = read_exploration(directory), read_witness(directory.path)
    kept, problems = _kept(
        state_ref.saved(directory),
        [] if explored is None else explored.findings,
        lambda name: resolve_state(recording, name),
    )
    audit = None
    try:
        audit = _picture(directory, len(recording.timeline.requests))
    except (DamagedRecording, HostError) as error:  # damaged, or of a broken extra
        problems.append(str(error))
    live = [] if cut is None else [Shown("cut", cut_state(recording.space))]
    return Source(
        path=directory.path,
        space=recording.space,
        start_ns=start,
        end_ns=max(end, start + 1),
        acks=_acks_of(recording),
        names=DiskNames(recording, end),
        inside=Inside.of(recording),
        waits=_waits_of(recording),
        states=(*live, *kept),
        witness="" if witness is None else witness.state,
        explored=() if explored is None else (("States explored", explored),),
        audit=audit,
        problems=(*recording.gaps, *problems),
        noun=recording.noun,
        names_of_acks=recording.names_of_acks,
        imported=recording.imported,
    )


def _of_folder(directory: CaptureDir) -> Source:
    recording = open_capture(directory)
    witness = read_witness(directory.path)
    looks = (directory.find_result(), directory.find_exploration())
    titles = ("States recovered for the verdict", "More states explored")

    def resolve(name: str) -> CrashState | None:
        value = state_ref.read_file(state_ref.find(directory, name))
        own = value.get("promise") == recording.promise.value
        return resolve_state(recording, name) if own else None

    kept, problems = _kept(
        state_ref.saved(directory),
        [found for look in looks if look is not None for found in look.explored.findings],
        resolve,
    )
    start, end = recording.start_ns, recording.record.cut_ns
    return Source(
        path=directory.path,
        space=recording.space,
        start_ns=start,
        end_ns=max(end, start + 1),
        acks=Acks(recording.history.ack_ns, recording.history.acked),
        names=TreeNames(recording, recording.space, end),
        states=kept,
        witness="" if witness is None else witness.state,
        explored=tuple(
            (title + _BY[Promise(look.promise)], look.explored)
            for title, look in zip(titles, looks, strict=True)
            if look is not None
        ),
        problems=(*recording.gaps, *problems),
    )


def _picture(directory: TrialDir, requests: int) -> Picture | None:
    picture_of = provided("powercut.pictures")
    return None if picture_of is None else cast(Picture | None, picture_of(directory, requests))


def _last_ns(space: StateSpace) -> int:
    """The last thing that an uncut recording knows of."""
    done = space.completed_ns[space.completed_ns != NEVER]
    return max(int(space.sets.submitted_ns.max(initial=0)), int(done.max(initial=0))) + 1


def _waits_of(recording: DiskRecording) -> Waits | None:
    known = recording.known_promises
    history = None if known is None else known.requirements
    if not isinstance(history, OperationHistory):
        return None
    return waits_of(recording.timeline, history, recording.space.completed_ns)


def _acks_of(recording: DiskRecording) -> Acks:
    """Of recognised records also for how long each was exposed."""
    known = recording.known_promises
    if known is not None:
        history = known.requirements
        if isinstance(history, OperationHistory):
            return Acks(history.ack_ns, history.acked)
        return Acks(history.ack_ns, np.arange(1, len(history.ack_ns) + 1, dtype=np.int64))
    if recording.layout is None:
        nothing = np.zeros(0, dtype=np.int64)
        return Acks(nothing, nothing)
    report = exposure(recording.evidence)
    order = np.argsort(report.ack_ns, kind="stable")
    return Acks(report.ack_ns[order], report.lsn[order], report.exposed_ns[order])


def _kept(
    saved: Sequence[str],
    findings: Iterable[ExplorationFinding],
    resolve: Callable[[str], CrashState | None],
) -> tuple[tuple[Shown, ...], list[str]]:
    """The states that are kept beside a recording, those that were found first; and what of them
    cannot be read.  Those that are none of this page's `resolve` does not tell.
    """
    found = {one.id: (finding, one) for finding in findings for one in finding.examples if one.id}
    shown, problems = [], []
    for name in [*dict.fromkeys([*found, *saved])][:STATES_MAX]:
        try:
            state = resolve(name)
        except PowercutError as error:
            problems.append(f"state {name}: {error}")
            continue
        if state is not None:
            shown.append(Shown(name, state, *found.get(name, (None, None))))
    return tuple(shown), problems
