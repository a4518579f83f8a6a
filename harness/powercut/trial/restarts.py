# SPDX-License-Identifier: Apache-2.0
"""Restarts the guest of a trial, or its hypervisor, while its workload writes.

1. The guest stops where it is: whatever it had not synced is gone, and so is what it was about to
   say.
2. It boots, mounts the same disk, on which its file system recovers, and is heard anew.
3. The workload goes on with the record after the last one that was acknowledged.  If it wrote
   acknowledged records once more, it would hide that the restart had lost them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from powercut.channel.port import Channel, FollowsGuest
from powercut.machine.during import RestartsGuest
from powercut.machine.port import Machine
from powercut.model.errors import HostError, PowercutError
from powercut.model.machine import Restart
from powercut.rig.set_up import Deadline
from powercut.scenario.plan import Trigger, TriggerKind
from powercut.trial.disks import TrialDisk
from powercut.trial.moves import PROMISED_THERE
from powercut.trial.trigger import NEVER, wait_trigger


@dataclass(frozen=True)
class Revival:
    """How a guest that has booted again goes on: `mount` brings it to where its workload can
    start, `writer` is the workload's command line, given the last acknowledged LSN."""

    mount: Callable[[Deadline], None]
    writer: Callable[[int], Sequence[str]]


def restart_guest(
    how: Restart,
    machine: Machine,
    channel: Channel,
    disk: TrialDisk,
    revival: Revival,
    deadline: Deadline,
    *,
    cut_after_s: float | None = None,
) -> None:
    """Returns once the guest has promised something again; with `cut_after_s`, when the restart
    began so long ago, however far it has come.

    Marks in the disk's log say when it began, and when the guest was there again.  Raises
    PowercutError if the machine cannot restart it, or if it does not come up.
    """
    if not isinstance(machine, RestartsGuest) or not isinstance(channel, FollowsGuest):
        raise HostError(
            f"this machine cannot {how.value} its guest",
            hint="leave `machine.during` out, or use machine.backend: qemu",
        )
    disk.mark(f"{how.value}: begins, {channel.acked} acknowledged")
    until = deadline if cut_after_s is None else Deadline.exactly(cut_after_s)
    try:
        channel.expect_handover(restarts=True)
        stopped_ns = machine.restart(how, timeout_s=until.remaining_s)
        channel.hand_over(stopped_ns, timeout_s=until.remaining_s)
        channel.wait_hello(timeout_s=until.remaining_s)
        machine.came_up(timeout_s=until.remaining_s)
        revival.mount(until)
        before = channel.acked
        disk.mark(f"{how.value}: over, {before} acknowledged")
        channel.start("exec", *revival.writer(before))
        if cut_after_s is None:
            promised = Trigger(TriggerKind.ACKS, before + PROMISED_THERE)
            wait_trigger(channel, promised, until)
        else:
            channel.wait_acks(NEVER, timeout_s=until.remaining_s)
    except PowercutError:
        if cut_after_s is None or not until.over:
            raise
