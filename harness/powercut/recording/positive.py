# SPDX-License-Identifier: Apache-2.0
"""The positive control of a recording, from what is sealed in it (powercut.model.positive)."""

from __future__ import annotations

from contextlib import suppress

from powercut.model.errors import DamagedRecording
from powercut.model.observation import Observation
from powercut.model.positive import PositiveControl, Whole
from powercut.model.verdict import EvidenceLevel
from powercut.scenario.settings import ControlKind
from powercut.store.trial_dir import TrialDir, TrialRecord
from powercut.workload.port import AcksByLines, Promises


def needs_positive(record: TrialRecord) -> bool:
    """Whether the check of a recording has to show that it sees.

    A control that must lose something need not: it is the cell's own check, which shows it there.
    Nor on a machine that keeps its disk to itself, of which no other state can be looked at.
    """
    recorded = record.evidence_level is EvidenceLevel.RECORDED
    return recorded and record.control in (None, ControlKind.HONEST)


def positive_of(
    directory: TrialDir, record: TrialRecord, workload: AcksByLines, promises: Promises
) -> PositiveControl | None:
    """What the check found where nothing was lost; None where it need not or cannot be known.

    What is damaged is told by its own reader, and shows nothing here.
    """
    if not needs_positive(record) or not promises.acked:
        return None
    seen: dict[Whole, Observation] = {}
    with suppress(DamagedRecording):
        seen[Whole.CUT] = directory.read_observation()
    for where, path in ((Whole.ISSUED, directory.issued), (Whole.ENDED, directory.ended)):
        with suppress(DamagedRecording):
            if (found := directory.read_whole(path)) is not None:
                seen[where] = found
    return workload.positive(promises, seen)
