# SPDX-License-Identifier: Apache-2.0
"""Records a program on a machine that powercut makes: set up, run, and read after the cut.

The program's folder is made by `setup` (powercut.trial.preparation), and is durable when the power
comes on.  What its check finds there is evidence, too: a check that finds operations where none was
tried cannot be believed.

After the cut the medium is recovered by the program's own check, twice, and `ASKED` times if it
misses something: what it does not say again is not known.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from powercut.channel.port import Channel
from powercut.machine.port import Machine, TellsLeft
from powercut.model.errors import DeadlineExceeded, HostError
from powercut.model.failure import Failure
from powercut.model.observation import Observation
from powercut.recover.port import ImageWrite, RecoveryEngine
from powercut.rig.image_difference import changed_parts
from powercut.trial.disks import TrialDisk
from powercut.trial.job import GRACE_S, RecordingInProgress
from powercut.trial.positive import look_where_nothing_was_lost, looked_again
from powercut.trial.preparation import Preparation
from powercut.trial.program_lines import ProgramLines
from powercut.trial.system import System
from powercut.workload.port import AcksByLines
from powercut.workload.program.claims import sighting_of

_Keep = Callable[[Observation], None]


class ProgramWork:
    """What the stages of a recording do for a program on a `system`."""

    def __init__(self, run: RecordingInProgress, system: System) -> None:
        self._run = run
        self._system = system
        self._lines = ProgramLines(run)
        self._preparation = Preparation(run, system)

    def prepared(self) -> Path | None:
        """The disk as `setup` has left it, adopted by the recording."""
        return self._preparation.made()

    def set_up(self, machine: Machine, channel: Channel, folder: Path) -> None:
        """Brings the machine to where the program can start."""
        run = self._run
        self._system.enter(channel)
        self._system.make_ready(channel)
        self._lines.hear(
            self._system.hear(machine, folder, run.directory.lines, run.binding, dated=True)
        )

    def run_until_trigger(self, machine: Machine, channel: Channel, disk: TrialDisk) -> None:
        """Returns when the power is to be cut; raises if that moment does not come."""
        del machine
        workload = self._run.workload
        assert isinstance(workload, AcksByLines)
        argv = workload.writer(self._run.run)
        self._system.start(channel, argv, unsynced=workload.drops_syncs, dated=True)
        self._lines.wait_trigger(channel, argv, disk)

    def last_words(self, machine: Machine) -> None:
        """All that the program said until the disk stopped is heard."""
        self._lines.catch_up()
        self._system.last_words(machine)
        self._run.pressed = self._system.pressed(self._lines)
        if self._run.job.control is None and isinstance(machine, TellsLeft):
            self._run.left = machine.left(timeout_s=self._run.deadline.at_least(GRACE_S))

    def hear_the_rest(self) -> None:
        """After the cut; idempotent."""
        self._lines.hear_the_rest()

    def read(self, disk: TrialDisk, sockets: Path) -> None:
        """What the program's check finds at power-on, on the medium, twice, and where nothing was
        lost if that leaves a doubt."""
        self.hear_the_rest()
        run, workload, system = self._run, self._run.workload, self._system
        assert isinstance(workload, AcksByLines)
        timeout_s = workload.recovery_s + system.boot_s
        medium, base = sockets / "medium.img", run.directory.base_image
        if not disk.snapshot(medium):
            raise HostError("the disk under test is not powercut's: nothing of it can be recovered")
        left = changed_parts(base, medium)
        with system.recovering(run.plan) as engine:
            keep = run.directory.write_untouched
            try:
                _answer(engine, [], keep, "the disk after `setup` alone", timeout_s)
            except DeadlineExceeded as error:
                unknown = Observation.failed(Failure.DEADLINE, f"{error}; it was not asked again")
                run.directory.write_observation(unknown)
                raise
            keep = run.directory.write_observation
            seen = _answer(engine, left, keep, "what the cut left", timeout_s)
            words = "the same disk was recovered again, and the check did not say the same"
            again = looked_again(
                run, seen, lambda _: engine.recover(left, timeout_s=timeout_s), words
            )
            if again is not seen:
                keep(again)
            look_where_nothing_was_lost(
                run, engine, run.plan, system.recovering, left, timeout_s=timeout_s
            )
            run.creation = self._preparation.creation(engine, left, timeout_s=timeout_s)


def _answer(
    engine: RecoveryEngine, writes: Sequence[ImageWrite], keep: _Keep, where: str, timeout_s: float
) -> Observation:
    """What the check says `where`, kept.  Raises DeadlineExceeded if it hung, since it would do so
    each time that it is asked; not if it found something wrong before, which it is asked twice."""
    begun = time.monotonic()
    seen = engine.recover(writes, timeout_s=timeout_s)
    keep(seen)
    found = sighting_of(seen)
    hung = not seen.complete and time.monotonic() - begun >= timeout_s
    if hung and not (found.wrong or found.bad):
        raise DeadlineExceeded(
            f"the check, of {where}: {seen.failure}", hint="raise `workload.state_timeout`"
        )
    return seen
