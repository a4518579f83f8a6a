# SPDX-License-Identifier: Apache-2.0
"""What an engine is asked for, whichever it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from powercut.recover.plan import RecoveryPlan
from powercut.recover.uml.kernel import UmlKernel
from powercut.scenario.settings import Parameters


@dataclass(frozen=True)
class EngineOrder:
    """Recover states of `base`, by `plan`.

    `parameters` are those of the recorded system, for engines that build it again; `kernel` is
    for engines that run one of their own, None for the host's; `track_reads` wants the places
    that each recovery reads, of engines that can tell.
    """

    base: Path
    plan: RecoveryPlan
    parameters: Parameters
    kernel: UmlKernel | None = None
    track_reads: bool = False
