# SPDX-License-Identifier: Apache-2.0
"""One trial that is to be recorded, and what is learned while it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from powercut import __version__
from powercut.channel.port import Acks
from powercut.model.creation import Creation
from powercut.model.errors import PowercutError
from powercut.model.events import Phase
from powercut.model.operations import Pressed
from powercut.model.outside import LeftFiles, Outside
from powercut.model.reads import CheckReads
from powercut.recover.plan import RecoveryPlan
from powercut.rig import commands
from powercut.rig.engine_shelf import EngineShelf
from powercut.rig.rig import Rig
from powercut.rig.set_up import Deadline
from powercut.scenario.place import place_of
from powercut.scenario.plan import Trial
from powercut.scenario.settings import ControlKind, Parameters
from powercut.store.trial_dir import TrialDir, TrialRecord
from powercut.workload.port import Run, Workload
from powercut.workload.table import workload_of

GRACE_S: Final = 10.0
"""For what must happen after the cut even if the trial's deadline is over."""


@dataclass
class Stopwatch:
    """How long each phase of a trial took, in seconds; tells whoever watches."""

    notify: Callable[[Phase], None]
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, phase: Phase) -> Iterator[None]:
        """Times what happens inside."""
        self.notify(phase)
        start = time.monotonic()
        try:
            yield
        finally:
            name = phase.name.lower()
            spent = self.seconds.get(name, 0.0) + time.monotonic() - start
            self.seconds[name] = round(spent, 4)


@dataclass(frozen=True)
class TrialJob:
    """One trial that is to be recorded.

    `begins_with` is a trial of the same run whose disk at power-on this one has, too, if it is
    still there: of a program, whose `setup` both would run with the same seed.
    """

    scenario: str
    cell: str
    parameters: Parameters
    trial: Trial
    run_id: bytes
    control: ControlKind | None = None
    scenario_sha256: str = ""
    begins_with: TrialDir | None = None

    def as_record(self, recording: str) -> TrialRecord:
        """What says of a recording named `recording` that it is of this trial, and no more."""
        place = place_of(self.parameters)
        return TrialRecord(
            powercut=__version__,
            scenario=self.scenario,
            cell=self.cell,
            control=self.control,
            parameters=self.parameters,
            trial=self.trial,
            run_id=self.run_id.hex(),
            scenario_sha256=self.scenario_sha256,
            recording=recording,
            evidence_level=place.evidence_level,
        )


class RecordingInProgress:
    """The state of one recording while it is made; engines come from the `shelf`."""

    def __init__(
        self, rig: Rig, job: TrialJob, directory: TrialDir, watch: Stopwatch, shelf: EngineShelf
    ) -> None:
        self.rig = rig
        self.shelf = shelf
        self.job = job
        self.directory = directory
        self.watch = watch
        self.workload: Workload = workload_of(job.parameters)
        self.run = Run(job.run_id, job.trial.seed)
        self.binding = directory.read_binding()
        self.level = directory.read_record().evidence_level
        self.deadline = Deadline(job.parameters.deadline / 1e9)
        self.trouble: list[str] = []
        self.damage: list[str] = []
        self.came_up = False
        self.pressed = Pressed()
        self.cut_ns: int | None = None
        self.versions: dict[str, str] = {}
        self.facts: dict[str, str] = {}
        self.recovery_facts: dict[str, str] = {}
        self.reads: CheckReads | None = None
        self.left: LeftFiles | None = None
        self.outside: Outside | None = None
        self.creation: Creation | None = None

    @contextmanager
    def phase(self, phase: Phase) -> Iterator[None]:
        """Times what happens inside, and gives it the whole of the scenario's `deadline`."""
        self.deadline.renew()
        with self.watch.phase(phase):
            yield

    @property
    def plan(self) -> RecoveryPlan:
        """What recovery of its disk consists of."""
        return commands.recovery_plan(self.job.parameters, self.run.run_id, self.run.seed)

    def press(self, how: Callable[[], object]) -> None:
        """Has the recorded kernel write back early, unless the settings say otherwise."""
        if commands.is_pressed(self.job.parameters):
            how()

    def drain(self, acks: Acks) -> None:
        """Hears the rest of what was said before the cut; what was not kept is damage."""
        try:
            acks.drain(timeout_s=self.deadline.at_least(GRACE_S))
        except PowercutError as error:
            self.damage.append(str(error))
