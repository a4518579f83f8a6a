# SPDX-License-Identifier: Apache-2.0
"""What happens while a campaign runs, for those who watch it.

The run layer emits these values through a callable; it neither knows nor waits for
who listens.  Nothing here is evidence: that is in the recording.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path

from powercut.model.verdict import Verdict


class Phase(enum.Enum):
    """What a trial is busy with, in the order in which it gets there."""

    PREPARE = "preparing"
    BOOT = "booting"
    WORKLOAD = "writing"
    CUT = "cutting the power"
    RECOVER = "recovering"
    JUDGE = "judging"
    EXPLORE = "recovering crash states"


@dataclass(frozen=True)
class RunStarted:
    """A scenario begins; `trials` counts all trials of all its cells, controls included."""

    scenario: str
    seed: int
    cells: tuple[str, ...]
    trials: int
    directory: Path


@dataclass(frozen=True)
class CertifyStarted:
    """A set of scenarios is to be run for a certificate.

    `trials` counts controls, too, and each cell once more if it is to be measured.
    """

    title: str
    seed: int
    scenarios: int
    cells: int
    trials: int
    directory: Path


@dataclass(frozen=True)
class TrialPhase:
    """A trial enters a phase, or is so far in it.  `cell` names the control if it is one."""

    cell: str
    trial: int
    phase: Phase
    so_far: str = ""


@dataclass(frozen=True)
class TrialFinished:
    """A trial was judged."""

    cell: str
    trial: int
    verdict: Verdict
    acked: int
    lost: int
    seconds: float
    control: bool = False
    as_expected: bool = True
    """Whether the verdict is the one that the cell, or the control, should get."""

    earlier: bool = False
    """Whether an interrupted run, which this one resumes, had made it."""


@dataclass(frozen=True)
class CellMeasured:
    """What the commits of a cell send and cost was measured; `trouble` if it could not be."""

    cell: str
    trouble: str
    earlier: bool = False


@dataclass(frozen=True)
class Notice:
    """A line for a person, such as why a slower way was taken."""

    text: str


@dataclass(frozen=True)
class RunFinished:
    """A scenario ended and its result is on disk."""

    scenario: str
    verdict: Verdict
    directory: Path


RunEvent = (
    CertifyStarted | RunStarted | TrialPhase | TrialFinished | CellMeasured | Notice | RunFinished
)
