# SPDX-License-Identifier: Apache-2.0
"""Every setting of a scenario: its values, its default, and what it means.

The docstring under a setting is its documentation: it appears in the JSON schema, so
in editors, and in docs/scenario-reference.md.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field, PlainSerializer, PlainValidator, StrictInt, WithJsonSchema
from pydantic_core import PydanticCustomError

from powercut.scenario.choices import (
    FLUSH_LATENCY_NS,
    AcceleratorChoice,
    ControlKind,
    DiskModel,
    Engine,
    Expect,
    FilesystemType,
    GuestWriteCache,
    Layout,
    Switch,
    SyncMode,
)
from powercut.scenario.quantity import Duration
from powercut.scenario.settings_base import Settings
from powercut.scenario.settings_cut import CutSettings, ExploreSettings, TriggerSettings
from powercut.scenario.settings_disk import DiskSettings, FilesystemSettings
from powercut.scenario.settings_machine import MachineSettings
from powercut.scenario.settings_program import ClusterSettings, ProgramSettings
from powercut.scenario.settings_wal import WalSettings
from powercut.scenario.settings_workload import KINDS, WorkloadSettings

__all__ = [
    "FLUSH_LATENCY_NS",
    "GROUPS",
    "SINGLE",
    "AcceleratorChoice",
    "ControlKind",
    "CutSettings",
    "DiskModel",
    "DiskSettings",
    "Engine",
    "Expect",
    "ExploreSettings",
    "FilesystemSettings",
    "FilesystemType",
    "GuestWriteCache",
    "Layout",
    "MachineSettings",
    "Parameters",
    "ProgramSettings",
    "Settings",
    "Switch",
    "SyncMode",
    "TriggerSettings",
    "WalSettings",
    "WorkloadSettings",
    "setting_paths",
    "wal_settings",
]


def _parse_controls(value: Any) -> tuple[ControlKind, ...] | None:
    if value is None or value == "auto":
        return None
    if value == "none":
        return ()
    if isinstance(value, list | tuple):
        choices = [kind.value for kind in ControlKind]
        wrong = [item for item in value if item not in choices and item not in list(ControlKind)]
        if not wrong:
            return tuple(ControlKind(item) for item in value)
        expected = ", ".join(f"'{choice}'" for choice in choices)
        raise PydanticCustomError(
            "choice", "Items should be {expected}", {"expected": expected, "item": wrong[0]}
        )
    raise PydanticCustomError("choice", "Input should be 'auto', 'none' or a list")


def _format_controls(value: tuple[ControlKind, ...] | None) -> str | list[str]:
    if value is None:
        return "auto"
    return [kind.value for kind in value] or "none"


Controls = Annotated[
    tuple[ControlKind, ...] | None,
    PlainValidator(_parse_controls),
    PlainSerializer(_format_controls, when_used="json"),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["auto", "none"]},
                {"type": "array", "items": {"enum": [kind.value for kind in ControlKind]}},
            ],
        }
    ),
]
"""Which controls go with a cell; None for all that apply (`auto`)."""


class Parameters(Settings):
    """Everything that describes one cell; it follows from the scenario and nothing else."""

    machine: MachineSettings = MachineSettings()
    disk: DiskSettings = DiskSettings()
    filesystem: FilesystemSettings = FilesystemSettings()
    workload: WorkloadSettings = WalSettings()
    cut: CutSettings = CutSettings()
    explore: ExploreSettings = ExploreSettings()

    deadline: Annotated[Duration, Field(gt=0)] = 60 * 10**9
    """How long each phase of a trial may take (preparing, booting, working until the cut, the cut,
    recovery) before the trial counts as INCONCLUSIVE; on a host whose load exceeds its processors,
    or in a container that has a share of one, up to five times as long, but not for a `setup`
    that sleeps."""

    controls: Controls = None
    """Which runs of known outcome go with the cell: `auto` for all that apply, a list of
    `honest`, `lying-disk`, `no-sync`, or `none`.  Without them no verdict can be SAFE.  Of a
    machine that is there already `no-flush`, too: its kernel sends the disk no flush, so that a
    power loss must take what lies in the disk's own cache."""

    expect: Expect = Expect.SAFE
    """The verdict that the cell should get: `safe`, `lossy`, or `survived`, which is the most that
    cuts show of a `machine.backend` that does not record its disk."""

    trials: Annotated[StrictInt, Field(ge=1, le=1_000_000)] = 1
    """How often the cell is run, each time with a seed of its own."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Those of a cluster, as their disks are called; none of other workloads."""
        is_cluster = isinstance(self.workload, ClusterSettings)
        return tuple(part.name for part in self.disk.parts) if is_cluster else ()


GROUPS: Final[dict[str, tuple[type[Settings], ...]]] = {
    "machine": (MachineSettings,),
    "disk": (DiskSettings,),
    "filesystem": (FilesystemSettings,),
    "workload": tuple(KINDS.values()),
    "cut": (CutSettings,),
    "explore": (ExploreSettings,),
}
"""The groups of settings, in the order in which they are documented; of which some come in
several kinds, the usual one first."""

SINGLE: Final = ("deadline", "controls", "expect", "trials")
"""Settings of a cell that stand in no group."""


def setting_paths() -> tuple[str, ...]:
    """Every dotted key that a cell may override, in documented order."""
    grouped = [
        f"{name}.{key}"
        for name, models in GROUPS.items()
        for model in models
        for key in model.model_fields
    ]
    return (*dict.fromkeys(grouped), *SINGLE)


def wal_settings(parameters: Parameters) -> WalSettings:
    """The workload of a cell that is known to write the log of powercut's own."""
    workload = parameters.workload
    if not isinstance(workload, WalSettings):
        raise TypeError(f"the workload is {workload.kind}, and its code was asked about wal")
    return workload
