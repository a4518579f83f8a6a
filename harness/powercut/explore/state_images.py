# SPDX-License-Identifier: Apache-2.0
"""From crash states to what an engine makes of them.

An engine takes writes over a base image.  `StateImages` turns states into such
writes, so that a write which two states share is one object in both: engines send only
what differs.  `AnswerCache` decides states without an engine:

1. Two states with the same bytes on the whole disk recover alike.  There are many of
   those: the claims go on while the disk stays as it is, and writes repeat what is
   there already.
2. A recovery and its reader are a function of the bytes that they read.  If a state has,
   in every place that the recovery of an earlier state read, the same bytes as that
   one, then its own recovery reads the same bytes in the same order, and ends the same.
   The places are known from an engine that counts them (`TracksReads`, a superset in
   whole pages).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from powercut.crash.applied import applied_parts
from powercut.crash.states import CrashState, StateSpace
from powercut.model.observation import Observation
from powercut.model.units import NEVER
from powercut.recover.port import ImageWrite, Reads, RecoveryEngine
from powercut.recover.state_image import StateImage, image_write
from powercut.recover.uml.origin import PAGE, Origin, SharesOrigin

_READ_SETS_MAX: Final = 48
"""Read sets that are compared with; the ones used longest ago are forgotten."""

I64 = npt.NDArray[np.int64]
Pages = I64


class StateImages:
    """The writes of states; those of whole requests are made once."""

    def __init__(self, space: StateSpace) -> None:
        self._space = space
        self._whole: dict[int, ImageWrite] = {}
        self._other: tuple[StateSpace, int] = (space, int(NEVER))

    def writes(self, state: CrashState, space: StateSpace | None = None) -> StateImage:
        """What to lay over the base image, in order, to get the image of `state`.

        `space` is another space of the same requests, of a disk that keeps other promises.
        """
        over = [
            ImageWrite(offset, len(data), np.frombuffer(data, dtype=np.uint8))
            for offset, data in (state.again.overlay if state.again else ())
        ]
        if space is not None and space is not self._space:
            state = self._as_ours(state, space)
        return StateImage(self._space, state, self._of, over)

    def _as_ours(self, state: CrashState, space: StateSpace) -> CrashState:
        """A state of our space with the same writes, legal or not: survivors instead of what is
        durable in `space` alone."""
        if space is not self._other[0]:
            ours, theirs = self._space.sets.durable_ns, space.sets.durable_ns
            differ = np.minimum(ours, theirs)[ours != theirs]
            self._other = space, int(differ.min(initial=NEVER))
        instant = min(state.instant, self._other[1])
        durable = space.durable(state.instant)
        durable = durable[space.sets.durable_ns[durable] >= instant]
        survivors = np.union1d(durable, np.array(state.survivors, dtype=np.int64))
        return replace(state, instant=instant, survivors=tuple(survivors.tolist()))

    def _of(self, write: int) -> ImageWrite:
        known = self._whole.get(write)
        if known is None:
            (applied,) = applied_parts(self._space.timeline, write)
            known = self._whole[write] = image_write(applied)
        return known


class AnswerCache:
    """Answers of earlier states, by the content of what they depend on."""

    def __init__(self, base: Path, engine: RecoveryEngine | None = None) -> None:
        """Without an `engine` that shares its disk's content it is kept here, too."""
        self._origin = engine.origin if isinstance(engine, SharesOrigin) else Origin(base)
        self._changes = self._origin.watch()
        pages = self._origin.size // PAGE
        self._digest = np.zeros((pages, 2), dtype=np.uint64)  # the base's pages count as 0
        self._whole = np.zeros(2, dtype=np.uint64)
        self._by_disk: dict[bytes, Observation] = {}
        self._by_reads: dict[Reads, tuple[Pages, dict[bytes, Observation]]] = {}

    def advance(self, writes: Sequence[ImageWrite]) -> None:
        """Makes `writes` the current state."""
        self._origin.advance(writes)
        changed = self._changes.take()
        for at in range(0, len(changed), Origin.AT_A_TIME):
            self._digest_anew(changed[at : at + Origin.AT_A_TIME])

    def _digest_anew(self, changed: Pages) -> None:
        self._whole -= self._digest[changed].sum(axis=0, dtype=np.uint64)
        other = self._origin.not_as_base(changed)
        self._digest[changed[~other]] = 0
        pages = changed[other]
        digests = bytearray()
        for page, data in zip(pages.tolist(), self._origin.content(pages), strict=True):
            digest = hashlib.sha256(page.to_bytes(8, "little"))
            digest.update(data.data)
            digests += digest.digest()[:16]
        self._digest[pages] = np.frombuffer(digests, dtype=np.uint64).reshape(-1, 2)
        self._whole += self._digest[changed].sum(axis=0, dtype=np.uint64)

    @property
    def disk(self) -> bytes:
        """What the current state's disk holds, in 16 bytes; the same in every process."""
        return self._whole.tobytes()

    def find(self) -> Observation | None:
        """The answer of an earlier state that cannot differ from that of the current one."""
        observation = self._by_disk.get(self.disk)
        if observation is not None:
            return observation
        for reads in reversed(self._by_reads):
            pages, answers = self._by_reads[reads]
            observation = answers.get(self._content(pages))
            if observation is not None:
                self._by_reads[reads] = self._by_reads.pop(reads)
                return observation
        return None

    def learn(self, reads: Reads | None, observation: Observation) -> None:
        """Keeps the answer of the current state.

        `reads` are the places that it depended on, None if that is not known.
        """
        if not observation.complete:
            return
        self._by_disk[self.disk] = observation
        if reads is None:
            return
        if reads not in self._by_reads:
            parts = [np.arange(at // PAGE, -(-(at + length) // PAGE)) for at, length in reads]
            pages = np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
            self._by_reads[reads] = (pages, {})
            if len(self._by_reads) > _READ_SETS_MAX:
                del self._by_reads[next(iter(self._by_reads))]
        pages, answers = self._by_reads[reads]
        answers[self._content(pages)] = observation

    def forget(self) -> None:
        """Drops all answers; what the current state's disk holds stays."""
        self._by_disk.clear()
        self._by_reads.clear()

    def _content(self, pages: Pages) -> bytes:
        """A digest of 128 bits of what stands in `pages`: the sum of one for each page."""
        return bytes(self._digest[pages].sum(axis=0, dtype=np.uint64).tobytes())
