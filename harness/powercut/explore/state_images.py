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
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from powercut.crash.applied import AppliedWrite, applied_parts
from powercut.crash.states import CrashState, StateSpace
from powercut.model.observation import Observation
from powercut.recover.port import ImageWrite, Reads, RecoveryEngine
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
        self._last: tuple[I64, list[ImageWrite]] = (np.empty(0, dtype=np.int64), [])

    def writes(self, state: CrashState, space: StateSpace | None = None) -> list[ImageWrite]:
        """What to lay over the base image, in order, to get the image of `state`.

        `space` is another space of the same requests, of a disk that keeps other promises.
        """
        space = space or self._space
        order = space.application_order(state)
        writes = self._in_order(order)
        if state.torn:
            torn = state.torn_parts
            numbered = zip(order.tolist(), writes, strict=True)
            writes = []
            for write, whole in numbered:
                if write in torn:
                    writes += map(_image_write, applied_parts(space.timeline, write, torn[write]))
                else:
                    writes.append(whole)
        # A list of its own, which the caller may change.
        return writes + [
            ImageWrite(offset, len(data), np.frombuffer(data, dtype=np.uint8))
            for offset, data in (state.again.overlay if state.again else ())
        ]

    def _in_order(self, order: I64) -> list[ImageWrite]:
        """The writes of whole requests.  Most states begin with the writes of the one before."""
        before, made = self._last
        least = min(len(before), len(order))
        differ = np.flatnonzero(before[:least] != order[:least])
        same = int(differ[0]) if len(differ) else least
        known = self._whole
        whole = made[:same]
        whole += [known.get(write) or self._of(write) for write in order[same:].tolist()]
        self._last = (order, whole)
        return whole

    def _of(self, write: int) -> ImageWrite:
        write_of_image = self._whole.get(write)
        if write_of_image is None:
            (applied,) = applied_parts(self._space.timeline, write)
            write_of_image = _image_write(applied)
            self._whole[write] = write_of_image
        return write_of_image


def _image_write(applied: AppliedWrite) -> ImageWrite:
    return ImageWrite(applied.offset, applied.length, applied.data)


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
        self._whole -= self._digest[changed].sum(axis=0, dtype=np.uint64)
        content = self._origin.content(changed)
        base = self._origin.base_pages(0, len(self._digest))[changed]
        other = (content != base).any(axis=1)
        self._digest[changed[~other]] = 0
        for page, data in zip(changed[other].tolist(), content[other], strict=True):
            digest = hashlib.sha256(page.to_bytes(8, "little"))
            digest.update(data.data)
            self._digest[page] = np.frombuffer(digest.digest()[:16], dtype=np.uint64)
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
