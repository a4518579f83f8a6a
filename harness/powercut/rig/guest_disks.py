# SPDX-License-Identifier: Apache-2.0
"""The disks of a guest that is up: which device each is, and what is mounted of them.

Of several disks each has its serial number, by which the guest's agent finds it: what Linux calls
them depends on the order of probing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from powercut.recover.plan import Mount, PlanDisk, RecoveryPlan
from powercut.scenario.settings_several import STRIPE

_SECTOR: Final = 512

Facts = Callable[..., dict[str, str]]
"""Runs a command of the agent's; the facts that came of it.  Raises if it failed."""

Words = tuple[str, ...]


@dataclass(frozen=True)
class GuestDisks:
    """The devices in the order of `disks`; one alone if that is empty.

    `over` is the device of the stripes over all of them, if there are any.
    """

    devices: tuple[str, ...]
    disks: tuple[PlanDisk, ...] = ()
    over: str = ""

    @classmethod
    def found(cls, plan: RecoveryPlan, run: Facts) -> GuestDisks:
        """Those of `plan`; stripes are put together."""
        if not plan.disks:
            return cls((plan.device,))
        devices = tuple(run("find", disk.name)["device"] for disk in plan.disks)
        over = ""
        if any(disk.holds == "stripe" for disk in plan.disks):
            sectors = sum(disk.size for disk in plan.disks) // _SECTOR
            words = (str(sectors), str(STRIPE // _SECTOR), *devices)
            over = run("stripes", *words)["device"]
        return cls(devices, plan.disks, over)

    def mounting(self, mount: Mount) -> list[Words]:
        """The agent's commands that mount the file systems, that on the first disk first."""
        beside = [
            f"{option}=/dev/{device}"
            for option, holds in (("logdev", "xfs-log"), ("rtdev", "xfs-realtime"))
            for _, device in self._holding(holds)
        ]
        options = ",".join(filter(None, (mount.options, *beside)))
        first = f"/dev/{self.over or self.devices[0]}"
        kind = ("mount", mount.filesystem)
        return [
            (*kind, first, mount.point, options),
            *(
                (*kind, f"/dev/{device}", _folder(mount.point, disk), mount.options)
                for disk, device in self._holding("folder")
            ),
        ]

    @property
    def nodes(self) -> Words:
        """Each device, and that of the stripes, in /dev."""
        return tuple(f"/dev/{name}" for name in (*self.devices, self.over) if name)

    def points(self, point: str) -> Sequence[str]:
        """Where they are mounted, the first at `point`."""
        return (point, *(_folder(point, disk) for disk, _ in self._holding("folder")))

    def _holding(self, what: str) -> list[tuple[PlanDisk, str]]:
        if not self.disks:
            return []
        pairs = zip(self.disks, self.devices, strict=True)
        return [(disk, device) for disk, device in pairs if disk.holds == what]


def _folder(point: str, disk: PlanDisk) -> str:
    return f"{point}/{disk.name}"
