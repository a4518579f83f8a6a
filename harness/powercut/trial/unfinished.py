# SPDX-License-Identifier: Apache-2.0
"""What a power cut leaves of an operation that is under way, of a program that nobody has recorded.

It runs in a captured folder (powercut.rig.folder) until it has acknowledged enough.  Then folders
are made that a cut could have left while an operation was under way: each lacks one write that was
not durable yet, and has all others.  So nothing is missing that a cut cannot take: a file that was
synced before it got its name is whole under that name.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from powercut.crash.folder import FolderSpace, Tree
from powercut.crash.folder_rows import Promise
from powercut.crash.states import CrashState
from powercut.disk.folder_log import read_folder_log
from powercut.model.operations import OperationHistory
from powercut.model.timeline import RequestKind
from powercut.model.units import NEVER
from powercut.recording.folder import build_tree, fingerprint, remove_tree
from powercut.recover.native.folder import confined_command
from powercut.rig.folder import CapturedFolder
from powercut.rig.folder_acks import FolderAcks
from powercut.workload.program.claims import history_of

STATES: Final = 8
_UNIT: Final = 512


@dataclass(frozen=True)
class Unfinished:
    """A folder that a cut may leave; `operations` were under way, and not acknowledged."""

    folder: Path
    operations: frozenset[int]


def unfinished_states(
    command: Sequence[str], folder: Path, beside: Path, *, acks: int, seconds: float, seed: int
) -> Iterator[Unfinished]:
    """Up to `STATES` of `command`, which works in `folder`, each gone when the next is asked for.

    They are made in the folder `beside`, which is empty at first.  Raises HostError where no folder
    can be captured, DamagedRecording.
    """
    space, history = _recorded(command, folder, beside, acks=acks, seconds=seconds, seed=seed)
    states = _states(space, history)
    random.Random(f"{seed}/unfinished").shuffle(states)
    seen: set[bytes] = set()
    for state in states:
        tree = space.tree(state)
        if len(seen) == STATES or (name := fingerprint(tree)) in seen:
            continue
        seen.add(name)
        under_way = history.attempted_before(state.instant) - history.acked_before(state.instant)
        yield from _made(space, tree, beside / "state", under_way)


def _made(
    space: FolderSpace, tree: Tree, target: Path, under_way: frozenset[int]
) -> Iterator[Unfinished]:
    target.mkdir(mode=0o755)
    try:
        build_tree(space, tree, target)
        yield Unfinished(target, under_way)
    finally:
        remove_tree(target)


def _recorded(
    command: Sequence[str], folder: Path, beside: Path, *, acks: int, seconds: float, seed: int
) -> tuple[FolderSpace, OperationHistory]:
    heard = FolderAcks(acks)
    log, memory = beside / "log", beside / "memory"
    memory.mkdir()
    with CapturedFolder(
        folder, log, atomic_unit=_UNIT, seed=seed, output=beside / "printed", on_said=heard.hear
    ) as captured:
        captured.run(confined_command(command, folder, Path.cwd(), memory))
        heard.wait(captured, seconds)
        captured.cut()
    timeline = read_folder_log(log)
    history = history_of(timeline.said, int(timeline.cut_ns or NEVER))
    return FolderSpace(timeline, Promise.JOURNAL, history), history


def _states(space: FolderSpace, history: OperationHistory) -> list[CrashState]:
    """For each write that was made while an operation was under way, and not durable when the first
    of these was acknowledged, or until then: all that was issued but that write.
    """
    states = []
    for number, row in enumerate(space.rows):
        submitted = row.request.submitted_ns
        if row.kind is RequestKind.FLUSH or row.change is not None:
            continue
        under_way = history.attempted_before(submitted) - history.acked_before(submitted)
        ends = [at for one, at in _acks(history) if one in under_way]
        instant = min([int(space.sets.durable_ns[number]), *ends])
        volatile = space.volatile(instant).tolist() if under_way and instant < NEVER else []
        if number in volatile:
            others = tuple(one for one in volatile if one != number)
            states.append(space.legal(CrashState(instant, others)))
    return states


def _acks(history: OperationHistory) -> Iterator[tuple[int, int]]:
    return zip(history.acked.tolist(), history.ack_ns.tolist(), strict=True)
