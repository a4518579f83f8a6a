# SPDX-License-Identifier: Apache-2.0
"""What QEMU opens on the host."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from powercut.machine.port import FileDisk
from powercut.machine.qemu.argv import TemplateRam
from powercut.machine.qemu.spec import QemuSpec
from powercut.model.machine import Accelerator
from powercut.sandbox.users import HostView

KVM: Final = Path("/dev/kvm")
_OTHERS: Final = Path("/proc")


def host_view(
    spec: QemuSpec,
    qemu: Path,
    directory: Path,
    ram: TemplateRam | None = None,
    *,
    has_disks: bool = True,
) -> HostView | None:
    """The view of a QEMU that prints into `directory`, with all that it is told of later.

    A template's has no disks under test.  None if one of its disks is a file that FUSE serves,
    which shows it to its own user alone.
    """
    disks = [spec.disk, *(one.disk for one in spec.beside)] if has_disks else []
    files = {disk.path for disk in disks if isinstance(disk, FileDisk)}
    if any(file.is_relative_to(_OTHERS) for file in files):
        return None
    sockets = {disk.socket for disk in disks if not isinstance(disk, FileDisk)}
    fills = {directory, spec.channel.parent, spec.qmp.parent, *files}
    fills |= {ram.path.parent} if ram else set()
    backing = spec.layer.backing if spec.layer else None
    reads = {spec.guest.kernel, spec.guest.initramfs, spec.root, spec.program, backing, qemu}
    return HostView(
        fills,
        {path for path in reads if path is not None} | sockets,
        device=KVM if spec.accelerator is Accelerator.KVM else None,
        program=qemu,
        rings=True,  # io_uring's are under test
    )
