# SPDX-License-Identifier: Apache-2.0
"""What the analysis of a recording says about its records, one element for each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from powercut.model.units import NEVER
from powercut.model.verdict import LsnRange

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def ranges_of(lsns: I64) -> tuple[LsnRange, ...]:
    """The fewest ranges that cover exactly `lsns`, which rise strictly."""
    if not len(lsns):
        return ()
    gaps = np.flatnonzero(np.diff(lsns) != 1)
    first = lsns[np.concatenate([[0], gaps + 1])].tolist()
    last = lsns[np.concatenate([gaps, [len(lsns) - 1]])].tolist()
    return tuple(LsnRange(a, b) for a, b in zip(first, last, strict=True))


@dataclass(frozen=True)
class ExposureReport:
    """One element per acknowledged record, in the order of LSNs.

    `durable_ns`: the first instant from the ack on after which no legal crash state
    lost it; `NEVER` if there was none.  `exposed_ns`: how long it was exposed after its
    ack, until then, until it was given up or until the end of the recording; 0 if it
    was not.  `undone_ns`: when something else was written over it while it was still
    required; `NEVER` if nothing was.  `write`: the request that made it durable last,
    or failed to; -1 if some of its bytes were never written.  `epoch`: number of
    flushes submitted before that write; -1 without one.  `known`: False where the
    timeline ends too early to tell.
    """

    lsn: I64
    ack_ns: I64
    durable_ns: I64
    exposed_ns: I64
    undone_ns: I64
    write: I64
    epoch: I64
    known: Mask
    bytes_scanned: int

    @property
    def exposed(self) -> Mask:
        """True for records that some legal crash state lost when they were required."""
        return (self.exposed_ns > 0) | self.undone

    @property
    def undone(self) -> Mask:
        """True for records that were written over although still required."""
        return np.asarray(self.undone_ns != NEVER)

    @property
    def exposed_lsns(self) -> tuple[LsnRange, ...]:
        """The exposed records."""
        return ranges_of(self.lsn[self.exposed])

    @property
    def never_durable_lsns(self) -> tuple[LsnRange, ...]:
        """The exposed records that never became durable."""
        return ranges_of(self.lsn[self.exposed & (self.durable_ns == NEVER)])

    @property
    def never_written_lsns(self) -> tuple[LsnRange, ...]:
        """The exposed records of which some bytes never reached the disk at all."""
        return ranges_of(self.lsn[self.exposed & (self.write < 0)])

    @property
    def unknown_lsns(self) -> tuple[LsnRange, ...]:
        """The records about which the timeline, cut short, says nothing."""
        return ranges_of(self.lsn[~self.known])

    @property
    def longest_ns(self) -> int:
        """The longest exposure; 0 if no record was exposed."""
        return int(self.exposed_ns.max(initial=0))


@dataclass(frozen=True)
class Survival:
    """`required`: what recovery must return.  `lost`: those whose bytes are not all there.

    `uncertain`: those for which it depends on a write that was in flight when an
    uncut disk was last seen, or on a chunk of which only some bytes were written; they
    are not in `lost`.
    """

    required: LsnRange | None
    lost: tuple[LsnRange, ...]
    uncertain: tuple[LsnRange, ...]
