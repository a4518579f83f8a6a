# SPDX-License-Identifier: Apache-2.0
"""A disk that a small program or file system writes to, and what a state of it holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

import numpy as np
from handmade import Handmade

from bench.known_bugs.case import STEP, Case, Speaker
from powercut.crash.states import CrashState, StateSpace
from powercut.model.contract import DeviceContract

BLOCK = 4096


class Disk(Speaker):
    """Requests, each done before the next unless they come as `together`; times are in steps.

    Places are counted in blocks of 4 KiB.
    """

    def __init__(self, blocks: int, contract: DeviceContract | None = None) -> None:
        super().__init__()
        self.size = blocks * BLOCK
        self._made = Handmade(self.size, contract or DeviceContract(atomic_unit=BLOCK))
        self.base = bytearray(self.size)

    def format(self, block: int, data: bytes) -> None:
        """What is there at first."""
        self.base[block * BLOCK : block * BLOCK + len(data)] = data

    def write(self, block: int, data: bytes, *, fua: bool = False) -> None:
        """One write, done before anything else is asked for."""
        self._now += STEP
        self._made.write(block * BLOCK, data, at=self._now, done=self._now + 5, fua=fua)

    def together(self, writes: Iterable[tuple[int, bytes]]) -> None:
        """Writes that are in flight together."""
        writes = list(writes)
        done = self._now + STEP * (len(writes) + 1)
        for block, data in writes:
            self._now += STEP
            self._made.write(block * BLOCK, data, at=self._now, done=done)
            done += 1
        self._now = done + STEP

    def flush(self) -> None:
        """A flush."""
        self._now += STEP
        self._made.flush(at=self._now, done=self._now + 5)

    def case(self, check: Callable[[Blocks], Iterable[int]]) -> Case:
        """The recording.  `check` is given the blocks of a state."""
        history = self.history()
        space = StateSpace(self._made.timeline(), history)
        writers: dict[int, list[int]] = defaultdict(list)
        payloads: dict[int, bytes] = {}
        for write in np.flatnonzero(space.sets.is_write).tolist():
            writers[int(space.begin[write]) // BLOCK].append(write)
            payloads[write] = space.timeline.payload(write).tobytes()
        base = [bytes(self.base[at : at + BLOCK]) for at in range(0, self.size, BLOCK)]
        return Case(
            space, history, lambda state: check(Blocks(space, state, base, writers, payloads))
        )


class Blocks:
    """The blocks of a state, each made when it is asked for.

    Every write lies in one block and begins with it.
    """

    def __init__(
        self,
        space: StateSpace,
        state: CrashState,
        base: list[bytes],
        writers: dict[int, list[int]],
        payloads: dict[int, bytes],
    ) -> None:
        self._base, self._writers, self._payloads = base, writers, payloads
        self._there = space.sets.durable(state.instant)
        self._there[list(state.survivors)] = True
        self._torn: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for kept in state.torn:
            self._torn[kept.write].append((kept.begin % BLOCK, (kept.end - 1) % BLOCK + 1))
        self._late = {move.write: move.after for move in state.moves}

    def __getitem__(self, block: int) -> bytes:
        """What block number `block` shows."""
        writers = [write for write in self._writers.get(block, ()) if self._there[write]]
        if self._late:
            writers.sort(key=lambda write: (self._late.get(write, write), write in self._late))
        shown = self._base[block]
        for write in writers:
            data = self._payloads[write]
            if write not in self._torn:
                shown = data if len(data) == BLOCK else data + shown[len(data) :]
                continue
            for begin, end in self._torn[write]:
                shown = shown[:begin] + data[begin:end] + shown[begin + len(data[begin:end]) :]
        return shown
