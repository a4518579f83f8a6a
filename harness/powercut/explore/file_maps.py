# SPDX-License-Identifier: Apache-2.0
"""Which file a write belongs to: asked of the file system that held it.

A crash state may lack what leads to a file, so it is not asked itself, but the state of the same
instant in which everything that was issued has survived, that of the cut, and some in between: a
file that is renamed or deleted on the way lies in those alone.  They are mounted in User-Mode
Linux, as for a recovery, and the kernel says where each file lies.  Names are all that follows.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from typing import Final

import numpy as np

from powercut.crash.states import CrashState
from powercut.explore.state_images import StateImages
from powercut.model.errors import HostError, PowercutError
from powercut.model.machine import ImageFormat
from powercut.model.operations import OperationHistory
from powercut.model.timeline import RequestKind
from powercut.model.units import NEVER
from powercut.model.verdict import Verdict
from powercut.recording.disk import DiskRecording
from powercut.recover.order import EngineOrder
from powercut.recover.plan import Mount, Read, RecoveryPlan
from powercut.recover.port import FilePlace, MapsFiles, RecoveryEngine
from powercut.rig.engine_shelf import EngineShelf
from powercut.rig.engines import follows_plans, open_engine, start_engine
from powercut.store.exploration import ExploreResult
from powercut.store.file_map import FileMaps, FilesAt, MappedFile, read_file_maps, write_file_maps

_ENGINE: Final = "uml"
_POINT: Final = "/mnt"
_START_S: Final = 180.0
_STATE_S: Final = 60.0
_INSTANTS_MAX: Final = 24
_FLUSHES: Final = 2
_SPREAD: Final = 12
"""Instants of a run at which files are asked for, whatever was lost: a map takes some 30 ms."""


def map_program(
    recording: DiskRecording,
    explored: ExploreResult | None = None,
    shelf: EngineShelf | None = None,
) -> None:
    """Keeps the files of a program at the cut, in the states that lose something, and during the
    run.

    A map that cannot be had is no fault of the recording's: files.json says why not.
    """
    if not isinstance(recording.promises.requirements, OperationHistory):
        return
    found = () if explored is None else explored.findings
    lossy = [one for one in found if one.verdict is Verdict.LOSSY]
    instants = [example.instant for one in lossy for example in one.examples if example.id]
    keep_file_maps(recording, instants, during=True, shelf=shelf)


def keep_file_maps(
    recording: DiskRecording,
    instants: Iterable[int],
    *,
    during: bool = False,
    shelf: EngineShelf | None = None,
) -> None:
    """Sees to it that files.json has the files at `instants` and at the cut, and, if wanted, at
    some more `during` the run.

    What is there already is not asked again.  An engine comes from the `shelf`, if there is one.
    """
    if not mappable(recording):
        return
    known = read_file_maps(recording.directory)
    maps = {} if known is None else {one.instant: one for one in known.maps}
    cut = recording.timeline.cut
    wanted = ([] if cut is None else [int(cut.at)]) + [*instants]
    wanted += [later for instant in wanted for later in _after_flushes(recording, instant)]
    missing = [one for one in dict.fromkeys(wanted) if one not in maps][:_INSTANTS_MAX]
    if during and len(maps) < _SPREAD:
        missing += [one for one in _spread(recording) if one not in maps and one not in missing]
    if not missing:
        return
    problem = ""
    try:
        maps |= {one.instant: one for one in _ask(recording, missing, shelf)}
    except PowercutError as error:
        problem = str(error)
    ordered = tuple(maps[instant] for instant in sorted(maps))
    write_file_maps(recording.directory, FileMaps(maps=ordered, problem=problem))


def mappable(recording: DiskRecording) -> bool:
    """Whether its states are mounted."""
    raw = recording.image_format is ImageFormat.RAW
    return raw and bool(recording.filesystem) and recording.plan is not None


def _after_flushes(recording: DiskRecording, instant: int) -> list[int]:
    """Instants after the next flushes were done: by then a file that is being made has its name."""
    return _flushed(recording, instant)[:_FLUSHES]


def _flushed(recording: DiskRecording, instant: int) -> list[int]:
    """Instants after flushes that were done between `instant` and the cut."""
    requests = recording.timeline.requests
    done = recording.space.completed_ns[requests.kind == RequestKind.FLUSH]
    cut = recording.timeline.cut
    end = int(NEVER) if cut is None else int(cut.at)
    return [int(one) + 1 for one in np.sort(done[(done >= instant) & (done < end)])]


def _spread(recording: DiskRecording) -> list[int]:
    """Some of the instants after flushes, evenly over the run."""
    flushed = _flushed(recording, recording.start_ns)
    at = np.linspace(0, len(flushed) - 1, min(_SPREAD, len(flushed)))
    return [flushed[int(one)] for one in at]


def _ask(
    recording: DiskRecording, instants: Iterable[int], shelf: EngineShelf | None
) -> list[FilesAt]:
    states = [
        CrashState(instant, tuple(recording.space.volatile(instant).tolist()))
        for instant in instants
    ]
    files = files_of(recording, states, shelf)
    return [FilesAt(instant=of.instant, files=one) for of, one in zip(states, files, strict=True)]


def files_of(
    recording: DiskRecording, states: Iterable[CrashState], shelf: EngineShelf | None = None
) -> list[tuple[MappedFile, ...]]:
    """The files of each state, after recovery.  Raises PowercutError if one has none."""
    images = StateImages(recording.space)
    found = []
    with ExitStack() as stack:
        engine = _engine(recording, shelf, stack)
        if not isinstance(engine, MapsFiles):
            raise HostError(f"the engine {_ENGINE} does not tell where files lie")
        for state in states:
            files = engine.files(images.writes(state), timeout_s=_STATE_S)
            found.append(tuple(map(_mapped, files)))
    return found


def _engine(
    recording: DiskRecording, shelf: EngineShelf | None, stack: ExitStack
) -> RecoveryEngine:
    """One that is up; of a shelf that which has recovered the states of the recording."""
    plan = recording.plan
    assert plan is not None
    parameters = recording.system.parameters
    if shelf is not None and follows_plans(_ENGINE):
        return stack.enter_context(
            shelf.lend(_ENGINE, EngineOrder(recording.base, plan, parameters))
        )
    mount = plan.find(Mount)
    options = "" if mount is None else mount.options
    steps = (Mount(recording.filesystem, options, _POINT), Read(("/bin/wal",)))
    engine = open_engine(_ENGINE, EngineOrder(recording.base, RecoveryPlan(steps), parameters))
    start_engine(engine, stack, timeout_s=_START_S)
    return engine


def _mapped(place: FilePlace) -> MappedFile:
    extents = tuple((one.disk, one.file, one.length) for one in place.extents)
    return MappedFile(path=place.path, folder=place.folder, extents=extents)
