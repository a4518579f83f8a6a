# SPDX-License-Identifier: Apache-2.0
"""Layers between the disks and the file system: a row each.

A row says what a layer is called, which parameters it has, what it promises of a flush, which
modules it takes, and its tables, as the kernel's Documentation/admin-guide/device-mapper/ has
them.  Everybody else has `Target`s: devices and their tables, from the disk up, which are made of
checked settings alone.  PID 1 of User-Mode Linux activates them for the run, and for each recovery.
"""

from __future__ import annotations

import enum
from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated, ClassVar, Final, Literal, NamedTuple

from pydantic import Field, StrictInt

from powercut.model.errors import UsageError
from powercut.scenario.choices import SMALLEST_DISK, WITHOUT_BARRIERS, FilesystemType
from powercut.scenario.quantity import format_size
from powercut.scenario.settings_base import Settings
from powercut.scenario.settings_several import DISKS_MAX

MIB: Final = 2048
"""In sectors."""

_PAGE: Final = 8  # sectors: what file systems and caches count in


class Target(NamedTuple):
    """One device, mostly of device-mapper, by its table; in that `@NAME` is the device called so.

    `made`: target and table while it is made, where that is another; `message` is what it is sent
    then, and if `wiped` it is filled with zeroes.  `after` is the table after a cut, where not all
    came back.
    """

    name: str
    sectors: int
    kind: str
    table: str
    made: str = ""
    message: str = ""
    wiped: bool = False
    after: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """As PID 1 of User-Mode Linux wants it (guests/uml/share.h)."""
        more = (("?", self.made), ("!", self.message), ("~", self.after))
        line = f"{self.name} {self.sectors} {self.kind} {self.table}"
        words = [mark + text for mark, text in more if text]
        return (line, *words, *(["0"] if self.wiped else []))


class Device(NamedTuple):
    """What a layer lies on."""

    name: str
    sectors: int


class Layer(Settings):
    """Base of the rows."""

    modules: ClassVar[tuple[str, ...]]
    """What of the kernel it takes beyond what recovery does, without what these need."""

    helpers: ClassVar[tuple[str, ...]] = ()
    """What these find by name, and a kernel may have built in."""

    joins: ClassVar[bool] = False
    """Whether it lies over all devices; the others lie over each."""

    layer: str

    @property
    def needs(self) -> tuple[str, ...]:
        """The `modules` of these settings."""
        return self.modules

    @property
    def title(self) -> str:
        """What reports call it."""
        return self.layer

    @property
    @abstractmethod
    def promise(self) -> str:
        """What it makes of a flush and of FUA, in a sentence."""

    @property
    def is_safe(self) -> bool:
        """Whether what was flushed through it, or written with FUA, is there after a power cut."""
        return True

    @abstractmethod
    def over(self, name: str, below: Sequence[Device]) -> tuple[Target, ...]:
        """Its devices over those below; the last one is `name`, on which the next layer lies.
        Raises UsageError if it cannot lie so."""


def parts_of(name: str, device: Device, **sizes: int) -> tuple[Target, ...]:
    """Devices of so many sectors one behind the other on `device`, each called by its word."""
    parts: list[Target] = []
    begin = 0
    for word, size in sizes.items():
        parts.append(Target(f"{name}.{word}", size, "linear", f"@{device.name} {begin}"))
        begin += size
    return tuple(parts)


def whole(sectors: int) -> int:
    """Those that make whole pages."""
    return sectors // _PAGE * _PAGE


# Layers that lie over several disks, of which one may not come back after the cut.

_CHUNK: Final = 8  # sectors: neighbouring pages are on different disks, and have one parity
_STRIPE: Final = 128  # sectors: 64 KiB, as LVM has it
_REGION: Final = 1024  # sectors that one bit of a bitmap stands for

Missing = Annotated[StrictInt, Field(ge=0, lt=DISKS_MAX)]


class Stripe(Layer):
    """dm-stripe over all disks."""

    modules = ()

    joins = True

    layer: Literal["stripe"]
    """Stripes of 64 KiB over all disks."""

    @property
    def promise(self) -> str:
        """Of all disks."""
        return "a flush goes to each disk"

    def over(self, name: str, below: Sequence[Device]) -> tuple[Target, ...]:
        size = min(device.sectors for device in below) // _STRIPE * _STRIPE
        places = " ".join(f"@{device.name} 0" for device in below)
        return (Target(name, size * len(below), "striped", f"{len(below)} {_STRIPE} {places}"),)


class Mirror(Layer):
    """dm-mirror over all disks, with its log of regions on the first."""

    modules = ("dm-mirror",)

    joins = True

    layer: Literal["mirror"]
    """A mirror over all disks, as LVM had it before RAID 1."""

    @property
    def promise(self) -> str:
        """Of all legs."""
        return "a write is on all disks; flushes go to each; a log on the first says what to copy"

    def over(self, name: str, below: Sequence[Device]) -> tuple[Target, ...]:
        size = whole(min(device.sectors for device in below) - MIB)
        (log,) = parts_of(name, below[0], log=MIB)
        legs = " ".join(f"@{device.name} {MIB}" for device in below)
        more = f"{len(below)} {legs} 1 handle_errors"
        made = f"mirror disk 3 @{log.name} {_REGION} nosync {more}"
        table = f"disk 2 @{log.name} {_REGION} {more}"
        return (log, Target(name, size, "mirror", table, made=made))


class _Level(NamedTuple):
    """A level of RAID: its word in a table, module, fewest disks, parities, copies of data (0: as
    many as disks)."""

    word: str
    module: str
    disks_min: int
    parity: int
    copies: int = 1


class Raid(Layer):
    """RAID of md over all disks, as LVM has it (dm-raid), with a bitmap of what is dirty."""

    modules = ("dm-raid",)

    joins = True

    levels: ClassVar = {
        "raid1": _Level("raid1", "raid1", 2, 0, copies=0),
        "raid10": _Level("raid10", "raid10", 4, 0, copies=2),
        "raid5": _Level("raid5_ls", "raid456", 3, 1),
        "raid6": _Level("raid6_zr", "raid456", 4, 2),
    }

    layer: Literal["raid1", "raid10", "raid5", "raid6"]
    """A mirror over all disks; mirrored pairs; a parity; two."""

    missing: Missing | None = None
    """The disk that does not come back after the cut (0 is the first); all do by default."""

    @property
    def needs(self) -> tuple[str, ...]:
        """With its level's."""
        return (self.levels[self.layer].module, *self.modules)

    @property
    def title(self) -> str:
        """With what is missing."""
        if self.missing is None:
            return self.layer
        return f"{self.layer} (without disk {self.missing} after the cut)"

    @property
    def promise(self) -> str:
        """Of all disks."""
        if self.layer in ("raid1", "raid10"):
            return (
                "a write is on all disks that it belongs to; flushes and FUA go to each; a dirty "
                "bitmap says what to copy"
            )
        return (
            "flushes and FUA go to each disk; parity is written beside data, and a stripe whose "
            "parity is older is computed again, if no disk is missing"
        )

    @property
    def is_safe(self) -> bool:
        """Not with parity that nothing can compute again: the write hole."""
        return self.missing is None or not self.levels[self.layer].parity

    def over(self, name: str, below: Sequence[Device]) -> tuple[Target, ...]:
        """Superblock and bitmap lie in the first 4 MiB of each disk."""
        level = self.levels[self.layer]
        self._check(level, len(below))
        size = whole(min(device.sectors for device in below) - 4 * MIB) // _CHUNK * _CHUNK
        legs = [
            leg
            for number, device in enumerate(below)
            for leg in parts_of(name, device, **{f"meta{number}": 4 * MIB, f"data{number}": size})
        ]
        pairs = [
            f"@{meta.name} @{data.name}" for meta, data in zip(legs[::2], legs[1::2], strict=True)
        ]
        words = f"{0 if self.layer == 'raid1' else _CHUNK} region_size {_REGION}"

        def table(words: str, pairs: Sequence[str]) -> str:
            return f"{level.word} {len(words.split())} {words} {len(pairs)} {' '.join(pairs)}"

        after = "" if self.missing is None else table(words, self._left(pairs))
        # Zeroes are in step, but md computes both parities of RAID 6 itself.
        made = "" if level.parity == 2 else f"raid {table(f'{words} nosync', pairs)}"
        copies = len(below) if level.copies == 0 else level.copies
        room = size * (len(below) - level.parity) // copies
        top = Target(name, room, "raid", table(words, pairs), made=made, after=after)
        return (*legs, top)

    def _check(self, level: _Level, disks: int) -> None:
        if disks < level.disks_min:
            raise UsageError(f"{self.layer} takes {level.disks_min} disks or more")
        if self.missing is not None and self.missing >= disks:
            raise UsageError(f"{self.layer}: `missing` is one of 0 to {disks - 1}")

    def _left(self, pairs: list[str]) -> list[str]:
        return ["- -" if number == self.missing else pair for number, pair in enumerate(pairs)]


LAYERS_MAX: Final = 4

_SECTOR: Final = 512
_KEY: Final = bytes(range(64)).hex()
"""Of XTS with AES-256: nothing here is secret."""

_TAG: Final = 48
"""Bytes: HMAC-SHA-256 and the sector's initial vector."""


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


class IntegrityMode(enum.Enum):
    """How data and tag come to the disk together."""

    JOURNAL = "journal"
    BITMAP = "bitmap"
    DIRECT = "direct"

    @property
    def word(self) -> str:
        """In the table."""
        return {"journal": "J", "bitmap": "B", "direct": "D"}[self.value]


_PROMISES: Final = {
    IntegrityMode.JOURNAL: "a flush commits the journal, in which data and tags are whole",
    IntegrityMode.BITMAP: "a flush writes data and tags; a cut leaves none unreadable",
    IntegrityMode.DIRECT: "a flush writes data and tags; a sector that is written while the power "
    "goes may be unreadable, with what it held before",
}


class Crypt(Layer):
    """dm-crypt without a header, with a fixed key: aes-xts-plain64, or what LUKS2 does with
    `--integrity hmac-sha256`."""

    modules = ("dm-crypt",)
    helpers = ("aes_generic", "cbc", "sha256_generic", "ecb", "xts", "hmac", "authenc")

    layer: Literal["crypt"]
    """Encryption."""

    tags: Literal["none", "journal", "direct"] = "none"
    """An authentication tag for each sector, which dm-integrity keeps: with its journal, or
    without (`--integrity-no-journal`); none by default."""

    @property
    def needs(self) -> tuple[str, ...]:
        """With its tags."""
        return self.modules if self.tags == "none" else (*self.modules, "dm-integrity")

    @property
    def title(self) -> str:
        """With its tags."""
        return self.layer if self.tags == "none" else f"crypt (tags: {self.tags})"

    @property
    def promise(self) -> str:
        """Of its own it has none; its tags have."""
        if self.tags == "none":
            return "a write is encrypted on its way; flushes and FUA are passed on"
        return "of its tags: " + _PROMISES[IntegrityMode(self.tags)]

    @property
    def is_safe(self) -> bool:
        """As its tags."""
        return self.tags != "direct"

    def over(self, name: str, below: Sequence[Device]) -> tuple[Target, ...]:
        """As large as what it lies on, or what its tags leave: 48 bytes of 560, generously."""
        (device,) = below
        if self.tags == "none":
            table = f"aes-xts-plain64 {_KEY} 0 @{device.name} 0"
            return (Target(name, device.sectors, "crypt", table),)
        size = whole(device.sectors - device.sectors // 8 - 2 * MIB)
        word = IntegrityMode(self.tags).word
        tags = Target(
            f"{name}.tags", size, "integrity", f"@{device.name} 0 {_TAG} {word} 1 fix_padding"
        )
        cipher = f"capi:authenc(hmac(sha256),xts(aes))-random {_KEY}{_KEY[:64]}"
        table = f"{cipher} 0 @{tags.name} 0 1 integrity:{_TAG}:aead"
        return (tags, Target(name, size, "crypt", table, wiped=True))


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
        return _PROMISES[self.mode]

    @property
    def is_safe(self) -> bool:
        """Only what is written twice, or not believed, is."""
        return self.mode is not IntegrityMode.DIRECT

    def over(self, name: str, below: Sequence[Device]) -> tuple[Target, ...]:
        """The kernel formats what begins with zeroes.  A sector that was never written cannot be
        read, so all are, as integritysetup does.  Room for tags (1/128), journal and superblock,
        generously."""
        (device,) = below
        room = device.sectors // 32 + 2 * MIB
        table = f"@{device.name} 0 - {self.mode.word} 1 internal_hash:crc32c"
        return (Target(name, whole(device.sectors - room), "integrity", table, wiped=True),)


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
        (device,) = below
        size = device.sectors - MIB
        return (Target(name, size, "linear", f"@{device.name} {MIB}"),)


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
        size = whole(device.sectors - device.sectors // 8)
        origin, cache = parts_of(name, device, origin=size, cache=whole(device.sectors - size))
        table = f"s @{origin.name} @{cache.name} {_SECTOR} 0"
        return (origin, cache, Target(name, size, "writecache", table))


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
        size = whole(device.sectors - 4 * MIB) // 128 * 128
        meta, data = parts_of(name, device, meta=4 * MIB, data=size)
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
        (device,) = below
        size = whole(device.sectors * 3 // 4)
        cache = whole(device.sectors - size - 4 * MIB) // 128 * 128
        parts = parts_of(name, device, meta=4 * MIB, fast=cache, slow=size)
        names = " ".join(f"@{part.name}" for part in parts)
        return (*parts, Target(name, size, "cache", f"{names} 128 1 {self.mode} smq 0"))


class Snapshot(Layer):
    """A persistent snapshot (dm-snapshot): the volume on the disk, its exceptions on the last
    quarter."""

    modules = ("dm-snapshot",)

    layer: Literal["snapshot"]
    """A volume with a snapshot."""

    side: Literal["snapshot", "origin"] = "snapshot"
    """On which of the two the file system lies: `snapshot`, whose writes go to exceptions, or
    `origin`, before whose writes what was there is copied."""

    @property
    def title(self) -> str:
        """With its side."""
        return f"snapshot ({self.side})"

    @property
    def promise(self) -> str:
        """Of its exceptions."""
        return "a write to a chunk is done after its exception was committed with a flush and FUA"

    def over(self, name: str, below: Sequence[Device]) -> tuple[Target, ...]:
        """What is made is the origin; the snapshot is taken when the power comes on."""
        (device,) = below
        size = whole(device.sectors * 3 // 4)
        origin, store = parts_of(name, device, volume=size, store=whole(device.sectors - size))
        table = f"@{origin.name} @{store.name} P 8"
        made = f"linear @{origin.name} 0"
        if self.side == "snapshot":
            return (origin, store, Target(name, size, "snapshot", table, made=made))
        copy = Target(f"{name}.copy", size, "snapshot", table, made=made)
        top = Target(name, size, "snapshot-origin", f"@{origin.name}", made=made)
        return (origin, store, copy, top)


class Era(Layer):
    """dm-era: which blocks were written since when, on the first 4 MiB."""

    modules = ("dm-era",)

    layer: Literal["era"]
    """A list of what was written since a backup."""

    @property
    def promise(self) -> str:
        """Of its list, too."""
        return "the first write to a block in an era waits until the list names it"

    def over(self, name: str, below: Sequence[Device]) -> tuple[Target, ...]:
        (device,) = below
        size = whole(device.sectors - 4 * MIB)
        meta, data = parts_of(name, device, meta=4 * MIB, data=size)
        return (meta, data, Target(name, size, "era", f"@{meta.name} @{data.name} 128"))


class Clone(Layer):
    """dm-clone: the file system as it was made lies on one half, what is written on the other."""

    modules = ("dm-clone",)

    layer: Literal["clone"]
    """A copy of a volume that can be used before it is complete."""

    @property
    def promise(self) -> str:
        """Of its list, too."""
        return "a flush flushes the copy, and then commits which regions it has"

    def over(self, name: str, below: Sequence[Device]) -> tuple[Target, ...]:
        """Regions of 64 KiB are copied as they are written, and no others."""
        (device,) = below
        size = whole((device.sectors - 4 * MIB) // 2) // 128 * 128
        parts = parts_of(name, device, meta=4 * MIB, copy=size, source=size)
        names = " ".join(f"@{part.name}" for part in parts)
        made = f"linear @{parts[-1].name} 0"
        table = f"{names} 128 1 no_hydration"
        return (*parts, Target(name, size, "clone", table, made=made))


# A host below the disk: the file system on it, and in that the image which is the guest's disk.

MountOption = Annotated[str, Field(pattern=r"^[a-z0-9_]+(=[a-z0-9_]+)?$", max_length=40)]
"""A word of mount(8)'s."""


class File(Layer):
    """A disk image in a file system; the loop driver is its hypervisor."""

    modules = ()

    layer: Literal["file"]
    """A host's file system, and a disk image in it."""

    filesystem: Literal["ext4", "xfs", "btrfs"]
    """The host's."""

    mount: Annotated[tuple[MountOption, ...], Field(max_length=5)] = ()
    """Its mount options, one a list entry."""

    preallocation: Literal["off", "falloc", "full"] = "off"
    """`off`: the image is sparse, and takes room as it is written; `falloc`: its room is reserved;
    `full`: it is written."""

    cache: Literal["none", "writeback", "unsafe"] = "writeback"
    """`none`: past the host's page cache; `writeback`: through it; `unsafe`: likewise, and flushes
    are dropped."""

    @property
    def title(self) -> str:
        """With all that makes it what it is."""
        words = [self.preallocation, *self.mount]
        return f"image on {self.filesystem} ({self.cache}, {', '.join(words)})"

    @property
    def promise(self) -> str:
        """By its cache."""
        if self.drops_flushes:
            return "a flush does nothing: the image is in the host's page cache"
        if self.is_without_barriers:
            return "a flush is an fsync of the image, which sends no flush"
        return "a flush is an fsync of the image; the host's power goes with its page cache"

    @property
    def is_safe(self) -> bool:
        """Unless flushes are dropped somewhere."""
        return not self.drops_flushes and not self.is_without_barriers

    @property
    def drops_flushes(self) -> bool:
        """Whether the hypervisor does."""
        return self.cache == "unsafe"

    @property
    def is_without_barriers(self) -> bool:
        """Whether the host's file system does."""
        return not WITHOUT_BARRIERS.isdisjoint(self.mount)

    def over(self, name: str, below: Sequence[Device]) -> tuple[Target, ...]:
        """Half of the disk: the other half is the host's, and room for copies on btrfs."""
        (device,) = below
        if device.name != "disk0":
            raise UsageError("a host's file system lies on the one disk itself: `file` comes first")
        smallest = SMALLEST_DISK[FilesystemType(self.filesystem)]
        if device.sectors * _SECTOR < smallest:
            raise UsageError(f"{self.filesystem} below needs {format_size(smallest)}")
        size = device.sectors // 2 // MIB * MIB
        words = (f"@{device.name}", self.filesystem, self.preallocation, self.cache)
        table = " ".join((*words, ",".join(self.mount))).rstrip()
        return (Target(name, size, "file", table),)


AnyLayer = Annotated[
    Crypt
    | Integrity
    | Linear
    | Snapshot
    | Thin
    | Cache
    | Writecache
    | Era
    | Clone
    | Stripe
    | Mirror
    | Raid
    | File,
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
    modules = dict.fromkeys(name for layer in layers for name in layer.needs)
    helpers = dict.fromkeys(name for layer in layers for name in layer.helpers)
    formatted = next((layer.filesystem for layer in layers if isinstance(layer, File)), "")
    return Stack(tuple(targets), devices[0].sectors, tuple(modules), tuple(helpers), formatted)
