# SPDX-License-Identifier: Apache-2.0
"""Plugs the disk under test into a guest that runs without it."""

from __future__ import annotations

import time
from typing import Final

from powercut.channel.port import Channel
from powercut.machine.port import Machine, PlugsDisk
from powercut.model.errors import DeadlineExceeded, HostError
from powercut.rig.commands import DISKS_AT_BOOT, NO_DISKS
from powercut.rig.set_up import Deadline
from powercut.trial.disks import TrialDisk

_POLL_S: Final = 0.05


def plug_disk(
    machine: Machine, channel: Channel, disk: TrialDisk, device: str, deadline: Deadline
) -> dict[str, str]:
    """Returns once the guest has `device`, with the disks that it had before, as a fact.

    Marks in the disk's log say when it was plugged in, and when the guest had it.  Raises HostError
    or DeadlineExceeded.
    """
    if not isinstance(machine, PlugsDisk):
        raise HostError(
            "this machine has all its disks when it boots",
            hint="leave `machine.hotplug` out, or use machine.backend: qemu",
        )
    before = _disks(channel, deadline)
    disk.mark("hotplug: begins")
    machine.plug_disk(timeout_s=deadline.remaining_s)
    try:
        while device not in _disks(channel, deadline):
            time.sleep(_POLL_S)
    except DeadlineExceeded as error:
        raise DeadlineExceeded(
            f"the disk was plugged in, and the guest did not find {device}: {error}",
            hint="of a PCI function a kernel hears with CONFIG_HOTPLUG_PCI_ACPI",
        ) from None
    disk.mark(f"hotplug: the guest has {device}")
    return {DISKS_AT_BOOT: ",".join(before) or NO_DISKS}


def _disks(channel: Channel, deadline: Deadline) -> list[str]:
    """The guest's disks, by what it calls them."""
    said = channel.wait_hello(timeout_s=deadline.remaining_s).get("disks", "")
    return [name for name in said.split(",") if name]
