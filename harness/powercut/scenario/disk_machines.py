# SPDX-License-Identifier: Apache-2.0
"""What the machine is to each of several disks."""

from __future__ import annotations

from typing import Final

from powercut.scenario.settings import MachineSettings, Parameters

OF_A_MACHINE: Final = ("bus", "cache", "aio", "iothread", "queues", "like")
"""What the machine may be to one of several disks alone."""


def machines_of_disks(parameters: Parameters) -> tuple[MachineSettings, ...]:
    """What the machine is to each of its disks: in `OF_A_MACHINE` they differ."""
    machine = parameters.machine
    changes = (
        {key: value for key in OF_A_MACHINE if (value := getattr(disk, key)) is not None}
        for disk in parameters.disk.also
    )
    return (machine, *(machine.model_copy(update=change) for change in changes))
