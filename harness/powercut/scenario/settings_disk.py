# SPDX-License-Identifier: Apache-2.0
"""The settings of the disk under test and of the file system on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator, Field, StrictBool, StrictInt
from pydantic_core import PydanticCustomError

from powercut.model.contract import ATOMIC_UNIT, DeviceContract, Honour
from powercut.scenario.choices import FLUSH_LATENCY_NS, DiskModel, FilesystemType
from powercut.scenario.layers import LAYERS_MAX, AnyLayer, Stack, stack_of
from powercut.scenario.quantity import Duration, Size
from powercut.scenario.settings_base import Settings, is_printable
from powercut.scenario.settings_errors import ERRORS_MAX, DiskError
from powercut.scenario.settings_several import DISKS_MAX, FIRST, AlsoDisk, DiskName, DiskPart


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
