# SPDX-License-Identifier: Apache-2.0
"""Moves the guest of a trial to another hypervisor while its workload writes."""

from __future__ import annotations

from typing import Final

from powercut.channel.port import Channel, FollowsGuest
from powercut.machine.port import Machine, MovesGuest
from powercut.model.errors import HostError
from powercut.model.machine import Move
from powercut.rig.set_up import Deadline
from powercut.scenario.plan import Trigger, TriggerKind
from powercut.trial.disks import TrialDisk
from powercut.trial.trigger import wait_trigger

PROMISED_THERE: Final = 8
"""Records that the other hypervisor acknowledges before anything else happens."""


def move_guest(
    how: Move, machine: Machine, channel: Channel, disk: TrialDisk, deadline: Deadline
) -> None:
    """Returns once the other hypervisor has promised something to the guest, too.

    Marks in the disk's log say when the move began, and when it was over.  Raises PowercutError if
    it cannot move, or does not arrive.
    """
    if not isinstance(machine, MovesGuest) or not isinstance(channel, FollowsGuest):
        raise HostError(
            f"this machine has no other hypervisor to {how.value} its guest to",
            hint="leave `machine.during` out, or use machine.backend: qemu",
        )
    disk.mark(f"{how.value}: begins, {channel.acked} acknowledged")
    channel.expect_handover()
    stopped_ns = machine.move(how, timeout_s=deadline.remaining_s)
    before = channel.hand_over(stopped_ns, timeout_s=deadline.remaining_s)
    disk.mark(f"{how.value}: over, {channel.acked} acknowledged")
    # Counted from there: meanwhile it may have gone on as far as it ever will.
    promised = Trigger(TriggerKind.ACKS, before + PROMISED_THERE)
    wait_trigger(channel, promised, deadline)
