# SPDX-License-Identifier: Apache-2.0
"""The crash states of a folder: what a host that loses its power may leave of its files.

Each file is a disk of its own, and all have one clock and one cut.  A crash state at an instant is
a choice, within rules 1 to 3 of powercut.crash.states, of:

1. contents: of each file the writes that completed before an fsync or fdatasync *of that file*
   was submitted which has completed are there, and those with O_DSYNC or O_SYNC that completed.
   Of the other writes any subset, torn at the atomic unit.  Which writes are there says nothing of
   other files.  Holes that were punched and ranges that were zeroed are writes of zeroes.
2. size: where a write, a truncation or fallocate changes a file's size, that change is there or
   not, whatever became of the bytes.  What makes contents durable makes all earlier changes of
   size durable, too: they are needed to read them.  Bytes that never came but lie below the
   size read as zeroes; bytes beyond it are not there.  A truncation to a size within a block also
   writes zeroes to the end of that block, in place, which are contents by rule 1.
3. names: what the calls that make, remove, link or rename change.  One call's change of a folder is
   there or not, never half.
4. attributes: mode, owner, times and extended attributes, lists of access control among them, as a
   call has set them: one call's change is there or not.  What something was made with it always
   has.  The time of a change that no call has set is that of the last one which is there.

What fsync promises of names is a matter of the host's file system, and is stated (`Promise`):

POSIX: what POSIX.1-2017 (fsync, fdatasync) and Linux's fsync(2) say and not more.  A change of
    names is durable when an fsync of *the folder* covers it: "Calling fsync() does not necessarily
    ensure that the entry in the directory containing the file has also reached disk.  For that
    an explicit fsync() on a file descriptor for the directory is also needed."  Until then
    any subset of the changes is there.  An fsync of a file or folder covers its attributes, and
    fdatasync does not.  A rename into another folder is two changes: the new name in one, the end
    of the old name in the other.

JOURNAL: what a file system with one journal (XFS; ext4 but for fast_commit; not btrfs) does.
    Names, truncations and attributes are there in the order in which they were made: a beginning
    of all that have happened since the last that is durable.  A rename is one change.  fsync makes
    durable whatever the file or folder itself was last changed by, and so everything before that;
    fdatasync, which may leave a changed name for later, does so up to the making of the file
    and its truncations.  What is written beyond a truncation is there only if the truncation is,
    since the blocks are others, but for the block within which the truncation ends.  No rename
    waits for the contents of the file: that (ext4's auto_da_alloc) is a habit and no promise.

So every state of JOURNAL is one of POSIX.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from powercut.crash.folder_ranges import Covered, is_ranged
from powercut.crash.folder_rows import (
    REGION,
    AttributeChange,
    NameChange,
    Promise,
    Row,
    SizeChange,
    block_end,
    folder_rows,
    is_ordered,
    span_of,
    truncations,
)
from powercut.crash.sets import DurabilitySets, first_covering_flush_ns
from powercut.crash.states import CrashState, Model, Requirements, StateSpace
from powercut.model.contract import DeviceContract
from powercut.model.folder import (
    MAKING,
    ROOT_OBJECT,
    Attributes,
    FolderOp,
    FolderRequest,
    FolderTimeline,
)
from powercut.model.timeline import RequestKind, Requests, Timeline
from powercut.model.units import NEVER

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class FileState:
    """One file of a state: `parts` are applied in order; `size` is what is left in the end.

    A part is a row and the bytes of it that survived (begin, end), or a truncation to a size.
    """

    number: int
    attributes: Attributes
    size: int
    parts: tuple[tuple[int, int, int] | int, ...]


@dataclass(frozen=True)
class Tree:
    """A state as a person would see it: paths below the folder, parents first.

    `files` may be the same file under several paths.  `links` have their targets.  `talks` are
    named pipes and sockets, which hold nothing: each with its object, that may have several paths.
    """

    root: Attributes
    folders: tuple[tuple[str, Attributes], ...]
    files: tuple[tuple[str, FileState], ...]
    links: tuple[tuple[str, str, Attributes], ...]
    talks: tuple[tuple[str, int, FolderOp, Attributes], ...] = ()


class FolderSpace(StateSpace):
    """All crash states of a captured folder, under one promise.

    With `lying` no sync makes anything durable: the control, of the same recording.
    """

    def __init__(
        self,
        folder: FolderTimeline,
        promise: Promise,
        claims: Requirements | None = None,
        *,
        lying: bool = False,
    ) -> None:
        self.folder = folder
        self.promise = promise
        self.rows = folder_rows(folder, promise)
        timeline = _timeline(folder, self.rows)
        super().__init__(timeline, claims, folder_sets(folder, self.rows, promise, lying=lying))
        self._made = {
            row.request.other: row.request for row in self.rows if row.request.op in MAKING
        }
        self._ordered = np.array(
            [index for index, row in enumerate(self.rows) if is_ordered(row)], dtype=np.int64
        )
        self._truncations = truncations(self.rows)
        self._born = _born(folder)

    def legal(self, state: CrashState) -> CrashState:
        """`state`, with the changes added without which its own could not be there (JOURNAL)."""
        if self.promise is Promise.POSIX or not state.survivors:
            return state
        kept = set(state.survivors)
        last = -1
        for index in state.survivors:
            row = self.rows[index]
            if is_ordered(row):
                last = max(last, index)
            elif row.change is None:
                before = self._truncations.get(row.request.object, ())
                beyond = [
                    at for at, size in before if at < index and block_end(size) < self._end_of(row)
                ]
                last = max([last, *beyond])
        needed = self._ordered[self._ordered <= last]
        volatile = needed[self.sets.durable_ns[needed] >= state.instant]
        missing = set(volatile.tolist()) - kept
        if not missing:
            return state
        return replace(state, survivors=tuple(sorted(kept | missing)))

    def legal_log2(self, instant: int, model: Model = Model.EXACT) -> float:
        """An upper bound: each change, and each atomic unit of a write, is there or not.

        Only for Model.EXACT; under JOURNAL changes of names have an order, and are fewer.
        """
        if model is not Model.EXACT:
            raise ValueError("a folder has no weaker models")
        return float(sum(self.touched_units(row) for row in self.volatile(instant).tolist()))

    @cached_property
    def units(self) -> I64:
        """How many atomic units each request touches; a change of a size or of names is one."""
        changes = np.array([row.change is not None for row in self.rows], dtype=np.bool_)
        return np.where(changes, 1, super().units)

    def _volatile(self, instant: int) -> I64:
        # Without a look at what is hidden: a text file's writes begin at any byte.
        return self._outstanding(instant)

    def _show(self, instants: I64, writes: I64) -> Mask:
        del instants
        return np.ones(len(writes), dtype=np.bool_)

    def _end_of(self, row: Row) -> int:
        return row.offset % REGION + row.length

    def tree(self, state: CrashState) -> Tree:
        torn: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for kept in state.torn:
            torn[kept.write].append((kept.begin, kept.end))
        entries: dict[int, dict[str, int]] = defaultdict(dict)
        sizes: dict[int, int] = defaultdict(int)
        parts: dict[int, list[tuple[int, int, int] | int]] = defaultdict(list)
        attributes = defaultdict(Attributes, self._born)
        times: dict[int, int] = {}  # of the last change of each, which are many
        for index in self.application_order(state).tolist():
            row = self.rows[index]
            self._touch(row, attributes, times)
            match row.change:
                case NameChange(changed):
                    for parent, name, number in changed:
                        entries[parent].pop(name, None)
                        if number is not None:
                            entries[parent][name] = number
                case SizeChange(file, size, at_least):
                    sizes[file] = max(sizes[file], size) if at_least else size
                    if not at_least:
                        parts[file].append(size)
                case AttributeChange(number, changed_to):
                    if number in times:
                        attributes[number] = replace(
                            attributes[number], change_ns=times.pop(number)
                        )
                    attributes[number] = changed_to.over(attributes[number])
                case None:
                    base = row.request.object * REGION
                    whole = [(row.offset, row.offset + row.length)]
                    for begin, end in torn.get(index, whole):
                        parts[row.request.object].append((index, begin - base, end - base))
        for number, at in times.items():
            attributes[number] = replace(attributes[number], change_ns=at)
        return self._walk(entries, sizes, parts, attributes)

    def _touch(self, row: Row, attributes: dict[int, Attributes], times: dict[int, int]) -> None:
        """The `times` that a change sets implicitly, if the program made it."""
        if row.request.submitted_ns < self.folder.begin_ns:
            return
        at = row.request.submitted_ns + self.folder.realtime_ns
        changed = {row.request.object}
        match row.change:
            case AttributeChange():
                return
            case NameChange(entries, _, made):
                changed = {parent for parent, _, _ in entries}
                if made is not None:
                    attributes[made] = Attributes(access_ns=at, change_ns=at).over(attributes[made])
                    times.pop(made, None)
        times.update(dict.fromkeys(changed, at))

    def _walk(
        self,
        entries: dict[int, dict[str, int]],
        sizes: dict[int, int],
        parts: dict[int, list[tuple[int, int, int] | int]],
        attributes: dict[int, Attributes],
    ) -> Tree:
        folders: list[tuple[str, Attributes]] = []
        files: list[tuple[str, FileState]] = []
        links: list[tuple[str, str, Attributes]] = []
        talks: list[tuple[str, int, FolderOp, Attributes]] = []
        seen = {ROOT_OBJECT}
        left = [(ROOT_OBJECT, "")]
        while left:
            parent, path = left.pop()
            for name, number in sorted(entries[parent].items()):
                made, below = self._made[number], f"{path}{name}"
                has = attributes[number]
                if made.op is FolderOp.CREATE:
                    state = FileState(number, has, sizes[number], tuple(parts[number]))
                    files.append((below, state))
                elif made.op is FolderOp.SYMLINK:
                    links.append((below, made.names[1], has))
                elif made.op is not FolderOp.MKDIR:
                    talks.append((below, number, made.op, has))
                elif number not in seen:  # one that a lost rename has left in two places
                    seen.add(number)
                    folders.append((below, has))
                    left.append((number, below + "/"))
        return Tree(
            attributes[ROOT_OBJECT], tuple(folders), tuple(files), tuple(links), tuple(talks)
        )


def _born(folder: FolderTimeline) -> dict[int, Attributes]:
    found: dict[int, Attributes] = defaultdict(Attributes)
    for request in folder.requests:
        if request.born and request.attributes is not None:
            found[request.object] = request.attributes.over(found[request.object])
    return found


def _timeline(folder: FolderTimeline, rows: list[Row]) -> Timeline:
    def column(values: list[int]) -> I64:
        return np.array(values, dtype=np.int64)

    requests = [row.request for row in rows]
    return Timeline(
        disk_size=REGION * (1 + max([ROOT_OBJECT, *(request.object for request in requests)])),
        contract=DeviceContract(atomic_unit=folder.atomic_unit),
        requests=Requests(
            kind=np.array([row.kind for row in rows], dtype=np.uint8),
            fua=np.array([request.at_once for request in requests], dtype=np.bool_),
            offset=column([row.offset for row in rows]),
            length=column([row.length for row in rows]),
            submitted_ns=column([request.submitted_ns for request in requests]),
            completed_ns=column([request.completed_ns for request in requests]),
            data_offset=column([request.data_offset for request in requests]),
            failed=np.zeros(len(rows), dtype=np.bool_),
        ),
        data=folder.data,
        marks=folder.marks,
        complete=folder.complete,
        start_ns=folder.begin_ns,
    )


# From when on each change of a captured folder is durable.


def folder_sets(
    folder: FolderTimeline, rows: list[Row], promise: Promise, *, lying: bool
) -> DurabilitySets:
    """Applies the rules to every row; with `lying` nothing that came after the beginning is."""
    submitted = np.array([row.request.submitted_ns for row in rows], dtype=np.int64)
    completed = np.array([row.request.completed_ns for row in rows], dtype=np.int64)
    durable = np.full(len(rows), NEVER, dtype=np.int64)
    if not lying:
        _sync_contents(rows, durable)
        if promise is Promise.POSIX:
            _sync_names_posix(rows, durable)
        else:
            _sync_names_journal(rows, durable)
        if folder.cut_ns is not None:
            durable[durable >= folder.cut_ns] = NEVER
    base = submitted < folder.begin_ns
    durable[base] = completed[base]
    is_write = np.array([row.kind is not RequestKind.FLUSH for row in rows], dtype=np.bool_)
    durable[~is_write] = NEVER
    flushes = submitted[~is_write]
    return DurabilitySets(
        is_write=is_write,
        submitted_ns=submitted,
        durable_ns=durable,
        epoch=np.searchsorted(flushes, submitted, side="left").astype(np.int64),
        successor=np.searchsorted(submitted, completed, side="right").astype(np.int64),
    )


@dataclass
class _Syncs:
    """Syncs of one object, in the order of their submission."""

    submitted: list[int] = field(default_factory=list)
    done: list[int] = field(default_factory=list)

    def add(self, request: FolderRequest) -> None:
        self.submitted.append(request.submitted_ns)
        self.done.append(request.completed_ns)

    def cover(self, completed: list[int]) -> I64:
        """For each completion the first end of a sync that was submitted after it."""
        columns = (
            np.array(values, dtype=np.int64) for values in (completed, self.submitted, self.done)
        )
        return first_covering_flush_ns(*columns)


def _named(row: Row) -> bool:
    """Whether it is a change of names or attributes, which are not what a file holds."""
    return isinstance(row.change, NameChange | AttributeChange)


def _syncs(rows: list[Row], *, ranges: bool, whole: bool = False) -> dict[int, _Syncs]:
    """The syncs of each object, those of everything among them; with `ranges` those of a part of a
    file, too, and `whole` without fdatasync."""
    found: dict[int, _Syncs] = defaultdict(_Syncs)
    everyone = {row.request.object for row in rows} | {
        number
        for row in rows
        if isinstance(row.change, NameChange)
        for number in row.change.concerns
    }
    for row in rows:
        request = row.request
        if row.kind is RequestKind.FLUSH:
            if (whole and request.data_only) or (is_ranged(request) and not ranges):
                continue
            for number in [request.object] if request.object else everyone:
                found[number].add(request)
    return found


def _sync_contents(rows: list[Row], durable: I64) -> None:
    """Rules 1 and 2."""
    syncs = _syncs(rows, ranges=False)
    of_file: dict[int, list[int]] = defaultdict(list)
    ranged: dict[int, list[FolderRequest]] = defaultdict(list)
    for index, row in enumerate(rows):
        request = row.request
        if is_ranged(request) or (request.at_once and row.change is None):
            ranged[request.object].append(request)
        if row.kind is not RequestKind.FLUSH and not _named(row):
            of_file[request.object].append(index)
    for number, indices in of_file.items():
        completed = [rows[index].request.completed_ns for index in indices]
        durable[indices] = syncs[number].cover(completed)
    for index, row in enumerate(rows):
        if row.request.at_once and not _named(row):
            durable[index] = min(int(durable[index]), row.request.completed_ns)
    for number, parts in ranged.items():
        indices = of_file[number]
        spans = np.array([span_of(rows[index]) for index in indices], dtype=np.int64)
        begin, end = spans.reshape(-1, 2).T
        done = np.array([rows[index].request.completed_ns for index in indices], dtype=np.int64)
        covered = Covered(begin, end, done, durable[indices])
        for part in parts:
            covered.sync(part)
        durable[indices] = covered.durable_ns


def _sync_names_posix(rows: list[Row], durable: I64) -> None:
    syncs = _syncs(rows, ranges=True)
    of_folder: dict[int, list[int]] = defaultdict(list)
    of_object: dict[int, list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        if isinstance(row.change, NameChange):
            of_folder[row.change.entries[0][0]].append(index)
        elif isinstance(row.change, AttributeChange):
            of_object[row.change.object].append(index)
    of_attributes = _syncs(rows, ranges=True, whole=True)
    for number, indices in of_object.items():
        done = [rows[i].request.completed_ns for i in indices]
        durable[indices] = of_attributes[number].cover(done)
    for number, indices in of_folder.items():
        durable[indices] = syncs[number].cover([rows[i].request.completed_ns for i in indices])


def _sync_names_journal(rows: list[Row], durable: I64) -> None:
    """Everything up to the last change of what is synced, with it."""
    order: list[int] = []
    done: list[int] = []
    last_of: dict[int, list[int]] = defaultdict(list)  # positions in `order`
    needed_of: dict[int, list[int]] = defaultdict(list)  # those that fdatasync needs
    for index, row in enumerate(rows):
        request = row.request
        position = len(order)
        if is_ordered(row):
            concerned = (
                row.change.concerns if isinstance(row.change, NameChange) else {request.object}
            )
            for number in concerned:
                last_of[number].append(position)
            if isinstance(row.change, SizeChange):
                needed_of[request.object].append(position)
            elif isinstance(row.change, NameChange) and row.change.made is not None:
                needed_of[row.change.made].append(position)
            order.append(index)
            done.append(int(NEVER))
        elif row.kind is RequestKind.FLUSH or (request.at_once and row.change is None):
            partly = request.data_only or row.kind is not RequestKind.FLUSH
            changes = (needed_of if partly else last_of)[request.object]
            if row.kind is RequestKind.FLUSH and not request.object:
                changes = list(range(position))
            at = _last_completed(rows, order, changes, request.submitted_ns)
            if at is not None:
                done[at] = min(done[at], request.completed_ns)
    earliest = np.minimum.accumulate(np.array(done, dtype=np.int64)[::-1])[::-1]
    for position, index in enumerate(order):
        sized = isinstance(rows[index].change, SizeChange)
        durable[index] = min(int(durable[index] if sized else NEVER), int(earliest[position]))


def _last_completed(
    rows: list[Row], order: list[int], changes: list[int], instant: int
) -> int | None:
    for position in reversed(changes):
        if rows[order[position]].request.completed_ns < instant:
            return position
    return None
