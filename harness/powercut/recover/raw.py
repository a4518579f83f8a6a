# SPDX-License-Identifier: Apache-2.0
"""The raw engine: what a log on a raw device reads like in a crash state, without an image.

1. The disk is cut into *cells* so that every write covers a cell wholly or not at all
   and tears only between cells.  In a crash state each cell shows one write: the last
   survivor that covers it in the order of submission, else the base image.
2. What the reader says of a slot depends on the bytes of that slot alone.  So one answer
   serves every state in which the cells of the slot show the same writes.  Answers come
   from the reader's own code (harness/rawread), which is given the bytes of one slot.
3. From instant to instant only the cells change whose writes became durable; between the
   states of one instant only the cells of volatile writes do.

States are therefore not visited one by one: those of one instant are a matrix of
*pieces* (cells of volatile writes) that survive or do not.

What the reader does beyond single slots, it does after it has met with corruption: it
looks for other runs in the rest of the log.  So a state with a corrupt slot is not
decided here (`Reading.sure`), but by the reader on an image.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from itertools import islice, pairwise, repeat
from pathlib import Path
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from powercut.crash.applied import Kept
from powercut.crash.arrays import expand
from powercut.crash.states import CrashState, StateSpace
from powercut.mapped import mapped
from powercut.model.errors import HostError
from powercut.model.observation import Extent, Observation
from powercut.model.timeline import RequestKind
from powercut.model.verdict import LsnRange
from powercut.paths import PARTS, REBUILD
from powercut.wal.layout import SlotState, WalLayout

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

BASE: Final = -1
"""Stands for the base image where a write could show."""

_CELL_MAX: Final = 4096
_SEED_1: Final = np.uint64(0x9E3779B97F4A7C15)
_SEED_2: Final = np.uint64(0xD1B54A32D192ED03)
_MIX_1: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2: Final = np.uint64(0x94D049BB133111EB)


def unavailable() -> list[str]:
    """Why the raw engine cannot run here; empty if it can."""
    return [] if LIBRARY.is_file() else [f"{LIBRARY} is missing: {REBUILD}"]


@dataclass(frozen=True)
class Reading:
    """What the reader says of some states of one instant.

    `answer[k, s]` is the number of the answer on slot `slots[s]` in state k.  All other
    slots are as in `RawLog.background`.  `content[k]` is a fingerprint of the whole log.
    """

    slots: I64
    answer: I64
    content: U64


class RawLog:
    """The log region of a recording, at one instant after the other."""

    def __init__(self, base: Path, space: StateSpace, layout: WalLayout, run_id: bytes) -> None:
        self.space, self.layout = space, layout
        self._classify = Classifier(layout, run_id)
        requests = space.timeline.requests
        self._base = mapped(base)
        self._data = space.timeline.data
        self._base_address = int(self._base.ctypes.data)
        self._data_address = int(self._data.ctypes.data) if len(self._data) else 0
        self._is_data = requests.kind == RequestKind.WRITE
        begin, end = layout.offset, layout.offset + layout.slots * layout.stride
        self.cell = _cell_size(space, len(self._base))
        self.first_cell = begin // self.cell
        # A log may end within a cell, a disk does not.
        last_cell = -(-min(end, len(self._base)) // self.cell)
        self.cells = last_cell - self.first_cell
        # First and last+1 cell of every write within the log; empty for those outside.
        low = np.clip(space.begin // self.cell - self.first_cell, 0, self.cells)
        high = np.clip(-(-space.end // self.cell) - self.first_cell, 0, self.cells)
        wanted = space.sets.is_write & (high > low)
        self._low = np.where(wanted, low, 0)
        self._high = np.where(wanted, high, 0)
        self._by_durable = np.argsort(space.sets.durable_ns, kind="stable")
        self._durable_ns = space.sets.durable_ns[self._by_durable]
        # Slots: the cells that each touches.
        slot = np.arange(layout.slots, dtype=np.int64)
        at = layout.offset + slot * layout.stride
        self.slot_low = np.minimum(at // self.cell - self.first_cell, self.cells)
        self.slot_high = np.minimum(
            -(-(at + layout.record) // self.cell) - self.first_cell, self.cells
        )
        self.answers = Answers()
        self._reset()

    def _reset(self) -> None:
        self._done = 0
        self.top = np.full(self.cells, BASE, dtype=np.int64)
        self._hash = _number(np.arange(self.cells), self.top)
        self._whole = self._hash.sum(dtype=np.uint64, keepdims=True)
        self.background = np.empty(self.layout.slots, dtype=np.int64)
        self._refresh(np.arange(self.layout.slots))

    def at(self, instant: int) -> Moment:
        """The log at `instant`.  Quick if that is not before the last one asked for."""
        count = int(np.searchsorted(self._durable_ns, instant, side="left"))
        if count < self._done:
            self._reset()
        fresh = self._by_durable[self._done : count]
        self._done = count
        fresh = fresh[self._high[fresh] > self._low[fresh]]
        if len(fresh):
            self._make_durable(fresh)
        return Moment(self, instant)

    def _make_durable(self, writes: I64) -> None:
        owner, cell = expand(self._low[writes], self._high[writes] - self._low[writes])
        np.maximum.at(self.top, cell, writes[owner])
        cells = np.unique(cell)
        hashes = _number(cells, self.top[cells])
        self._whole += (hashes - self._hash[cells]).sum(dtype=np.uint64, keepdims=True)
        self._hash[cells] = hashes
        self._refresh(self.slots_of(cells))

    def slots_of(self, cells: I64) -> I64:
        """The slots that have a byte in one of `cells` (rising), rising."""
        first = np.searchsorted(self.slot_high, cells, side="right")
        until = np.searchsorted(self.slot_low, cells, side="right")
        slots = expand(first, np.maximum(until - first, 0))[1]
        return np.unique(slots)

    def _refresh(self, slots: I64) -> None:
        """Works out what the reader says of `slots` where nothing volatile survives."""
        owner, cell = expand(self.slot_low[slots], self.slot_high[slots] - self.slot_low[slots])
        sums = _sums(self._hash[cell], np.bincount(owner, minlength=len(slots)))
        keys = _slot_keys(slots, sums)
        answers = self.answers.of(keys)
        unknown = np.flatnonzero(answers < 0)
        if len(unknown):
            among = np.searchsorted(unknown, owner)
            some = (among < len(unknown)) & (unknown[np.minimum(among, len(unknown) - 1)] == owner)
            self._learn(slots[unknown], keys[unknown], cell[some], self.top[cell[some]])
            answers[unknown] = self.answers.of(keys[unknown])
        self.background[slots] = answers

    def _learn(self, slots: I64, keys: U64, cell: I64, write: I64) -> None:
        """Asks the reader what it says of `slots`, whose cells in turn show the writes `write`."""
        requests = self.space.timeline.requests
        at = (self.first_cell + cell) * self.cell
        source = np.where(write == BASE, self._base_address + at, 0)
        there = np.flatnonzero(write != BASE)  # none at all if nothing ever reached the disk
        there = there[self._is_data[write[there]]]
        shown = write[there]
        offset = requests.data_offset[shown] + at[there] - self.space.begin[shown]
        source[there] = self._data_address + offset
        counts = self.slot_high[slots] - self.slot_low[slots]
        begin = self.layout.offset + slots * self.layout.stride
        skip = begin - (self.first_cell + self.slot_low[slots]) * self.cell
        self.answers.learn(keys, self._classify(slots, counts, skip, source, self.cell))

    def observation(self, reading: Reading, row: int) -> Observation:
        """What the reader says of the whole log in state `row` of `reading`."""
        answers = self.background.copy()
        answers[reading.slots] = reading.answer[row]
        return Observation(self.answers.extents(answers))

    def sure(self, reading: Reading, row: int) -> bool:
        """Whether the reader needs nothing but the slots themselves to say so."""
        answers = self.background.copy()
        answers[reading.slots] = reading.answer[row]
        return not bool((self.answers.state[answers] == SlotState.CORRUPT).any())


class Moment:
    """The states of one instant.

    A piece is one cell of one volatile write that may show; pieces are in the order of
    cells, then of submission.  `writes` are the volatile writes that have some, rising;
    `piece_write[p]` is an index into them, and `piece_group[p]` the atomic unit of that
    write: pieces of one group survive together.
    """

    def __init__(self, log: RawLog, instant: int) -> None:
        self._log = log
        self.instant = instant
        sets = log.space.sets
        until = int(np.searchsorted(sets.submitted_ns, instant, side="left"))
        volatile = sets.durable_ns[:until] >= instant
        volatile &= log._high[:until] > log._low[:until]
        active = np.flatnonzero(volatile)
        owner, cell = expand(log._low[active], log._high[active] - log._low[active])
        shows = active[owner] > log.top[cell]
        write, cell = active[owner][shows], cell[shows]
        order = np.lexsort((write, cell))
        self.piece_cell, self._piece_request = cell[order], write[order]
        self.writes, self.piece_write = np.unique(self._piece_request, return_inverse=True)
        unit = max(1, log.space.unit // log.cell)
        place = (self.piece_cell + log.first_cell) // unit
        group = self._piece_request * (log.first_cell + log.cells + 1) + place
        self.piece_group = np.unique(group, return_inverse=True)[1]
        new = np.ones(len(cell), dtype=np.bool_)
        new[1:] = self.piece_cell[1:] != self.piece_cell[:-1]
        self._starts = np.flatnonzero(new)
        self._cells = self.piece_cell[self._starts]
        self.slots = log.slots_of(self._cells)
        self._prepare()

    def _prepare(self) -> None:
        log = self._log
        counts = np.diff(np.append(self._starts, len(self.piece_cell)))
        below = np.repeat(log._hash[self._cells], counts)
        self._change = _number(self.piece_cell, self._piece_request) - below
        # The cells that may change, of each slot, follow one another.
        self._from = np.searchsorted(self._cells, log.slot_low[self.slots], side="left")
        self._until = np.searchsorted(self._cells, log.slot_high[self.slots], side="left")
        low, high = log.slot_low[self.slots], log.slot_high[self.slots]
        owner, cell = expand(low, high - low)
        self._sums = _sums(log._hash[cell], np.bincount(owner, minlength=len(self.slots)))

    @property
    def groups(self) -> int:
        """How many atomic units of volatile writes may survive or not."""
        return int(self.piece_group.max(initial=-1)) + 1

    @property
    def legal_log2(self) -> float:
        """Binary logarithm of the number of legal states, if no two writes race."""
        counts = np.diff(np.append(self._starts, len(self.piece_cell)))
        finer = max(1, self._log.cell // self._log.space.unit)
        return float(np.log2(counts + 1).sum()) * finer

    def missing(self, pieces: Mask) -> I64:
        """Of how many of `writes` nothing survives, in each state k where `pieces[k]` do."""
        if not len(self.writes):
            return np.zeros(len(pieces), dtype=np.int64)
        by_write = np.argsort(self.piece_write, kind="stable")
        first = np.searchsorted(self.piece_write[by_write], np.arange(len(self.writes)))
        there = np.logical_or.reduceat(pieces[:, by_write], first, axis=1)
        return np.asarray((~there).sum(axis=1), dtype=np.int64)

    def read(self, pieces: Mask) -> Reading:
        """What the reader says where `pieces[k]` survive, for each state k."""
        count = len(self.piece_cell)
        if not count:
            content = np.repeat(self._log._whole, len(pieces))
            return Reading(self.slots, np.empty((len(pieces), 0), dtype=np.int64), content)
        ranked = np.where(pieces, np.arange(1, count + 1, dtype=np.int32), np.int32(0))
        # For each cell that may change: the piece that shows, or -1.
        shown = np.maximum.reduceat(ranked, self._starts, axis=1) - 1
        log = self._log
        change = np.where(shown >= 0, self._change[shown], np.uint64(0))
        running = np.zeros((len(shown), change.shape[1] + 1), dtype=np.uint64)
        np.cumsum(change, axis=1, out=running[:, 1:])
        sums = self._sums + running[:, self._until] - running[:, self._from]
        keys = _slot_keys(self.slots, sums)
        unique, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        answers = log.answers.of(unique)
        unknown = np.flatnonzero(answers < 0)
        if len(unknown):
            row, column = np.divmod(first[unknown], len(self.slots))
            log._learn(self.slots[column], unique[unknown], *self._shown_writes(shown, row, column))
            answers[unknown] = log.answers.of(unique[unknown])
        answer = answers[inverse.reshape(keys.shape)]
        return Reading(self.slots, answer, log._whole + running[:, -1])

    def _shown_writes(
        self, shown: npt.NDArray[np.integer], row: I64, column: I64
    ) -> tuple[I64, I64]:
        """The cells of slots number `column`, and the write that each shows in state `row`."""
        log, slots = self._log, self.slots[column]
        low = log.slot_low[slots]
        owner, cell = expand(low, log.slot_high[slots] - low)
        write = log.top[cell]
        index = np.minimum(np.searchsorted(self._cells, cell), len(self._cells) - 1)
        chosen = shown[row[owner], index]
        changes = (self._cells[index] == cell) & (chosen >= 0)
        write[changes] = self._piece_request[chosen[changes]]
        return cell, write

    def pieces_of(self, state: CrashState) -> Mask | None:
        """The pieces that survive in `state`; None if pieces cannot tell (moves, fine tears)."""
        if state.moves:
            return None
        torn: dict[int, list[Kept]] = {}
        for kept in state.torn:
            if (kept.begin % self._log.cell) or (kept.end % self._log.cell):
                return None
            torn.setdefault(kept.write, []).append(kept)
        pieces = np.isin(self._piece_request, np.array(state.survivors, dtype=np.int64))
        at = (self.piece_cell + self._log.first_cell) * self._log.cell
        for write, parts in torn.items():
            whole = np.zeros(len(at), dtype=np.bool_)
            for kept in parts:
                whole |= (at >= kept.begin) & (at < kept.end)
            pieces &= (self._piece_request != write) | whole
        return np.asarray(pieces, dtype=np.bool_)

    def state(self, pieces: Mask, policy: str) -> CrashState:
        """One row of a matrix of pieces as a crash state."""
        survivors, torn = [], []
        for number, write in enumerate(self.writes.tolist()):
            mine = self.piece_write == number
            kept = pieces[mine]
            if not kept.any():
                continue
            survivors.append(write)
            if not kept.all():
                torn += self._kept(write, self.piece_cell[mine][kept])
        return CrashState(self.instant, tuple(survivors), tuple(torn), policy=policy)

    def _kept(self, write: int, cells: I64) -> list[Kept]:
        """The atomic units of `write` around `cells`, joined where they touch."""
        space, log = self._log.space, self._log
        unit = max(space.unit, log.cell)
        units = np.unique((cells + log.first_cell) * log.cell // unit)
        edges = [*np.flatnonzero(np.diff(units, prepend=-2) != 1).tolist(), len(units)]
        kept = []
        for low, high in pairwise(edges):
            begin = max(int(units[low]) * unit, int(space.begin[write]))
            end = min((int(units[high - 1]) + 1) * unit, int(space.end[write]))
            kept.append(Kept(write, begin, end))
        return kept


def fine(log: RawLog, slots: I64, answers: I64, required: LsnRange | None, attempted: int) -> Mask:
    """True for answers that cannot be part of any finding (checkers/wal.py, in bulk).

    `answers` has one column per slot.  False only means that the checker has to look.
    """
    state, lsn = log.answers.state[answers], log.answers.lsn[answers]
    expected = np.zeros(len(slots), dtype=np.int64)
    if required is not None:
        total = log.layout.slots
        expected = required.first + (slots - log.layout.slot_of(required.first)) % total
        expected[expected > required.last] = 0
    whole = state == SlotState.INTACT
    as_required = whole & (lsn == expected)
    harmless = (state == SlotState.ABSENT) | (state == SlotState.STALE)
    harmless |= (whole | (state == SlotState.TORN)) & (lsn <= attempted)
    return np.asarray(np.where(expected > 0, as_required, harmless), dtype=np.bool_)


def _cell_size(space: StateSpace, disk: int) -> int:
    """The largest power of two of bytes that nothing cuts in two."""
    requests = space.timeline.requests
    bounds = np.concatenate([space.begin[requests.is_write], space.end[requests.is_write]])
    bits = int(np.bitwise_or.reduce(bounds, initial=_CELL_MAX)) | disk
    # Finer tears than at 512 bytes are legal with an atomic unit of 1, and not drawn here.
    return min(bits & -bits, max(space.unit, 512))


def _number(cells: I64, writes: I64) -> U64:
    """A random number of 64 bits for each pair (splitmix64's finaliser)."""
    with np.errstate(over="ignore"):
        x = cells.astype(np.uint64) * _SEED_1 + (writes + 2).astype(np.uint64) * _SEED_2
        x = (x ^ (x >> np.uint64(30))) * _MIX_1
        x = (x ^ (x >> np.uint64(27))) * _MIX_2
    return np.asarray(x ^ (x >> np.uint64(31)), dtype=np.uint64)


def _slot_keys(slots: I64, sums: U64) -> U64:
    """The slot is part of its key: several slots may share one cell."""
    return np.asarray(
        sums ^ _number(slots, np.full(len(slots), -2, dtype=np.int64)), dtype=np.uint64
    )


def _sums(values: U64, counts: I64) -> U64:
    """Sums of consecutive stretches of `values` of the lengths `counts`, modulo 2^64."""
    running = np.zeros(len(values) + 1, dtype=np.uint64)
    np.cumsum(values, out=running[1:])
    ends = np.cumsum(counts)
    return np.asarray(running[ends] - running[ends - counts], dtype=np.uint64)


# What the reader says of slots: asked of its own code (harness/rawread), and remembered.

LIBRARY: Final = PARTS / "libwal-slots.so"

_EXTENT: Final = np.dtype(
    [("slot", "<u8"), ("count", "<u8"), ("lsn", "<u8"), ("state", "<u4"), ("detail", "<u4")]
)
"""struct pc_extent."""


class Answers:
    """What the reader said of slots, by number; and the number by the slot's content."""

    def __init__(self) -> None:
        self._number: dict[int, int] = {}
        self._rows: dict[tuple[int, int, int], int] = {}
        self.state = np.empty(0, dtype=np.int64)
        self.lsn = np.empty(0, dtype=np.int64)
        self.detail = np.empty(0, dtype=np.int64)

    def of(self, keys: U64) -> I64:
        """The numbers of the answers; -1 where nothing is known."""
        numbers = map(self._number.get, keys.tolist(), repeat(-1))
        return np.fromiter(numbers, dtype=np.int64, count=len(keys))

    def learn(self, keys: U64, extents: npt.NDArray[np.void]) -> None:
        """Enters the reader's answers."""
        known = len(self._rows)
        rows = zip(
            extents["state"].tolist(),
            extents["lsn"].tolist(),
            extents["detail"].tolist(),
            strict=True,
        )
        for key, row in zip(keys.tolist(), rows, strict=True):
            self._number[key] = self._rows.setdefault(row, len(self._rows))
        if len(self._rows) > known:
            fresh = np.array(list(islice(self._rows, known, None)), dtype=np.int64)
            self.state = np.concatenate([self.state, fresh[:, 0]])
            self.lsn = np.concatenate([self.lsn, fresh[:, 1]])
            self.detail = np.concatenate([self.detail, fresh[:, 2]])

    def extents(self, answers: I64) -> tuple[Extent, ...]:
        """The answers on all slots, joined where they go on."""
        if not len(answers):
            return ()
        state, lsn, detail = self.state[answers], self.lsn[answers], self.detail[answers]
        begins = np.ones(len(answers), dtype=np.bool_)
        goes_on = np.where(lsn[:-1] > 0, lsn[1:] == lsn[:-1] + 1, lsn[1:] == 0)
        begins[1:] = (state[1:] != state[:-1]) | (detail[1:] != detail[:-1]) | ~goes_on
        at = np.flatnonzero(begins)
        counts = np.diff(np.append(at, len(answers)))
        return tuple(
            Extent(slot, count, SlotState(s), number, d)
            for slot, count, s, number, d in zip(
                at.tolist(),
                counts.tolist(),
                state[at].tolist(),
                lsn[at].tolist(),
                detail[at].tolist(),
                strict=True,
            )
        )


class _Request(ctypes.Structure):
    """struct slots_request."""

    _fields_: ClassVar = [
        ("count", ctypes.c_uint64),
        ("slot", ctypes.c_void_p),
        ("first", ctypes.c_void_p),
        ("skip", ctypes.c_void_p),
        ("source", ctypes.c_void_p),
        ("cell", ctypes.c_uint32),
        ("record", ctypes.c_uint32),
        ("stride", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("slots", ctypes.c_uint64),
        ("run_id", ctypes.c_uint8 * 16),
    ]


class Classifier:
    """The reader's judgement of slots (harness/rawread/slots.c)."""

    def __init__(self, layout: WalLayout, run_id: bytes) -> None:
        try:
            self._call = ctypes.CDLL(str(LIBRARY)).wal_classify_slots
        except OSError as error:
            raise HostError(f"cannot load {LIBRARY}: {error}", hint=REBUILD) from error
        self._call.restype = ctypes.c_int
        self._layout, self._run_id = layout, run_id

    def __call__(
        self, slots: I64, counts: I64, skip: I64, source: I64, cell: int
    ) -> npt.NDArray[np.void]:
        """One extent per slot.

        A slot is made of the next `counts` of the cells at the addresses `source` (0:
        zeroes) and begins `skip` bytes after the begin of the first.
        """
        first = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint64)
        arrays = (
            np.ascontiguousarray(slots, dtype=np.uint64),
            first,
            np.ascontiguousarray(skip, dtype=np.uint32),
            np.ascontiguousarray(source, dtype=np.uint64),
        )
        layout = self._layout
        request = _Request(
            len(slots),
            *(array.ctypes.data for array in arrays),
            cell,
            layout.record,
            layout.stride,
            0,
            layout.slots,
            (ctypes.c_uint8 * 16)(*self._run_id),
        )
        extents = np.zeros(len(slots), dtype=_EXTENT)
        error = self._call(ctypes.byref(request), ctypes.c_void_p(extents.ctypes.data))
        if error:
            raise HostError(f"the log reader failed: errno {error}")
        return extents
