# SPDX-License-Identifier: Apache-2.0
"""A host below the disk: the file system on it, and in that the image which is the guest's disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal

from pydantic import Field

from powercut.model.errors import UsageError
from powercut.scenario.choices import SMALLEST_DISK, WITHOUT_BARRIERS, FilesystemType
from powercut.scenario.layers_base import MIB, Device, Layer, Target
from powercut.scenario.quantity import format_size

_SECTOR: Final = 512

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
