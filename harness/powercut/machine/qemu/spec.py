# SPDX-License-Identifier: Apache-2.0
"""A machine in QEMU's own terms."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from powercut.machine.port import GuestImage, ImageLayer, ServedDisk
from powercut.machine.qemu.build import QemuBuild
from powercut.model.machine import (
    USUAL_QUEUEING,
    Accelerator,
    Bus,
    CacheMode,
    Export,
    HostCache,
    Queueing,
    Start,
)


@dataclass(frozen=True)
class BesideDisk:
    """One of several disks under test, but for the first; `size` in bytes."""

    disk: ServedDisk
    size: int
    cache: HostCache
    bus: Bus
    serial: str
    queueing: Queueing = USUAL_QUEUEING


@dataclass(frozen=True)
class QemuSpec:
    """One virtual machine in QEMU's terms; the argv follows from it and nothing else.

    `qemu` is None for the host's; `layer` is None if the guest sees the bytes of `disk` themselves.
    `serial` is empty but for the first of several disks.
    """

    guest: GuestImage
    disk: ServedDisk
    channel: Path  # a unix socket on which the controller listens; QEMU connects
    qmp: Path  # the same for QMP
    cache: HostCache = CacheMode.NONE
    bus: Bus = Bus.VIRTIO_BLK
    accelerator: Accelerator = Accelerator.TCG
    memory_mib: int = 128
    cpus: int = 1
    kernel_arguments: tuple[str, ...] = field(default=())
    layer: ImageLayer | None = None
    start: Start = Start.AUTO
    qemu: QemuBuild | None = None
    root: Path | None = None  # a root file system; a port for lines comes with it
    program: Path | None = None  # the folder of a program in that root
    config_wce: bool | None = None  # of virtio-blk; None: as QEMU has it, which is on
    queueing: Queueing = USUAL_QUEUEING
    hotplug: bool = False  # the guest boots without the disk
    export: Export = Export.NONE  # what serves `disk` to QEMU
    daemon: Path | None = None  # qemu-storage-daemon, which does; None: by its name
    cache_after_move: HostCache | None = None  # in the next QEMU; None: as in this one
    qemu_after_move: QemuBuild | None = None  # the next QEMU; None: this one again
    board: str = "pc"
    serial: str = ""
    beside: tuple[BesideDisk, ...] = ()

    @property
    def buses(self) -> tuple[Bus, ...]:
        """The bus of each disk under test."""
        return (self.bus, *(one.bus for one in self.beside))


@dataclass(frozen=True)
class QemuOptions:
    """What of a machine's settings concerns QEMU alone.

    `version` is a QEMU by the name that a scenario gives it; `config_wce` is virtio-blk's;
    `export` is what serves the disk under test; `cache_after_move` is that of another QEMU, to
    which the guest may move, and `qemu_after_move` which one that is.
    """

    version: str
    config_wce: bool | None = None
    export: Export = Export.NONE
    cache_after_move: HostCache | None = None
    qemu_after_move: str | None = None
