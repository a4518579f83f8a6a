# SPDX-License-Identifier: Apache-2.0
"""The port to a machine: something that boots a guest and can be killed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from powercut.machine.qemu.build import QemuBuild
from powercut.model.machine import (
    Accelerator,
    Aio,
    Bus,
    CacheFlags,
    CacheMode,
    HostCache,
    ImageFormat,
    Start,
)

__all__ = [
    "Accelerator",
    "Aio",
    "Bus",
    "CacheFlags",
    "CacheMode",
    "FileDisk",
    "GuestImage",
    "HostCache",
    "ImageFormat",
    "ImageLayer",
    "Machine",
    "MachineSpec",
    "NbdDisk",
    "NbdFile",
    "QemuBuild",
    "Start",
]


@dataclass(frozen=True)
class NbdDisk:
    """A disk served by NBD on a unix socket."""

    socket: Path


@dataclass(frozen=True)
class FileDisk:
    """An image file that QEMU opens itself, with the system calls of `aio` (not NBD), or maps,
    if the bus wants memory.  `size` in bytes; None: to be found out."""

    path: Path
    aio: Aio = Aio.THREADS
    size: int | None = None


@dataclass(frozen=True)
class NbdFile:
    """A disk of `size` bytes, served by NBD on a unix socket, which QEMU opens as a file with
    the system calls of `aio`, or maps, if the bus wants memory."""

    socket: Path
    size: int
    aio: Aio = Aio.THREADS


@dataclass(frozen=True)
class ImageLayer:
    """A format between the machine's disk and what the guest sees, which has `size` bytes."""

    format: ImageFormat
    size: int


@dataclass(frozen=True)
class GuestImage:
    """A small guest: kernel, initramfs with the agent as PID 1, and what they are.

    `digest` changes whenever any of its bytes does; `package` names the kernel's package and
    its version, and is empty if there was none.
    """

    kernel: Path
    initramfs: Path
    kernel_release: str
    digest: str
    package: str = ""


@dataclass(frozen=True)
class MachineSpec:
    """One virtual machine, completely described; the argv follows from it and nothing else.

    `qemu` is None for the host's; `layer` is None if the guest sees the bytes of `disk` themselves.
    """

    guest: GuestImage
    disk: NbdDisk | FileDisk | NbdFile
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
    config_wce: bool | None = None  # of virtio-blk; None: as QEMU has it, which is on


class Machine(Protocol):
    """A machine, on or off.  It is a context manager; leaving the context kills it."""

    def start(self, *, timeout_s: float) -> None:
        """Powers on: returns once the guest runs (it may not have said hello yet)."""

    def crash(self, *, timeout_s: float) -> None:
        """Takes the guest's RAM away; the hypervisor ends in its usual order."""

    def kill(self, *, timeout_s: float) -> None:
        """Takes the hypervisor away (SIGKILL) and returns once it is gone; idempotent.

        The host lives on: what its page cache holds for the disk gets there.
        """

    def lose_power(self, *, timeout_s: float) -> None:
        """Takes hypervisor and host away at one instant; idempotent.

        What the host's page cache holds for the disk never gets there, and nothing that the
        guest says afterwards is heard.
        """

    @property
    def running(self) -> bool:
        """Whether the hypervisor process is there."""

    @property
    def diagnosis(self) -> str:
        """For a person: command line, exit status, the end of its output."""
