# SPDX-License-Identifier: Apache-2.0
"""Layers that lie over several disks, of which one may not come back after the cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Final, Literal, NamedTuple

from pydantic import Field, StrictInt

from powercut.model.errors import UsageError
from powercut.scenario.layers_base import MIB, Device, Layer, Target, parts_of, whole
from powercut.scenario.settings_several import DISKS_MAX

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
        """As much of each as the smallest has."""
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
        """The log lies in the first MiB."""
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
