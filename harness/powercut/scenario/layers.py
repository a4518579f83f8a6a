# SPDX-License-Identifier: Apache-2.0
"""Layers between the disks and the file system: a row each.

A row says what a layer is called, which parameters it has, what it promises of a flush, which
modules it takes, and its tables, as the kernel's Documentation/admin-guide/device-mapper/ has
them.  Everybody else has `Target`s: devices and their tables, from the disk up, which are made of
checked settings alone.  PID 1 of User-Mode Linux activates them for the run, and for each recovery.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import Field

from powercut.model.errors import UsageError
from powercut.scenario.layers_base import Device, Layer, Target
from powercut.scenario.layers_file import File

LAYERS_MAX: Final = 4

_SECTOR: Final = 512
_PAGE: Final = 8  # sectors: what file systems and caches count in
_MIB: Final = 2048  # sectors
_KEY: Final = bytes(range(64)).hex()
"""Of XTS with AES-256: nothing here is secret."""


class Stack(NamedTuple):
    """All layers: what is made, from the disk up, the sectors of the last, and the modules.

    `helpers` are modules that a kernel may have built in; `formatted` is the file system that is
    on the disk itself, empty for none.
    """

    targets: tuple[Target, ...]
    sectors: int
    modules: tuple[str, ...]
    helpers: tuple[str, ...]
    formatted: str = ""


class Crypt(Layer):
    """dm-crypt without a header: aes-xts-plain64, a fixed key."""

    modules = ("dm-crypt",)
    helpers = ("aes_generic", "cbc", "sha256_generic", "ecb", "xts")

    layer: Literal["crypt"]
    """Encryption."""

    @property
    def promise(self) -> str:
        """Of its own it has none."""
        return "a write is encrypted on its way; flushes and FUA are passed on"

    def over(self, name: str, below: Sequence[Device]) -> tuple[Target, ...]:
        """As large as what it lies on."""
        (device,) = below
        table = f"aes-xts-plain64 {_KEY} 0 @{device.name} 0"
        return (Target(name, device.sectors, "crypt", table),)


class IntegrityMode(enum.Enum):
    """How data and tag come to the disk together."""

    JOURNAL = "journal"
    BITMAP = "bitmap"
    DIRECT = "direct"

    @property
    def word(self) -> str:
        """In the table."""
        return {"journal": "J", "bitmap": "B", "direct": "D"}[self.value]


class Integrity(Layer):
    """dm-integrity alone: a CRC-32C for each sector, beside the data."""

    modules = ("dm-integrity",)
    helpers = ("crc32c_generic",)

    layer: Literal["integrity"]
    """Checksums of sectors."""

    mode: IntegrityMode = IntegrityMode.JOURNAL
    """`journal`: data and tags are journalled, as `integritysetup format` does by default;
    `bitmap`: what was being written is computed again after a cut; `direct`: neither, so that a
    sector whose tag is older than its data cannot be read."""

    @property
    def title(self) -> str:
        """With its mode."""
        return f"integrity ({self.mode.value})"

    @property
    def promise(self) -> str:
        """By its mode."""
        return {
            IntegrityMode.JOURNAL: "a flush commits the journal, in which data and tags are whole",
            IntegrityMode.BITMAP: "a flush writes data and tags; a cut leaves none unreadable",
            IntegrityMode.DIRECT: "a flush writes data and tags; a sector that is written while "
            "the power goes may be unreadable, with what it held before",
        }[self.mode]

    @property
    def is_safe(self) -> bool:
        """Only what is written twice, or not believed, is."""
        return self.mode is not IntegrityMode.DIRECT

    def over(self, name: str, below: Sequence[Device]) -> tuple[Target, ...]:
        """The kernel formats what begins with zeroes.  Room for tags (1/128), journal and
        superblock, generously."""
        (device,) = below
        room = device.sectors // 32 + 2 * _MIB
        table = f"@{device.name} 0 - {self.mode.word} 1 internal_hash:crc32c"
        return (Target(name, _whole(device.sectors - room), "integrity", table),)


class Linear(Layer):
    """dm-linear, as a logical volume of LVM's lies on its disk: from 1 MiB on."""

    modules = ()

    layer: Literal["linear"]
    """A part of what lies below."""

    @property
    def promise(self) -> str:
        """Of its own it has none."""
        return "everything is passed on"

    def over(self, name: str, below: Sequence[Device]) -> tuple[Target, ...]:
        """All but the first MiB."""
        (device,) = below
        size = device.sectors - _MIB
        return (Target(name, size, "linear", f"@{device.name} {_MIB}"),)


class Writecache(Layer):
    """dm-writecache in its SSD mode: writes wait on the last eighth of the disk."""

    modules = ("dm-writecache",)

    layer: Literal["writecache"]
    """A cache of writes."""

    @property
    def promise(self) -> str:
        """Less than it should: docs/findings/dm-writecache-fua.md."""
        return "a flush commits the cache; a write with FUA waits for the next flush"

    @property
    def is_safe(self) -> bool:
        """A write with FUA is not in the cache's metadata when it completes."""
        return False

    def over(self, name: str, below: Sequence[Device]) -> tuple[Target, ...]:
        """The kernel formats a cache that begins with zeroes."""
        (device,) = below
        size = _whole(device.sectors - device.sectors // 8)
        rest = _whole(device.sectors - size)
        origin = Target(f"{name}.origin", size, "linear", f"@{device.name} 0")
        cache = Target(f"{name}.cache", rest, "linear", f"@{device.name} {size}")
        table = f"s @{origin.name} @{cache.name} {_SECTOR} 0"
        return (origin, cache, Target(name, size, "writecache", table))


class Mirror(Layer):
    """RAID 1 of md over all disks, as LVM has it (dm-raid), with its bitmap of what is dirty."""

    modules = ("raid1", "dm-raid")

    joins = True

    layer: Literal["raid1"]
    """A mirror over all disks."""

    @property
    def promise(self) -> str:
        """Of all legs."""
        return (
            "a write is on all disks; flushes and FUA go to each; a dirty bitmap says what to copy"
        )

    def over(self, name: str, below: Sequence[Device]) -> tuple[Target, ...]:
        """Superblock and bitmap lie in the first 4 MiB of each disk."""
        size = _whole(min(device.sectors for device in below) - 4 * _MIB)
        legs: list[Target] = []
        for number, device in enumerate(below):
            legs += [
                Target(f"{name}.meta{number}", 4 * _MIB, "linear", f"@{device.name} 0"),
                Target(f"{name}.data{number}", size, "linear", f"@{device.name} {4 * _MIB}"),
            ]
        pairs = " ".join(f"@{name}.meta{n} @{name}.data{n}" for n in range(len(below)))
        table = f"raid1 3 0 region_size 1024 {len(below)} {pairs}"
        made = f"raid raid1 4 0 region_size 1024 nosync {len(below)} {pairs}"
        return (*legs, Target(name, size, "raid", table, made=made))


class Thin(Layer):
    """A thin volume in a pool (dm-thin): data on the disk, its map on the first 4 MiB."""

    modules = ("dm-thin-pool",)

    layer: Literal["thin"]
    """A volume that takes room as it is written."""

    @property
    def promise(self) -> str:
        """Of the map, too."""
        return "a flush commits the map of blocks before it is passed on"

    def over(self, name: str, below: Sequence[Device]) -> tuple[Target, ...]:
        """The pool's map begins with zeroes when it is made."""
        (device,) = below
        size = _whole(device.sectors - 4 * _MIB) // 128 * 128
        meta = Target(f"{name}.meta", 4 * _MIB, "linear", f"@{device.name} 0")
        data = Target(f"{name}.data", size, "linear", f"@{device.name} {4 * _MIB}")
        table = f"@{meta.name} @{data.name} 128 0"
        pool = Target(f"{name}.pool", size, "thin-pool", table, message="create_thin 0")
        return (meta, data, pool, Target(name, size, "thin", f"@{pool.name} 0"))


class Cache(Layer):
    """dm-cache with a cache that keeps writes, all of it on one disk."""

    modules = ("dm-cache", "dm-cache-smq")

    layer: Literal["cache"]
    """A cache of blocks that are used often."""

    mode: Literal["writeback", "writethrough"] = "writeback"
    """`writeback`: a write is done when the cache has it; `writethrough`: when both have it."""

    @property
    def title(self) -> str:
        """With its mode."""
        return f"cache ({self.mode})"

    @property
    def promise(self) -> str:
        """Of its map, too."""
        return "a flush commits the map of the cache before it is passed on"

    def over(self, name: str, below: Sequence[Device]) -> tuple[Target, ...]:
        """Map, cache and disk lie one behind the other."""
        (device,) = below
        size = _whole(device.sectors * 3 // 4)
        cache = _whole(device.sectors - size - 4 * _MIB) // 128 * 128
        parts = (
            Target(f"{name}.meta", 4 * _MIB, "linear", f"@{device.name} 0"),
            Target(f"{name}.fast", cache, "linear", f"@{device.name} {4 * _MIB}"),
            Target(f"{name}.slow", size, "linear", f"@{device.name} {4 * _MIB + cache}"),
        )
        names = " ".join(f"@{part.name}" for part in parts)
        return (*parts, Target(name, size, "cache", f"{names} 128 1 {self.mode} smq 0"))


AnyLayer = Annotated[
    Crypt | Integrity | Linear | Writecache | Mirror | Thin | Cache | File,
    Field(discriminator="layer"),
]
"""A row each."""


def stack_of(layers: Sequence[Layer], sizes: Sequence[int]) -> Stack:
    """The layers over disks of `sizes` bytes.  Raises UsageError if they cannot lie so."""
    devices = [Device(f"disk{number}", size // _SECTOR) for number, size in enumerate(sizes)]
    targets: list[Target] = []
    for number, layer in enumerate(layers):
        below = [devices] if layer.joins else [[device] for device in devices]
        devices = []
        for place, under in enumerate(below):
            made = layer.over(f"layer{number}.{place}", under)
            if min(target.sectors for target in made) <= 0:
                raise UsageError(f"{layer.title}: the disk is too small for it")
            targets += made
            devices.append(Device(made[-1].name, made[-1].sectors))
    if len(devices) > 1:
        raise UsageError("no layer makes one device of several disks")
    modules = dict.fromkeys(name for layer in layers for name in layer.modules)
    helpers = dict.fromkeys(name for layer in layers for name in layer.helpers)
    formatted = next((layer.filesystem for layer in layers if isinstance(layer, File)), "")
    return Stack(tuple(targets), devices[0].sectors, tuple(modules), tuple(helpers), formatted)


def _whole(sectors: int) -> int:
    return sectors // _PAGE * _PAGE
