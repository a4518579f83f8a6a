# SPDX-License-Identifier: Apache-2.0
"""Moves the guest of a trial to another hypervisor while its workload writes."""

from __future__ import annotations

import time
from typing import Final

from powercut.channel.port import Channel, FollowsGuest
from powercut.machine.during import MovesGuest
from powercut.machine.port import Machine
from powercut.model.errors import HostError, PowercutError
from powercut.model.machine import Move
from powercut.rig.set_up import Deadline
from powercut.scenario.plan import Trigger, TriggerKind
from powercut.trial.disks import TrialDisk
from powercut.trial.trigger import NEVER, wait_trigger

PROMISED_THERE: Final = 8
"""Records that the other hypervisor acknowledges before anything else happens."""


def move_guest(
    how: Move,
    machine: Machine,
    channel: Channel,
    disk: TrialDisk,
    deadline: Deadline,
    *,
    cut_after_s: float | None = None,
) -> None:
    """Returns once the other hypervisor has promised something to the guest, too; with
    `cut_after_s`, when the move began so long ago, wherever the guest is then.

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
    timeout_s = deadline.remaining_s if cut_after_s is None else cut_after_s
    cut_at = None if cut_after_s is None else time.monotonic() + cut_after_s
    try:
        stopped_ns = machine.move(how, timeout_s=timeout_s)
    except PowercutError:
        if cut_at is None or time.monotonic() < cut_at:
            raise
        return  # the moment has come, and taken the other hypervisor with it
    before = channel.hand_over(stopped_ns, timeout_s=deadline.remaining_s)
    disk.mark(f"{how.value}: over, {channel.acked} acknowledged")
    if cut_at is not None:
        channel.wait_acks(NEVER, timeout_s=max(cut_at - time.monotonic(), 0))
        return
    # Counted from there: meanwhile it may have gone on as far as it ever will.
    promised = Trigger(TriggerKind.ACKS, before + PROMISED_THERE)
    wait_trigger(channel, promised, deadline)
