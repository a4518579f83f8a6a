# SPDX-License-Identifier: Apache-2.0
"""The checker of a trial that left no disk log: claims against what came back, and nothing else.

What it finds is what powercut.checkers.wal finds, under two rules, since a guest's writes and its
messages travel separately and no log says what reached the disk:

1. What came back was attempted, even if the cut swallowed the message.  So of a record that
   never attempted nothing can be found.
2. A log that goes round gives a record up with the attempt that takes its slot, heard of or not.
   Once more than half of its slots were attempted, nothing is required of it for certain:
   INCOMPLETE, INCONCLUSIVE, and no loss.
"""

from __future__ import annotations

from powercut.checkers.wal import check_wal
from powercut.model.history import History
from powercut.model.observation import Observation
from powercut.model.verdict import Finding, FindingKind, Verdict
from powercut.wal.layout import WalLayout
from powercut.wal.slots import SlotState

_OF_THIS_LOG = (SlotState.INTACT, SlotState.TORN, SlotState.MISDIRECTED)
"""States of a slot whose LSN is that of a record of this run."""


def attempted_at_least(history: History, observation: Observation) -> int:
    """The highest LSN that was attempted, by what was heard and what came back."""
    seen = (e.lsn + e.count - 1 for e in observation.extents if e.lsn and e.state in _OF_THIS_LOG)
    return max(history.attempted, *seen, 0)


def check_live(history: History, observation: Observation, layout: WalLayout) -> list[Finding]:
    """What recovery gave back after a cut, against all that was claimed before it."""
    attempted = attempted_at_least(history, observation)
    if layout.wraps and 2 * attempted > layout.slots:
        return [
            Finding(
                FindingKind.INCOMPLETE,
                Verdict.INCONCLUSIVE,
                f"{attempted:,} records were attempted in a log of {layout.slots:,} slots that "
                "goes round: without a disk log nothing shows which of them it has given up; raise "
                "workload.capacity, or cut earlier",
            )
        ]
    return check_wal(history, observation, layout, attempted)
