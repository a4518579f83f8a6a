# SPDX-License-Identifier: Apache-2.0
"""`powercut capture`: a command in a captured folder, recorded, cut, sealed and judged."""

from __future__ import annotations

import os
import re
import shlex
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from powercut import __version__
from powercut.crash.explore import InstantKind
from powercut.crash.folder import FolderSpace
from powercut.crash.folder_rows import Promise
from powercut.crash.kinds import kinds_of
from powercut.crash.states import CrashState
from powercut.disk.folder_log import read_folder_log
from powercut.explore.folder import look_at_folder
from powercut.explore.folder_judge import FolderJudge, Known
from powercut.explore.request import Budget, ExploreProgress, ExploreRequest, Listener
from powercut.explore.trial import AUTO_STATES_OF_PROGRAM
from powercut.machine.share import FolderShare, share_argv
from powercut.model.confidence import LONGER
from powercut.model.errors import DamagedRecording, HostError, UsageError
from powercut.model.folder import FolderTimeline
from powercut.model.machine_identity import Boot, MachineIdentity
from powercut.model.named_path import files_below
from powercut.model.printable import printable
from powercut.model.units import NEVER
from powercut.recording.consent import require_consent_to
from powercut.recording.folder import ALL_MODE_BITS, PERMISSIONS, FolderRecording, build_tree
from powercut.recover.native.folder import (
    FolderSandbox,
    confined_command,
    sharing_command,
    shell_in_folder,
    written_elsewhere,
)
from powercut.rig.folder import CapturedFolder
from powercut.rig.folder_acks import FolderAcks
from powercut.rig.folder_check import RecordedCheck, record_check
from powercut.rig.host_files import command_sha256, program_changed
from powercut.rig.scratch import scratch
from powercut.store.files import host_errors
from powercut.store.folder import RECORD, CaptureDir, CaptureRecord, CaptureResult
from powercut.store.witness import Witness
from powercut.verdict.folder import verdict_of_capture
from powercut.witness.folder import minimize_folder
from powercut.witness.search import Progress, nothing_told
from powercut.workload.program.claims import history_of

STATE_S: Final = 60.0
"""What one check may take, if nothing is said."""


@dataclass(frozen=True)
class CaptureOrder:
    """What is to be captured.

    The cut comes after `acks` operations, after `seconds`, or when the command ends, whichever
    is first; 0 `acks` are none.  With `goes_on` so many acks are the least
    (`further`).  One that has begun, and acknowledged too little to prove anything,
    may take `LONGER` times as long.  With `share` the command runs in a guest that shares the
    folder.  No promise rests on what it leaves in the places of `scratch`.
    """

    folder: Path
    command: tuple[str, ...]
    check: tuple[str, ...]
    acks: int
    seconds: float
    atomic_unit: int
    seed: int
    share: FolderShare | None = None
    scratch: tuple[str, ...] = ()
    goes_on: bool = False


def record_folder(order: CaptureOrder, directory: CaptureDir) -> CaptureRecord:
    """Runs the command until the cut, and seals what was recorded.  Raises HostError."""
    acks = FolderAcks(order.acks)
    where, machine = Path.cwd(), MachineIdentity(order.seed)
    argv: Sequence[str] = order.command
    if order.share:
        argv = share_argv(order.share, order.folder, order.command, machine)
    damage: list[str] = []
    captured = CapturedFolder(
        order.folder,
        directory.log,
        atomic_unit=order.atomic_unit,
        seed=order.seed,
        output=directory.console,
        on_said=acks.hear,
    )
    with captured, scratch() as memory:
        if order.share:
            captured.run(sharing_command(argv, order.folder, where, memory))
        else:
            captured.run(confined_command(argv, order.folder, where, memory, machine))
        is_enough = None
        if order.goes_on:
            further = Further(directory.log, asked=order.acks, seconds=order.seconds)
            is_enough = further.is_enough
        status = acks.wait(captured, order.seconds, longer=LONGER, is_enough=is_enough)
        try:
            captured.cut()
        except HostError as error:
            damage.append(str(error))
        elsewhere = written_elsewhere(memory)
    timeline = read_folder_log(directory.log)
    if timeline.cut_ns is None:
        raise DamagedRecording(f"{directory.path}: the log has no cut: its recorder was killed")
    record = CaptureRecord(
        powercut=__version__,
        folder=str(order.folder),
        where=str(Path.cwd()),
        command=order.command,
        share=str(order.share or ""),
        check=order.check,
        check_sha256=_digest(order.check, order.folder, Path.cwd()),
        atomic_unit=order.atomic_unit,
        seed=order.seed,
        cut_ns=int(timeline.cut_ns),
        status=status,
        damage=tuple(damage),
        elsewhere=elsewhere,
        scratch=order.scratch,
        inodes=kept_inodes(order.folder),
    )
    directory.write_record(record)
    return record


@dataclass(frozen=True)
class Checking:
    """What all looks at one recording share: a check, a place for states, and what is known of them
    already."""

    check: FolderSandbox
    folder: Path
    known: Known = field(default_factory=dict)


@contextmanager
def checking(recording: FolderRecording, state_s: float) -> Iterator[Checking]:
    """A check may take `state_s` seconds.  Raises HostError as `check_of`."""
    with scratch() as folder, check_of(recording, state_s) as check:
        yield Checking(check, folder)


def judge_folder(
    recording: FolderRecording,
    wanted: ExploreRequest,
    on_event: Listener = lambda _: None,
    *,
    state_s: float = STATE_S,
    keep: bool = False,
    within: Checking | None = None,
) -> CaptureResult:
    """Judges a recording by its check, which may take `state_s` seconds; does not write the result.

    With `keep` the states that its findings tell of are kept beside the recording.  Raises
    DamagedRecording, HostError, also if the check is not the one that was given.
    """
    record = partial(_recorded, recording.record, state_s) if wanted.depth else None
    with nullcontext(within) if within else checking(recording, state_s) as of:
        seen = look_at_folder(
            recording,
            wanted,
            of.check,
            of.folder,
            on_event,
            keep=keep,
            record=record,
            known=of.known,
        )
    return verdict_of_capture(recording, seen, state_s=state_s)


def judge_again(recording: FolderRecording) -> CaptureResult:
    """As `judge_folder`, by the limits of its result, else by the usual ones."""
    before = recording.directory.find_result()
    if before is None:
        states = Budget(AUTO_STATES_OF_PROGRAM)
        usual = ExploreRequest(budget=states, seed=recording.record.seed, confirm=False)
        return judge_folder(recording, usual)
    return judge_folder(recording, request_of(before), state_s=before.state_s)


def check_of(recording: FolderRecording, state_s: float) -> FolderSandbox:
    """The check that was given when the recording was made; it may take `state_s` seconds.

    Raises HostError if there is none, if it may not be run, or if this host has another one.
    """
    record = recording.record
    if not record.check:
        raise HostError("this recording has no check", hint="give one with --check when it is made")
    require_consent_to(recording.directory.path, RECORD, (shlex.join(record.check),))
    folder, where = Path(record.folder), Path(record.where)
    for place in (folder, where):
        if not place.is_dir():
            raise HostError(
                f"{place}: the check runs there, and it is no folder of this host",
                hint=f"mkdir -p {shlex.quote(str(place))}",
            )
    if record.check_sha256 != _digest(record.check, folder, where):
        raise program_changed(shlex.join(record.check))
    return FolderSandbox(record.check, folder, where, timeout_s=state_s)


def _digest(check: Sequence[str], folder: Path, where: Path) -> str:
    """That of the files that a check's command names, but for those in the captured folder, which
    are what it looks at; empty without a check.
    """
    own = [word for word in check if not Path(where, word).is_relative_to(folder)]
    return command_sha256(own, str(where)) if own else ""


def _recorded(
    record: CaptureRecord, state_s: float, state: Path, log: Path, boot: Boot
) -> RecordedCheck:
    return record_check(
        record.check,
        state,
        Path(record.folder),
        Path(record.where),
        log,
        boot,
        atomic_unit=record.atomic_unit,
        seed=record.seed,
        timeout_s=state_s,
    )


def request_of(result: CaptureResult) -> ExploreRequest:
    """That of an earlier verdict."""
    asked = result.explored
    return ExploreRequest(
        policies=asked.policies,
        at=tuple(InstantKind(name) for name in asked.at),
        budget=Budget.parse(asked.budget),
        seed=asked.seed,
        depth=asked.depth,
        confirm=False,
    )


def progress_text(event: ExploreProgress) -> str:
    """How far the look at states has come."""
    return f"{event.states:,} states, {event.lossy_states:,} lose something"


# Whether a run that has done what it was asked for goes on: a fault may begin later.
#
# While there is time and room, it does until `_SHARE` of its seconds are used and no new kind of
# call (powercut.crash.kinds: a call, and the role of its file) has come in its second half.  A
# program that rotates a log seldom is so met with its first rotation, if one is near.

_SHARE: Final = 0.25
_TIMES: Final = 4
"""How many times the operations that were asked for: each makes every state larger."""

_ROOM: Final = 64 << 20
"""Bytes written: the disk beside has to have room for them, too."""


class Further:
    """Looks after a run that began just now; `log` is that of its folder, without suffixes."""

    def __init__(self, log: Path, *, asked: int, seconds: float) -> None:
        self._log = log
        self._most = _TIMES * asked
        self._until = asked
        self._not_before = time.monotonic() + seconds * _SHARE

    def is_enough(self, acked: int) -> bool:
        """Whether the power may go after so many operations."""
        if acked >= self._most or self._log.with_suffix(".data").stat().st_size >= _ROOM:
            return True
        if acked < self._until or time.monotonic() < self._not_before:
            return False
        try:
            self._until = 2 * operations_before_newest(read_folder_log(self._log))
        except DamagedRecording:  # of what is written just now an event may stand before another
            return False
        return acked >= self._until


def operations_before_newest(folder: FolderTimeline) -> int:
    """How many operations were acknowledged when the newest kind of call came first."""
    history = history_of(folder.said, int(NEVER))
    space = FolderSpace(folder, Promise.JOURNAL, history)
    _, first = np.unique(kinds_of(space).rank, return_index=True)
    if not len(first):
        return 0
    newest = max(space.rows[at].request.submitted_ns for at in first.tolist())
    return int(np.sort(history.ack_ns).searchsorted(newest))


# Which files hold the inode number of another, as a store does that knows its files by these.
#
# In the folder of a crash state, which is made anew, files have other numbers; so such a store
# finds none of its files there, although a machine that was cut would.

_SEARCHED_MAX: Final = 1 << 20
"""Bytes of a file."""

_FILES_MAX: Final = 256
_NUMBER_MIN: Final = 10_000
"""Numbers below stand in files for other reasons."""

_DECIMAL: Final = re.compile(rb"[0-9]{5,20}")
_WORD: Final = 8


def kept_inodes(folder: Path) -> tuple[str, ...]:
    """Their paths in `folder`, as far as can be seen soon: numbers in decimal digits, or as a word
    of 8 bytes where such a word would lie."""
    files = []
    for path in files_below(folder, "*", of_results=False)[:_FILES_MAX]:
        try:
            if stat.S_ISREG((found := path.lstat()).st_mode):
                files.append((path, found.st_ino))
        except OSError:  # it has gone
            continue
    numbers = {number for _, number in files if number >= _NUMBER_MIN}
    holding = (path for path, own in files if _numbers_in(path) & (numbers - {own}))
    return tuple(printable(str(path.relative_to(folder))) for path in holding)


def _numbers_in(path: Path) -> set[int]:
    try:
        with path.open("rb") as file:
            data = file.read(_SEARCHED_MAX)
    except OSError:
        return set()
    words = memoryview(data)[: len(data) // _WORD * _WORD].cast("Q")
    return {int(digits) for digits in _DECIMAL.findall(data)} | set(words)


# What is done with crash states of a captured folder: explored, minimised, written, entered.


@dataclass(frozen=True)
class WrittenFolder:
    """How much a crash state holds that was written out, in files, folders and bytes."""

    files: int
    folders: int
    size: int


def explore_folder(
    recording: FolderRecording, wanted: ExploreRequest, on_event: Listener = lambda _: None
) -> CaptureResult:
    """Looks at more states; keeps what it has found beside the recording.

    Raises DamagedRecording, HostError.
    """
    before = recording.directory.find_result()
    state_s = STATE_S if before is None else before.state_s
    result = judge_folder(recording, wanted, on_event, state_s=state_s, keep=True)
    recording.directory.write_exploration(result)
    return result


def minimize_capture(
    recording: FolderRecording,
    state: str | None,
    *,
    operation: int | None,
    budget: Budget,
    progress: Progress = nothing_told,
    within: Checking | None = None,
) -> Witness:
    """The fewest lost writes that still lose something.

    Raises UsageError if nothing is lost, DamagedRecording, HostError.
    """
    result = recording.directory.find_result()
    state_s = STATE_S if result is None else result.state_s
    with (
        nullcontext(within) if within else checking(recording, state_s) as of,
        FolderJudge(recording, of.check, of.folder, known=of.known) as judge,
    ):
        if not (control := judge.positive()).believed:
            raise UsageError(
                f"{recording.directory.path}: {control.message}",
                hint="look at what is there (powercut shell), mend the check, and record again",
            )
        return minimize_folder(
            recording, judge, state, operation=operation, budget=budget, progress=progress
        )


def write_state(recording: FolderRecording, state: CrashState, target: Path) -> WrittenFolder:
    """Makes the new folder `target` of a crash state, in which nothing is setuid or setgid.

    Raises UsageError, HostError.
    """
    with host_errors(target):
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise UsageError(
                f"{target}: exists already", hint="give the name of a new or an empty folder"
            )
        target.mkdir(parents=True, exist_ok=True)
    _build(recording, state, target, PERMISSIONS)
    files = folders = size = 0
    for place, below, names in os.walk(target):
        folders += len(below)
        files += len(names)
        size += sum((Path(place) / one).lstat().st_size for one in names)
    return WrittenFolder(files, folders, size)


def enter_state(recording: FolderRecording, state: CrashState, commands: str | None) -> int:
    """A shell that finds the state where the captured folder was; or runs `commands` in it.

    Returns its exit status.  The state is gone afterwards.  Raises HostError.
    """
    with scratch() as folder:
        target = folder / "state"
        target.mkdir()
        _build(recording, state, target)
        return shell_in_folder(target, Path(recording.record.folder), commands)


def _build(
    recording: FolderRecording, state: CrashState, target: Path, mode_bits: int = ALL_MODE_BITS
) -> None:
    space = recording.space
    build_tree(space, space.tree(state), target, mode_bits=mode_bits)
