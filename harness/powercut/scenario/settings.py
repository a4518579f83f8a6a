# SPDX-License-Identifier: Apache-2.0
"""Every setting of a scenario: its values, its default, and what it means.

The docstring under a setting is its documentation: it appears in the JSON schema, so
in editors, and in docs/scenario-reference.md.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    StrictBool,
    StrictInt,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from powercut.model.contract import CutKind, CutPolicy, DeviceContract, Honour
from powercut.model.machine import Bus, CacheMode, ImageFormat, Start
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
    SyncMode,
)
from powercut.scenario.quantity import Duration, Size, format_duration

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
    "Settings",
    "SyncMode",
    "TriggerSettings",
    "WorkloadSettings",
    "setting_paths",
]


class Settings(BaseModel):
    """Base of all groups: immutable, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


Count = Annotated[StrictInt, Field(ge=0)]
Positive = Annotated[StrictInt, Field(ge=1)]


def _is_format_option(value: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_.-]*=[A-Za-z0-9_.:-]+", value):
        raise ValueError("write name=value")
    return value


class MachineSettings(Settings):
    """The virtual machine."""

    cache: CacheMode = CacheMode.NONE
    """QEMU's cache mode for the disk under test."""

    bus: Bus = Bus.VIRTIO_BLK
    """How the guest reaches the disk under test."""

    format: ImageFormat = ImageFormat.RAW
    """The image format in which the hypervisor keeps the disk.  What is captured and cut is
    the file that holds the format."""

    format_options: tuple[Annotated[str, AfterValidator(_is_format_option)], ...] = ()
    """Options of the image format, as `qemu-img create -o` takes them, one `name=value` a list
    entry: `cluster_size=4096`, `lazy_refcounts=on`, `preallocation=metadata`."""

    start: Start = Start.AUTO
    """How the guest comes to run: `booted`; `restored`, from a guest that was saved after it
    had booted, as after a live migration; or `auto`, restored where that makes no difference."""

    memory: Annotated[Size, Field(ge=64 << 20)] = 128 << 20
    """RAM of the guest, in bytes or with a unit; at least 64 MiB."""

    cpus: Annotated[StrictInt, Field(ge=1, le=64)] = 1
    """Virtual processors."""

    kernel_arguments: tuple[str, ...] = ()
    """Added to the guest's kernel command line."""

    guest_write_cache: GuestWriteCache = GuestWriteCache.AS_PROMISED
    """What the guest believes of the disk's write cache: `as-promised` by the machine, or
    `write-through`, written to the guest's `queue/write_cache`, so that it stops flushing."""

    accelerator: AcceleratorChoice = AcceleratorChoice.AUTO
    """What runs the guest's instructions; `auto` takes KVM if a probe guest proves it."""


def _is_atomic_unit(value: int) -> int:
    if value not in (1, 512, 4096):
        raise PydanticCustomError("choice", "Input should be 1, 512 or 4096")
    return value


class DiskSettings(Settings):
    """The disk under test: what it promises, and which of its promises it keeps."""

    size: Annotated[Size, Field(ge=2 << 20, le=1 << 40, multiple_of=4096)] = 64 << 20
    """Size of the disk, in bytes or with a unit; a multiple of 4096."""

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
    ] = 512
    """Bytes that never tear: 512, 4096, or 1 for none."""

    cache_size: Size = 0
    """Size of the volatile cache, in bytes or with a unit; 0 is unlimited.  A full cache
    writes its oldest data to the medium by itself."""

    model: DiskModel = DiskModel.NONE
    """How long a flush or a write with FUA takes: no time, 1 ms, or a turn of 8.3 ms."""

    flush_latency: Duration | None = None
    """How long a flush takes, instead of what `model` says."""

    fua_latency: Duration | None = None
    """How long a write with FUA takes, instead of what `model` says."""

    def contract(self) -> DeviceContract:
        """The device contract that these settings describe."""
        usual = FLUSH_LATENCY_NS[self.model]
        return DeviceContract(
            volatile_cache=self.volatile_cache,
            flush=self.flush,
            fua=self.fua,
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
    """Further arguments for mkfs, one a list entry.  What a small XFS needs is added by
    itself."""

    mount: tuple[str, ...] = ()
    """Mount options, one a list entry, in the recorded run and in recovery."""


_PLANTS: Final = {
    "none": False,
    "early-ack": False,
    "ack-failed-sync": False,
    "skip-sync": True,
    "wrong-offset": True,
    "torn-write": True,
    "flip-bit": True,
    "replay-old": True,
}
"""Planted faults, and whether they take a number from 1 after a colon."""


def _is_plant(value: str) -> str:
    fault, colon, number = value.partition(":")
    if fault not in _PLANTS:
        choices = ", ".join(f"'{name}'" for name in _PLANTS)
        raise PydanticCustomError(
            "choice", "Input should be one of {expected}", {"expected": choices}
        )
    if _PLANTS[fault] != bool(colon) or (colon and not re.fullmatch(r"[1-9]\d*", number)):
        usage = f"{fault}:N, N from 1" if _PLANTS[fault] else f"{fault}, without a number"
        raise ValueError(f"write {usage}")
    return value


def _is_record(value: int) -> int:
    if value % 64:
        raise ValueError("a record is made of chunks of 64 bytes: write a multiple of 64")
    return value


def _is_align(value: int) -> int:
    if value not in (0, 512, 4096):
        raise PydanticCustomError("choice", "Input should be 0, 512 or 4096")
    return value


class WorkloadSettings(Settings):
    """The WAL workload: it appends records, commits them, and acknowledges each commit."""

    layout: Layout = Layout.APPEND
    """How the log lies: a growing file (`append`), a preallocated one (`prealloc`), one
    written before (`prewritten`), the same used again and again (`recycled`), files of
    `segment` bytes (`segments`), or the device itself (`raw`).  A raw file system implies
    `raw`."""

    record: Annotated[Size, Field(ge=64, le=1 << 20), AfterValidator(_is_record)] = 512
    """Size of a record, header included, in bytes or with a unit; a multiple of 64."""

    align: Annotated[
        StrictInt, AfterValidator(_is_align), Field(json_schema_extra={"enum": [0, 512, 4096]})
    ] = 0
    """Where records start: at multiples of 512 or 4096 bytes, or 0 for packed."""

    capacity: Annotated[Size, Field(ge=4096)] = 16 << 20
    """Size of the log, in bytes or with a unit, where the layout has one (not `append`)."""

    segment: Annotated[Size, Field(ge=4096)] = 1 << 20
    """Size of each file of the layout `segments`, in bytes or with a unit."""

    sync: SyncMode = SyncMode.FDATASYNC
    """How a commit is made durable, before it is acknowledged."""

    direct: StrictBool = False
    """Whether the log is opened with O_DIRECT."""

    engine: Engine = Engine.PWRITE
    """Which system calls write."""

    streams: Annotated[StrictInt, Field(ge=1, le=128)] = 1
    """Threads that append; one of them commits for all that wait."""

    batch: Annotated[StrictInt, Field(ge=1, le=4096)] = 1
    """Records that each stream appends for a commit."""

    depth: Annotated[StrictInt, Field(ge=1, le=1024)] = 1
    """Writes in flight within a commit, with `libaio` and `io_uring`."""

    think: Duration = 0
    """Pause of a stream between its commits; whole microseconds."""

    records: Count = 0
    """How many records to write; 0: until the cut."""

    plant: Annotated[str, AfterValidator(_is_plant)] = "none"
    """A fault planted into the workload, to see whether it is found: `none`, `early-ack`,
    `skip-sync:N`, `ack-failed-sync`, `wrong-offset:LSN`, `torn-write:LSN`, `flip-bit:LSN`
    or `replay-old:LSN`."""

    @property
    def stride(self) -> int:
        """Bytes from the start of one record to the start of the next."""
        if not self.align:
            return self.record
        return -(-self.record // self.align) * self.align

    @property
    def slots(self) -> int | None:
        """How many records the log holds before it is full; None if it grows."""
        if self.layout is Layout.APPEND:
            return None
        if self.layout is Layout.SEGMENTS:
            return self.capacity // self.segment * (self.segment // self.stride)
        return self.capacity // self.stride


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
    """When this flush, counted from the power-on, is submitted, before it acts."""

    random: Annotated[tuple[Duration, Duration], AfterValidator(_is_interval)] | None = None
    """A moment between two times after the workload began, drawn from the trial's seed."""

    def given(self) -> dict[str, Any]:
        """What was set."""
        return {key: value for key, value in self if value is not None}

    def __str__(self) -> str:
        if self.after is not None:
            return f"after {format_duration(self.after)}"
        if self.acks is not None:
            return f"once record {self.acks} is acknowledged"
        if self.flushes is not None:
            return f"at flush {self.flushes}"
        first, last = self.random or (0, 0)
        return f"at a random moment between {format_duration(first)} and {format_duration(last)}"


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


def _is_one(value: TriggerSettings) -> TriggerSettings:
    if len(value.given()) != 1:
        raise ValueError("give exactly one of after, acks, flushes, random")
    return value


class CutSettings(Settings):
    """The power cut."""

    kind: CutKind = CutKind.POWER_LOSS
    """What is lost: the guest's RAM (`guest-crash`), the hypervisor as well (`vm-kill`), the
    volatile caches below it as well (`power-loss`)."""

    policy: CutPolicy = CutPolicy.DROP
    """What a power loss leaves of the disk's volatile cache: nothing (`drop`), all (`keep`),
    each write by chance, maybe torn (`random`), or the earliest by chance (`prefix`).  The
    other kinds leave it alone: `keep`."""

    trigger: Annotated[TriggerSettings, AfterValidator(_is_one)] = TriggerSettings(acks=300)
    """When."""


_BUDGET: Final = "^(none|[1-9][0-9]*(s|min|h)?)$"


def _is_budget(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return str(value)
    if isinstance(value, str) and re.fullmatch(_BUDGET, value):
        return value
    raise ValueError("write none, a number of states, or a time such as 60s")


class ExploreSettings(Settings):
    """The crash states that are checked after each cut, besides the one that it left."""

    budget: Annotated[
        str,
        PlainValidator(_is_budget),
        WithJsonSchema(
            {"type": ["string", "integer"], "pattern": "^(none|[1-9][0-9]*(s|min|h)?)$"}
        ),
    ] = "none"
    """How many states are checked (`10000`), or for how long (`60s`); `none` for not at all."""

    model: ExploreModel = ExploreModel.EXACT
    """Which states count as legal: all that the disk's contract permits (`exact`), those of
    dm-log-writes (`epoch`), or those in the order of completion (`prefix`)."""

    policies: tuple[ExplorePolicy, ...] = tuple(ExplorePolicy)
    """Who draws states; by default everybody."""

    engine: ExploreEngine = ExploreEngine.AUTO
    """What recovers them: `raw` for a log on the device itself, `uml` or `guest` for others;
    `auto` takes the fastest that can."""


class Parameters(Settings):
    """Everything that describes one cell; it follows from the scenario and nothing else."""

    machine: MachineSettings = MachineSettings()
    disk: DiskSettings = DiskSettings()
    filesystem: FilesystemSettings = FilesystemSettings()
    workload: WorkloadSettings = WorkloadSettings()
    cut: CutSettings = CutSettings()
    explore: ExploreSettings = ExploreSettings()

    deadline: Annotated[Duration, Field(gt=0)] = 60 * 10**9
    """How long a trial may take before it counts as INCONCLUSIVE."""

    controls: Controls = None
    """Which runs of known outcome go with the cell: `auto` for all that apply, a list of
    `honest`, `lying-disk`, `no-sync`, or `none`.  Without them no verdict can be SAFE."""

    expect: Expect = Expect.SAFE
    """The verdict that the cell should get."""

    trials: Annotated[StrictInt, Field(ge=1, le=1_000_000)] = 1
    """How often the cell is run, each time with a seed of its own."""


GROUPS: Final[dict[str, type[Settings]]] = {
    "machine": MachineSettings,
    "disk": DiskSettings,
    "filesystem": FilesystemSettings,
    "workload": WorkloadSettings,
    "cut": CutSettings,
    "explore": ExploreSettings,
}
"""The groups of settings, in the order in which they are documented."""

SINGLE: Final = ("deadline", "controls", "expect", "trials")
"""Settings of a cell that stand in no group."""


def setting_paths() -> tuple[str, ...]:
    """Every dotted key that a cell may override, in documented order."""
    grouped = [f"{name}.{key}" for name, group in GROUPS.items() for key in group.model_fields]
    return (*grouped, *SINGLE)
