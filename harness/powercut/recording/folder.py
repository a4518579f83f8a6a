# SPDX-License-Identifier: Apache-2.0
"""A captured folder, opened to look at its crash states, and these made into folders."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shlex
import shutil
import stat
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Final

import numpy as np

from powercut.crash.arrays import I64
from powercut.crash.explore import InstantKind, events
from powercut.crash.folder import FileState, FolderSpace, Tree
from powercut.crash.folder_rows import Promise, Row
from powercut.crash.legality import why_illegal
from powercut.crash.states import CrashState
from powercut.disk.folder_log import read_folder_log
from powercut.disk.pclog import failing_marks
from powercut.model.errors import DamagedRecording, HostError, UsageError
from powercut.model.folder import OWN, Attributes, FolderOp, FolderTimeline
from powercut.model.operations import OperationHistory
from powercut.model.outside import LeftFiles, Link, Outside, outside_of
from powercut.model.timeline import RequestKind
from powercut.model.units import NEVER
from powercut.recording import state_ref
from powercut.recording.folder_names import FolderNames, in_file
from powercut.recording.state_ref import StateRef, serialise
from powercut.sandbox.printed import lines_of
from powercut.store.folder import CaptureDir, CaptureRecord
from powercut.workload.program.claims import history_of

ALL_MODE_BITS: Final = 0o7777
PERMISSIONS: Final = 0o777

_TALKS: Final = {FolderOp.PIPE: stat.S_IFIFO, FolderOp.SOCKET: stat.S_IFSOCK}
_REFUSED: Final = {
    errno.EROFS: "the command may write in DIR and in memory, and perhaps wanted to elsewhere",
    errno.EOPNOTSUPP: (
        "a captured folder, as tmpfs, refuses FALLOC_FL_COLLAPSE_RANGE, FALLOC_FL_INSERT_RANGE and "
        "chattr, and perhaps the command wanted one of these: record it on a disk (powercut record)"
    ),
}
_SAID_MAX: Final = 300
_PROMISE: Final = "promise"


@dataclass(frozen=True)
class FolderRecording:
    """What was recorded of a captured folder, under one `promise` of names.

    `doubts` keep even a loss from being certain; `gaps` a SAFE.
    `refused` is what the command perhaps was refused, by what it printed: why it may have failed.
    """

    directory: CaptureDir
    record: CaptureRecord
    folder: FolderTimeline
    history: OperationHistory
    gaps: tuple[str, ...]
    doubts: tuple[str, ...]
    refused: tuple[str, ...] = ()
    promise: Promise = Promise.JOURNAL

    state_forms: ClassVar[str] = (
        "durable@T, everything@T, ack:N, or a state's identifier; T may be `cut`"
    )
    requests_word: ClassVar[str] = "writes and changes"
    imported: ClassVar[bool] = False

    @property
    def title(self) -> str:
        return shlex.join(self.record.command)

    @property
    def cut_ns(self) -> int:
        return self.record.cut_ns

    @property
    def power_on_ns(self) -> int:
        return int(self.folder.begin_ns)

    @property
    def start_ns(self) -> int:
        """When the program was ready, or without that word its first attempt; nothing was promised
        before.
        """
        if self.history.ready_ns is not None:
            return self.history.ready_ns
        attempts = self.history.attempt_ns
        return int(attempts[0]) if len(attempts) else int(self.folder.begin_ns)

    def outside(self, *, alone: bool = False) -> Outside:
        """What the command has written that no crash state has; `alone`: nothing else that holds
        anything."""
        record = self.record
        links = _links(self.folder, record) if record.elsewhere != LeftFiles() else ()
        return outside_of(record.folder, links, record.elsewhere, record.scratch, alone=alone)

    def nothing_written_since(self, operations: frozenset[int]) -> bool:
        """Whether nothing at all was written or changed since the first of these was tried."""
        tried = np.isin(self.history.attempted, sorted(operations))
        since = int(self.history.attempt_ns[tried].min(initial=NEVER))
        return not any(
            one.op is not FolderOp.FLUSH and one.submitted_ns >= since
            for one in self.folder.requests
        )

    @cached_property
    def space(self) -> FolderSpace:
        """All crash states: folders."""
        return FolderSpace(self.folder, self.promise, self.history)

    @cached_property
    def at_cut(self) -> tuple[CrashState, ...]:
        """The least and the most that the cut may have left."""
        everything = tuple(self.space.volatile(self.cut_ns).tolist())
        return (
            CrashState(self.cut_ns, (), policy="durable-only"),
            CrashState(self.cut_ns, everything, policy="everything-issued"),
        )

    def instants(self, kinds: Sequence[InstantKind]) -> I64:
        """Those since the program was ready.  No event is later than the cut."""
        found = events(self.space, kinds)
        return found[(found > self.start_ns) & (found <= self.cut_ns)]

    @property
    def lying_space(self) -> FolderSpace:
        """The same on a host that ignores every sync."""
        return FolderSpace(self.folder, self.promise, self.history, lying=True)

    def under(self, promise: Promise) -> FolderRecording:
        """The same under another promise."""
        return self if promise is self.promise else replace(self, promise=promise)

    def own_state(self, name: str) -> CrashState | None:
        del name
        return None

    def after_ack(self, number: int) -> int:
        acks = np.flatnonzero(self.history.acked == number)
        if not len(acks):
            count = len(self.history.acked)
            raise UsageError(
                f"operation {number} was never acknowledged",
                hint=f"{count} were" if count else "nothing was acknowledged",
            )
        return int(self.history.ack_ns[acks[0]]) + 1

    def name_of(self, number: int) -> str:
        """What a request was of."""
        row = self.space.rows[number]
        names = FolderNames(self.space, row.request.submitted_ns + 1)
        if row.kind is RequestKind.FLUSH:
            return names.sync(row.request)
        return names.describe(row, [in_file(row.offset, row.offset + row.length)])

    def reference(self, state: CrashState) -> StateRef:
        """With the promise under which it is legal: its writes are numbered by that."""
        return {**serialise(state), _PROMISE: self.promise.value}

    def why_not_legal(self, state: CrashState) -> list[str]:
        problems = why_illegal(self.space, state)
        return problems if state.again is None else [*problems, "a folder is not cut again"]


def open_capture(
    directory: CaptureDir, promise: Promise | None = None, *, state: str | None = None
) -> FolderRecording:
    """Reads a sealed recording; under `promise`, by default that of the `state` that is named, else
    of its verdict, else of a journal.

    Raises DamagedRecording, and UsageError if the state is one of another promise.
    """
    record = directory.read_record()
    folder = read_folder_log(directory.log)
    if folder.cut_ns is None or int(folder.cut_ns) != record.cut_ns:
        raise DamagedRecording(f"{directory.path}: the log is not that of this cut")
    if folder.atomic_unit != record.atomic_unit:
        raise DamagedRecording(f"{directory.path}: the log is of another atomic unit")
    history = history_of(folder.said, record.cut_ns)
    doubts = (*record.damage, *(f"the recorder: {name}" for name in failing_marks(folder.marks)))
    if not folder.complete:
        doubts = (*doubts, "the log was not closed in order: its end is missing")
    if acked := len(history.acked):
        doubts = (*doubts, *_elsewhere(folder, acked, record.folder))
    gaps = (*history.trouble, *doubts)
    refused = _refused(directory.console)
    promise = _promise_of(directory, promise, state)
    opened = FolderRecording(directory, record, folder, history, gaps, doubts, refused, promise)
    if not acked or not (doubt := opened.outside().doubt):
        return opened
    return replace(opened, gaps=(*gaps, doubt), doubts=(*doubts, doubt))


def _promise_of(directory: CaptureDir, promise: Promise | None, state: str | None) -> Promise:
    own = None
    if state is not None and ":" not in state and "@" not in state:
        with contextlib.suppress(UsageError, DamagedRecording, ValueError):
            own = Promise(state_ref.read_file(state_ref.find(directory, state)).get(_PROMISE))
    if None not in (promise, own) and promise is not own:
        assert own is not None
        raise UsageError(
            f"state {state} is one of the promise {own.value}", hint=f"--promise {own.value}"
        )
    result = directory.find_result()
    verdict = Promise.JOURNAL if result is None else Promise(result.promise)
    return promise or own or verdict


def _links(folder: FolderTimeline, record: CaptureRecord) -> tuple[Link, ...]:
    """Symbolic links in the folder, where nothing of it was lost."""
    space = FolderSpace(folder, Promise.JOURNAL)
    everything = tuple(space.volatile(record.cut_ns).tolist())
    links = space.tree(CrashState(record.cut_ns, everything)).links
    return tuple(Link(path, target) for path, target, _ in links)


def _refused(console: Path) -> tuple[str, ...]:
    """What a command perhaps was not let do, with the words for that."""
    text = console.read_text(errors="replace") if console.exists() else ""
    found = ((why, lines_of(error, text)) for error, why in _REFUSED.items())
    return tuple(f"{why}; it printed: {said[0][-_SAID_MAX:]}" for why, said in found if said)


def _elsewhere(folder: FolderTimeline, acked: int, name: str) -> tuple[str, ...]:
    """What speaks against a recording in which nothing but acks came.

    All of it would be lost in each state, and that would say nothing of the program's syncs: more
    likely it wrote to another folder, such as one of the same name on another file system.
    """
    begin = int(folder.begin_ns)
    if any(one.op is not FolderOp.FLUSH and one.submitted_ns >= begin for one in folder.requests):
        return ()
    return (
        f"{acked:,} operations were acknowledged, and nothing was written in {name}: the program "
        "wrote to another place, or only to its own memory",
    )


def fingerprint(made: Tree | Sequence[Row]) -> bytes:
    """What two trees have in common if and only if they are made of the same writes, in spaces
    whose rows have the same fingerprint."""
    return hashlib.blake2b(repr(made).encode(errors="surrogateescape"), digest_size=16).digest()


def build_tree(
    space: FolderSpace, tree: Tree, target: Path, *, mode_bits: int = ALL_MODE_BITS
) -> None:
    """Makes the folder `target`, which must be empty.  Raises HostError.

    Of the modes it keeps `mode_bits`: what a stranger recorded must not be setuid where others can
    run it.

    Names are single components by `read_folder_log`, and symbolic links are made last, so that
    nothing is written through one.  Attributes come after that, those of folders from below, since
    a folder may forbid changes in it.
    """
    made: dict[int, Path] = {}
    try:
        for name, _ in tree.folders:
            (target / name).mkdir(mode=0o700)
        for name, state in tree.files:
            if state.number in made:
                os.link(made[state.number], target / name)
                continue
            made[state.number] = target / name
            write_contents(space, state, target / name)
        for name, number, op, has in tree.talks:
            if number in made:
                os.link(made[number], target / name)
                continue
            made[number] = target / name
            os.mknod(target / name, _TALKS[op] | 0o600)
            _set_attributes(target / name, has, mode_bits)
        for name, to, has in tree.links:
            (target / name).symlink_to(to)
            _set_attributes(target / name, replace(has, mode=None), mode_bits)
        for number, file in {state.number: state for _, state in tree.files}.items():
            _set_attributes(made[number], file.attributes, mode_bits)
        for name, has in reversed(tree.folders):
            _set_attributes(target / name, has, mode_bits)
        _set_attributes(target, tree.root, mode_bits)
    except OSError as error:
        raise HostError(f"cannot make a crash state in {target}: {error}") from error


def _set_attributes(path: Path, has: Attributes, mode_bits: int) -> None:
    """An owner first, since another one takes bits of the mode; the mode after the lists of access
    control, which it is a part of; times last.
    """
    if has.owner is not None and has.owner != (OWN, OWN):
        os.chown(path, *has.owner, follow_symlinks=False)
    for name, value in has.xattrs:
        if value is not None:
            os.setxattr(path, os.fsencode(name), value, follow_symlinks=False)
    if has.mode is not None:
        path.chmod(has.mode & mode_bits)
    if has.change_ns is not None:
        read_ns = has.change_ns if has.access_ns is None else has.access_ns
        os.utime(path, ns=(read_ns, has.change_ns), follow_symlinks=False)


def remove_tree(folder: Path) -> None:
    """Removes the folder of a state, whatever its attributes forbid."""
    with contextlib.suppress(OSError):
        folder.chmod(0o700)
    for parent, folders, _ in os.walk(folder):
        for below in (Path(parent, name) for name in folders):
            if not below.is_symlink():
                below.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def write_contents(space: FolderSpace, state: FileState, path: Path) -> None:
    """Makes the file `path` of one in a state, without its attributes.  Raises OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        for part in state.parts:
            if isinstance(part, int):
                os.ftruncate(descriptor, part)
                continue
            row, begin, end = part
            request = space.rows[row].request
            if request.data_offset < 0:
                data = memoryview(bytes(end - begin))
            else:
                start = begin - request.offset
                data = space.folder.payload(request)[start : start + end - begin].data
            while data:
                done = os.pwrite(descriptor, data, begin)
                data, begin = data[done:], begin + done
        os.ftruncate(descriptor, state.size)
    finally:
        os.close(descriptor)
