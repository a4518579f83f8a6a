# SPDX-License-Identifier: Apache-2.0
"""The disk under test of one trial, as the recording of it sees it.

A `CapturedDisk` is powercut's: every request is recorded, it can stop at one, and it loses what a
cut takes.  An `UnseenDisk` is the machine's own: what a cut leaves of it is what the next machine
finds, and nobody can look at it otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, Protocol

from powercut.disk.backing import backing_of
from powercut.disk.capture import CaptureDisk
from powercut.machine.port import Disk, MachineSpec, OwnDisk
from powercut.model.binding import Binding
from powercut.model.contract import CutKind, CutPolicy
from powercut.model.errors import HostError
from powercut.rig import commands
from powercut.scenario.plan import TriggerKind
from powercut.trial.job import RecordingInProgress, TrialJob

_STOP_S: Final = 0.1
"""How long the disk waits for the request at which it is to stop before it stops anyway."""


class TrialDisk(Protocol):
    """A disk from power-on to after the cut."""

    @property
    def attached(self) -> Path | Disk:
        """What the machine is given: a disk, or the socket on which one is served."""

    def stop_at_flush(self, number: int) -> None:
        """Stops at this flush, counted from now.  Raises HostError if nobody sees any."""

    def wait_stopped(self, *, timeout_s: float) -> bool:
        """Whether it has stopped there."""

    def mark(self, name: str) -> None:
        """Writes a mark into its log, if it has one."""

    def inject(self) -> None:
        """From now on it makes the errors of its settings, until the cut."""

    def stop(self) -> None:
        """The disk goes before the machine does, if it can."""

    def cut(self, log: Path, *, timeout_s: float) -> int:
        """Takes what the cut takes, once the machine is gone; returns the instant, in nanoseconds
        of CLOCK_MONOTONIC.  What follows is recorded in `log`, if anything is."""

    def snapshot(self, medium: Path) -> bool:
        """Writes what is left to the file `medium`; False if only a machine can read it."""


class CapturedDisk:
    """The capture disk in a trial."""

    def __init__(self, disk: CaptureDisk, job: TrialJob) -> None:
        self._disk = disk
        self._job = job

    @property
    def attached(self) -> Path:
        return self._disk.socket

    def stop_at_flush(self, number: int) -> None:
        self._disk.stop_at_flush(number)

    def wait_stopped(self, *, timeout_s: float) -> bool:
        return self._disk.wait_stopped(timeout_s=timeout_s)

    def mark(self, name: str) -> None:
        """Between the requests that were there before it and those that come after it."""
        self._disk.mark(name)

    def inject(self) -> None:
        self._disk.inject()

    def dark(self, names: Collection[str], seed: int) -> AbstractContextManager[None]:
        """Meanwhile these of several disks have no power, and keep what `seed` leaves."""
        return self._disk.dark(names, seed)

    def stop(self) -> None:
        """The disk goes first: what it has taken by then and not completed is in flight.

        Until the cut it is a disk that takes its time, so an ack that comes meanwhile is one like
        any other: made before the cut, for what had completed before.
        """
        if self._job.trial.trigger.kind is TriggerKind.FLUSHES:
            return  # it has stopped there
        stop = self._job.trial.disk_stop
        self._disk.stop_after(stop.completions, taking=stop.taking)
        if not self._disk.wait_stopped(timeout_s=_STOP_S):
            self._disk.stop_after(0, taking=stop.taking)  # the guest asks for too little

    def cut(self, log: Path, *, timeout_s: float) -> int:
        """Drops the volatile cache by the policy, if the kind of the cut takes it."""
        cut = self._job.parameters.cut
        policy = cut.policy if cut.kind is CutKind.POWER_LOSS else CutPolicy.KEEP
        report = self._disk.cut(policy, self._job.trial.cut_seed, log, timeout_s=timeout_s)
        return int(report.at)

    def snapshot(self, medium: Path) -> bool:
        self._disk.snapshot(medium)
        return True


class UnseenDisk:
    """A disk of the machine's own in a trial."""

    def __init__(self, disk: OwnDisk) -> None:
        self.attached = disk

    def stop_at_flush(self, number: int) -> None:
        raise HostError(
            f"flush {number} cannot be seen on a disk that is not captured",
            hint="cut.trigger: acks, after or random",
        )

    def wait_stopped(self, *, timeout_s: float) -> bool:
        del timeout_s
        return False

    def mark(self, name: str) -> None:
        """Nobody keeps a log of it."""

    def inject(self) -> None:
        raise HostError("a disk that is not captured makes no errors", hint="drop disk.errors")

    def stop(self) -> None:
        """It goes with the machine."""

    def cut(self, log: Path, *, timeout_s: float) -> int:
        del log, timeout_s
        return time.monotonic_ns()

    def snapshot(self, medium: Path) -> bool:
        del medium
        return False


@contextmanager
def captured(
    job: TrialJob, *, binding: Binding, base: Path, log: Path, sockets: Path
) -> Iterator[CapturedDisk]:
    """The capture disk of a trial, with `base` on it."""
    config = commands.capture_config(job.parameters, binding, base=base, log=log, sockets=sockets)
    with CaptureDisk(config) as disk:
        yield CapturedDisk(disk, job)


def machine_of(run: RecordingInProgress, disk: TrialDisk) -> MachineSpec:
    """The machine of the cell on its disk."""
    parameters, base = run.job.parameters, run.directory.base_image
    below = backing_of(base, parameters.machine.backing_image)
    return run.rig.machine_spec(parameters, disk.attached, backing=below, run=run.run)
