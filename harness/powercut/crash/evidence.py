# SPDX-License-Identifier: Apache-2.0
"""What the analyses share: one scan of the payloads, one pass over flushes and claims."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from powercut.crash.arrays import expand
from powercut.crash.claims import Claims, claims_of
from powercut.crash.dating import AckDating, date_acks
from powercut.crash.scan import Runs, scan
from powercut.crash.sets import DurabilitySets, durability_sets
from powercut.model.history import History
from powercut.model.timeline import Timeline
from powercut.model.units import NEVER
from powercut.wal.layout import WalLayout
from powercut.wal.record import CHUNK

I64 = npt.NDArray[np.int64]

LSN_SLACK = 1 << 12
"""Records this far beyond the last received attempt are still recognised in writes."""


@dataclass(frozen=True)
class Evidence:
    """One run's timeline and history with everything that is derived from them once.

    The acks in `history` are dated as late as they can have been made (`dating`), which is
    no later than they were received.
    """

    timeline: Timeline
    history: History
    layout: WalLayout
    sets: DurabilitySets
    runs: Runs
    claims: Claims
    dating: AckDating

    @property
    def horizon_ns(self) -> int:
        """The last instant that the timeline can speak of; `NEVER` if it speaks of all."""
        if self.timeline.cut is not None:
            return int(self.timeline.cut.at)
        return int(NEVER) if self.timeline.complete else last_event_ns(self.timeline)


def gather(
    timeline: Timeline,
    history: History,
    run_id: bytes,
    layout: WalLayout,
    *,
    deep: bool = False,
) -> Evidence:
    """Scans the payloads for the run's records.

    `deep` compares every word of every record instead of one word in eight; it finds
    bits that were already wrong when they were written.  Where records have their own
    places (`WalLayout.in_place`) only those in them count.
    """
    runs = scan(timeline, run_id, layout, history.attempted + LSN_SLACK, deep=deep)
    dating = date_acks(history, timeline, runs, layout)
    history = replace(history, ack_ns=dating.latest_ns)
    claims = claims_of(history, layout, timeline, runs)
    if layout.in_place:
        runs = _at_home(runs, layout)
    return Evidence(timeline, history, layout, durability_sets(timeline), runs, claims, dating)


def last_event_ns(timeline: Timeline) -> int:
    """The last instant at which anything is known to have happened at the disk."""
    requests = timeline.requests
    done = requests.completed_ns[requests.completed_ns != NEVER]
    return max(int(requests.submitted_ns.max(initial=0)), int(done.max(initial=0)))


def _at_home(runs: Runs, layout: WalLayout) -> Runs:
    """The parts of `runs` that lie where their records belong."""
    # Between records there may be padding; without it places go on until the log wraps.
    period = layout.chunks if layout.stride != layout.record else layout.slots * layout.chunks
    first = runs.chunk // period
    owner, number = expand(first, (runs.chunk + runs.count - 1) // period - first + 1)
    runs = runs.select(owner)
    begin = np.maximum(runs.chunk, number * period)
    end = np.minimum(runs.chunk + runs.count, (number + 1) * period)
    runs = Runs(runs.write, runs.place + begin - runs.chunk, begin, end - begin, runs.bytes_scanned)
    slot = runs.chunk // layout.chunks % layout.slots
    home = (layout.offset + slot * layout.stride) // CHUNK + runs.chunk % layout.chunks
    return runs.select(runs.place == home)
