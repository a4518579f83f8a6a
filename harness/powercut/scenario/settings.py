# SPDX-License-Identifier: Apache-2.0
"""Every setting of a scenario: its values, its default, and what it means.

The docstring under a setting is its documentation: it appears in the JSON schema, so
in editors, and in docs/scenario-reference.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    StrictBool,
    StrictInt,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from powercut.model.contract import ATOMIC_UNIT, CutKind, CutPolicy, DeviceContract, Honour
from powercut.scenario.choices import (
    FLUSH_LATENCY_NS,
    AcceleratorChoice,
    ControlKind,
    DiskModel,
    Engine,
    Expect,
    ExploreEngine,
    ExploreModel,
    ExplorePolicy,
    FilesystemType,
    GuestWriteCache,
    Layout,
    Switch,
    SyncMode,
)
from powercut.scenario.layers import LAYERS_MAX, AnyLayer, Stack, stack_of
from powercut.scenario.quantity import Duration, Size, format_duration
from powercut.scenario.settings_base import Positive, Settings, is_printable
from powercut.scenario.settings_errors import ERRORS_MAX, DiskError
from powercut.scenario.settings_machine import MachineSettings
from powercut.scenario.settings_program import ClusterSettings, ProgramSettings
from powercut.scenario.settings_several import DISKS_MAX, FIRST, AlsoDisk, DiskName, DiskPart
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


# The settings of the power cut, and of what is looked at besides it.


def _is_interval(value: tuple[int, int]) -> tuple[int, int]:
    if value[0] > value[1]:
        raise ValueError("the first moment comes after the second")
    return value


class TriggerSettings(Settings):
    """When the power goes: exactly one of these.  Times count from the moment when the workload
    has opened its log."""

    after: Duration | None = None
    """A time after the workload began."""

    acks: Positive | None = None
    """As soon as the record with this LSN is acknowledged."""

    flushes: Positive | None = None
    """When this flush, counted from the power-on, is submitted, before it acts.  It is in flight
    at the cut."""

    random: Annotated[tuple[Duration, Duration], AfterValidator(_is_interval)] | None = None
    """A moment between two times after the workload began, drawn from the trial's seed."""

    moving: Annotated[tuple[Duration, Duration], AfterValidator(_is_interval)] | None = None
    """A moment between two times after the last move or restart of `machine.during` began, drawn
    from the trial's seed: in the midst of it, if it takes as long."""

    def given(self) -> dict[str, Any]:
        """What was set."""
        return {key: value for key, value in self if value is not None}

    def __str__(self) -> str:
        if self.after is not None:
            return f"after {format_duration(self.after)}"
        if self.acks is not None:
            return f"once {self.acks} commits are acknowledged"
        if self.flushes is not None:
            return f"at flush {self.flushes}"
        first, last = self.random or self.moving or (0, 0)
        began = "" if self.moving is None else " after the last move or restart began"
        between = f"{format_duration(first)} and {format_duration(last)}"
        return f"at a random moment between {between}{began}"


def _is_one(value: TriggerSettings) -> TriggerSettings:
    if len(value.given()) != 1:
        raise ValueError("give exactly one of after, acks, flushes, random, moving")
    return value


class CutSettings(Settings):
    """The power cut."""

    kind: CutKind = CutKind.POWER_LOSS
    """What is lost: the guest's RAM (`guest-crash`), the hypervisor as well (`vm-kill`), the
    volatile caches below it as well (`power-loss`).  In a power loss the disk stops first, at one
    of the 32 requests after the trigger, between two or in the midst of one, as the seed says:
    what it has taken by then and not completed is in flight at the cut."""

    policy: CutPolicy = CutPolicy.DROP
    """What a power loss leaves of the disk's volatile cache and of the writes in flight: nothing
    (`drop`), all (`keep`), each write by chance, maybe torn (`random`), or the earliest by chance
    (`prefix`).  The other kinds leave it alone: `keep`."""

    trigger: Annotated[TriggerSettings, AfterValidator(_is_one)] = TriggerSettings(acks=300)
    """When."""


_BUDGET: Final = "^(auto|off|([1-9][0-9]*,)?[1-9][0-9]*(s|min|h)|[1-9][0-9]*)$"


def _is_budget(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return str(value)
    if isinstance(value, str) and re.fullmatch(_BUDGET, value):
        return value
    raise ValueError("write auto, off, a number of states, a time such as 60s, or both: 320,90s")


class ExploreSettings(Settings):
    """The crash states that are recovered after each cut, besides the one that it left: what a
    SAFE on a file system or an image format rests on.  Of few states half hold nothing but what is
    durable just after an ack, one of each sort of operation and others at random; the rest are
    of all kinds."""

    budget: Annotated[
        str,
        PlainValidator(_is_budget),
        WithJsonSchema({"type": ["string", "integer"], "pattern": _BUDGET}),
    ] = "auto"
    """How many states are recovered (`10000`), or for how long (`60s`), or both (`320,90s`: time
    ends nothing before there are 32).  `auto` is 64 states,
    after which the workload goes on by 16 records, or 320 of a program, where the cut itself has
    not lost anything yet.  `off` is for none: then nothing but a raw log can be SAFE."""

    model: ExploreModel = ExploreModel.EXACT
    """Which states count as legal: all that the disk's contract permits (`exact`), those of
    dm-log-writes (`epoch`), or those in the order of completion (`prefix`)."""

    policies: tuple[ExplorePolicy, ...] = tuple(ExplorePolicy)
    """Who draws states; by default everybody."""

    engine: ExploreEngine = ExploreEngine.AUTO
    """What recovers them: `raw` for a log on the device itself, `uml` or `guest` for others;
    `auto` takes the fastest that can."""

    after: Annotated[int, Field(ge=0, le=10_000)] = 0
    """After each recovery the workload goes on by so many records, and all that was acknowledged
    before and after must be there after a clean unmount, or after a second cut; 0 for not at
    all, but for budget `auto` and on an image format, where it means 16.  Needs a file system or
    an image format.  A program's `run` is started again, and killed once it has acknowledged so
    many operations."""

    depth: Annotated[int, Field(ge=0, le=8)] = 0
    """How many cuts may follow the first, each during the recovery from the one before.  Needs a
    file system."""


# The settings of the disk under test and of the file system on it.


def _is_atomic_unit(value: int) -> int:
    if value not in (1, 512, 4096):
        raise PydanticCustomError("choice", "Input should be 1, 512 or 4096")
    return value


def _any(kept: Sequence[Honour]) -> Honour:
    return Honour.HONOURED if Honour.HONOURED in kept else Honour.IGNORED


class DiskSettings(Settings):
    """The disk under test: what it promises, and which of its promises it keeps."""

    size: Annotated[Size, Field(ge=2 << 20, le=1 << 40, multiple_of=4096)] = 64 << 20
    """Size of the disk, in bytes or with a unit; a multiple of 4096.  A `program` has 512 MiB
    unless this says another."""

    volatile_cache: StrictBool = True
    """Whether completed writes wait in a cache that loses them with the power."""

    flush: Honour = Honour.HONOURED
    """Whether a flush that completed made earlier writes durable, or only said so."""

    fua: Honour = Honour.HONOURED
    """Whether a write with FUA is durable when it completes, or only said to be."""

    ordered: StrictBool = False
    """Whether the cache reaches the medium in completion order."""

    atomic_unit: Annotated[
        StrictInt,
        AfterValidator(_is_atomic_unit),
        Field(json_schema_extra={"enum": [1, 512, 4096]}),
    ] = ATOMIC_UNIT
    """Bytes that never tear: an aligned block of them is written whole or not at all.  4096 is
    what disks with sectors of 4 KiB promise, whether they show them or emulate 512 bytes (Linux:
    `queue/physical_block_size`; why, with sources: docs/crash-model.md, section 2); 512 is the
    least that a disk with sectors promises, and 1 is no promise."""

    cache_size: Size = 0
    """Size of the volatile cache, in bytes or with a unit; 0 is unlimited.  A full cache
    writes its oldest data to the medium by itself."""

    model: DiskModel = DiskModel.TYPICAL
    """How long a flush takes, or a write that is durable when it completes: 1 ms (`typical`,
    `sata-ssd`), no time (`none`), 20 us (`nvme-plp`), 65 us (`sata-ssd-plp`), 0.9 ms (`nvme`) or
    a turn of 8.3 ms (`hdd-7200`); `plp` is for power-loss protection.  On a disk much faster than
    `typical`, an ack that came a little before its sync can stay unseen, and the verdict may be
    INCONCLUSIVE for it (docs/crash-model.md, section 3).  Under a `program` one of them in 50, as
    the seed has it, takes 50 to 500 ms instead, unless `flush_latency` or `fua_latency` is set:
    who acknowledges after a fixed time is right until a sync is slow."""

    flush_latency: Duration | None = None
    """How long each flush takes, instead of what `model` says."""

    fua_latency: Duration | None = None
    """How long each write with FUA takes, instead of what `model` says."""

    name: DiskName = FIRST
    """What reports call this disk where there are others."""

    also: Annotated[tuple[AlsoDisk, ...], Field(max_length=DISKS_MAX - 1)] = ()
    """Disks beside this one, which lose their power at the same instant.  A flush of one covers
    its own writes and no others."""

    errors: Annotated[tuple[DiskError, ...], Field(max_length=ERRORS_MAX)] = ()
    """Errors that the disk makes while the workload runs: `{on: write, nth: 3}` fails the third
    write; `disk: NAME` makes it one of several disks.  No control has them, and recovery finds a
    disk without."""

    layers: Annotated[tuple[AnyLayer, ...], Field(max_length=LAYERS_MAX)] = ()
    """What lies between the disk and the file system, from the disk up, as `{layer: crypt}`: each
    is activated for the run, and in each recovery, as a system does at boot (docs/stacks.md)."""

    @property
    def stack(self) -> Stack | None:
        """The devices of `layers`; None without any.  Raises UsageError as `stack_of`."""
        sizes = [self.size, *(disk.size for disk in self.also)]
        return stack_of(self.layers, sizes) if self.layers else None

    @property
    def layers_title(self) -> str:
        """The layers from the disk up; empty without any."""
        return ", ".join(layer.title for layer in self.layers)

    @property
    def parts(self) -> tuple[DiskPart, ...]:
        """All disks, one behind the other as they are captured; none if there is one alone."""
        if not self.also:
            return ()
        parts = [DiskPart(self.name, 0, self.size, None, self.flush, self.fua)]
        for disk in self.also:
            begin = parts[-1].offset + parts[-1].size
            flush, fua = disk.flush or self.flush, disk.fua or self.fua
            parts.append(DiskPart(disk.name, begin, disk.size, disk.holds, flush, fua))
        return tuple(parts)

    @property
    def whole_size(self) -> int:
        """Bytes of all disks."""
        return self.size + sum(disk.size for disk in self.also)

    @property
    def may_be_slow(self) -> bool:
        """Whether a flush may take longer than others: nobody has said how long it takes."""
        return self.flush_latency is None and self.fua_latency is None

    def contract(self) -> DeviceContract:
        """The device contract that these settings describe.

        Of several disks it says what any of them keeps; `parts` says which.
        """
        usual = FLUSH_LATENCY_NS[self.model]
        return DeviceContract(
            volatile_cache=self.volatile_cache,
            flush=_any([self.flush, *(part.flush for part in self.parts)]),
            fua=_any([self.fua, *(part.fua for part in self.parts)]),
            ordered=self.ordered,
            atomic_unit=self.atomic_unit,
            cache_size=self.cache_size,
            flush_latency_ns=usual if self.flush_latency is None else self.flush_latency,
            fua_latency_ns=usual if self.fua_latency is None else self.fua_latency,
        )


class FilesystemSettings(Settings):
    """The file system on the disk under test."""

    type: FilesystemType = FilesystemType.XFS
    """Which one; `raw` for none: the log lies on the device itself."""

    mkfs: tuple[str, ...] = ()
    """Further arguments for mkfs, one a list entry: options that lay the file system out, none
    that names another device or file (docs/security.md).  What a small XFS needs is added by
    itself."""

    mount: tuple[Annotated[str, AfterValidator(is_printable)], ...] = ()
    """Mount options, one a list entry, in the recorded run and in recovery."""


# The whole of a cell.


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
