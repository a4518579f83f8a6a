# SPDX-License-Identifier: Apache-2.0
"""What the reader says of slots: asked of its own code (harness/rawread), and remembered."""

from __future__ import annotations

import ctypes
from itertools import islice, repeat
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from powercut.model.errors import HostError
from powercut.model.observation import Extent
from powercut.paths import PARTS, REBUILD
from powercut.wal.layout import WalLayout
from powercut.wal.slots import SlotState

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]

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
