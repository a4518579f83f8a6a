# SPDX-License-Identifier: Apache-2.0
"""The settings of several disks that lose their power at one instant."""

from __future__ import annotations

import enum
from typing import Annotated, NamedTuple

from pydantic import Field, StrictBool, StrictInt, StrictStr

from powercut.model.contract import Honour
from powercut.model.machine import Aio, Bus, CacheMode
from powercut.scenario.quantity import Size
from powercut.scenario.settings_base import Settings

FIRST = "first"
"""What the disk of `disk.size` is called where there are others, and what it holds."""

DISKS_MAX = 8

STRIPE = 64 << 10
"""Bytes of a stripe (guests/uml/disks.c)."""


DISK_NAME = "^[a-z][a-z0-9-]{0,15}$"
DiskName = Annotated[StrictStr, Field(pattern=DISK_NAME)]


class Holds(enum.Enum):
    """What lies on a disk beside the first."""

    XFS_LOG = "xfs-log"
    XFS_REALTIME = "xfs-realtime"
    FOLDER = "folder"
    STRIPE = "stripe"
    LAYERS = "layers"


class AlsoDisk(Settings):
    """A disk beside the first: with a cache and flushes of its own, cut at the same instant."""

    name: DiskName
    """What reports call it; with `holds: folder` also the folder."""

    size: Annotated[Size, Field(ge=2 << 20, le=1 << 40, multiple_of=4096)]
    """Its size, in bytes or with a unit; a multiple of 4096."""

    holds: Holds
    """What lies on it: `xfs-log`, the log of the XFS on the first disk; `xfs-realtime`, the data of
    all its files (the realtime section of mkfs.xfs, with rtinherit=1); `folder`, a file system of
    its own, mounted as the folder NAME beside the program's (`DIR/../NAME`); `stripe`: the file
    system lies in stripes of 64 KiB over all disks, which have one size (as LVM has it); or
    `layers`: what `disk.layers` makes of all disks."""

    flush: Honour | None = None
    """As `disk.flush`, of this disk alone; by default what that says."""

    fua: Honour | None = None
    """As `disk.fua`, of this disk alone; by default what that says."""

    bus: Bus | None = None
    """As `machine.bus`, of this disk alone; by default what that says."""

    cache: CacheMode | None = None
    """As `machine.cache`, of this disk alone; by default what that says."""

    aio: Aio | None = None
    """As `machine.aio`, of this disk alone; by default what that says."""

    iothread: StrictBool | None = None
    """As `machine.iothread`, of this disk alone; by default what that says."""

    queues: Annotated[StrictInt, Field(ge=0, le=64)] | None = None
    """As `machine.queues`, of this disk alone; by default what that says."""

    like: Annotated[StrictStr, Field(max_length=1 << 16)] | None = None
    """As `machine.like`, of this disk alone; by default what that says."""


class DiskPart(NamedTuple):
    """One of several disks, and its bytes on the captured whole.

    `holds` is None for the first.  A `silent` one tells its clients of no flush and no FUA.
    """

    name: str
    offset: int
    size: int
    holds: Holds | None
    flush: Honour
    fua: Honour
    silent: bool = False

    @property
    def word(self) -> str:
        """What lies on it, in a word."""
        return FIRST if self.holds is None else self.holds.value
