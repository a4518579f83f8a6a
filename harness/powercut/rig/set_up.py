# SPDX-License-Identifier: Apache-2.0
"""Brings a guest that has said hello to where its workload can start."""

from __future__ import annotations

import time
from typing import Self

from powercut.channel.port import CommandResult, Commands
from powercut.machine.patience import patience
from powercut.model.errors import DeadlineExceeded, HostError
from powercut.recover.plan import Mount
from powercut.rig import commands
from powercut.rig.guest_disks import GuestDisks
from powercut.scenario.settings import Parameters
from powercut.workload.port import MOUNT_POINT


class Deadline:
    """The end of the time that each phase of a trial has.

    A guest that hangs does so in one phase, and costs one phase's time.  A busy host slows all of
    them down, and has that time for each, times its `patience`.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.renew()

    @classmethod
    def exactly(cls, seconds: float) -> Self:
        """One that no load puts off."""
        made = cls(seconds)
        made._end = time.monotonic() + seconds
        return made

    def renew(self) -> None:
        """Another phase begins."""
        self._begun = time.monotonic()
        self._end = self._begun + self._seconds * patience()

    @property
    def quiet_s(self) -> float:
        """Seconds left on a host that nothing else slows down; 0 if there are none."""
        return max(self._begun + self._seconds - time.monotonic(), 0.0)

    @property
    def waited_s(self) -> float:
        """Seconds since the phase began."""
        return time.monotonic() - self._begun

    @property
    def over(self) -> bool:
        return time.monotonic() >= self._end

    @property
    def remaining_s(self) -> float:
        """Seconds left; raises DeadlineExceeded if there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise DeadlineExceeded(
                "the trial's deadline is over", hint="raise `deadline` in the scenario"
            )
        return left

    def at_least(self, seconds: float) -> float:
        """Seconds left, or `seconds` if that is more."""
        return max(self._end - time.monotonic(), seconds)


def guest_command(channel: Commands, deadline: Deadline, *argv: str) -> CommandResult:
    """Runs a command of the agent's; raises HostError if it failed."""
    result = channel.run(*argv, timeout_s=deadline.remaining_s)
    if result.status or result.error:
        raise HostError(f"in the guest, `{' '.join(argv)}` failed: {result.error}")
    return result


def prepare_disk(
    channel: Commands, parameters: Parameters, deadline: Deadline
) -> tuple[GuestDisks, dict[str, str]]:
    """Finds the guest's disks and sets its write cache; returns what it sees of them, too.

    Raises HostError if a step fails.
    """
    plan = commands.recovery_plan(parameters, bytes(16))
    disks = GuestDisks.found(plan, lambda *argv: guest_command(channel, deadline, *argv).facts)
    if file := commands.write_cache_file(parameters.machine):
        guest_command(channel, deadline, "write", file, "write through")
    for node in disks.nodes:
        guest_command(channel, deadline, "flushbufs", node)
    facts = guest_command(channel, deadline, "facts", disks.devices[0]).facts
    for disk, device in zip(disks.disks[1:], disks.devices[1:], strict=True):
        seen = guest_command(channel, deadline, "facts", device).facts
        facts |= {commands.fact_of(disk.name, name): value for name, value in seen.items()}
    return disks, facts


def mount_disks(
    channel: Commands, parameters: Parameters, disks: GuestDisks, point: str, deadline: Deadline
) -> None:
    """Mounts the file systems, that of the first disk at `point`.  Raises HostError."""
    filesystem = parameters.filesystem
    mount = Mount(filesystem.type.value, ",".join(filesystem.mount), point)
    for words in disks.mounting(mount):
        guest_command(channel, deadline, *words)


def mount_disk(
    channel: Commands, parameters: Parameters, disks: GuestDisks, deadline: Deadline
) -> None:
    """Mounts what is to be mounted and makes the workload's folders; raises HostError."""
    if commands.is_raw(parameters):
        return
    mount_disks(channel, parameters, disks, MOUNT_POINT, deadline)
    for folder in commands.contents_of(parameters).folders:
        guest_command(channel, deadline, "mkdir", folder)
