# SPDX-License-Identifier: Apache-2.0
"""How machines are made that are like somebody's: a domain of libvirt's by its name, or a machine
by the definition that libvirt, oVirt, KubeVirt or Proxmox VE has of it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from typing import Final

from powercut.model.errors import HostError, UsageError
from powercut.model.machine import Bus
from powercut.scenario.likeness import Likeness
from powercut_extras.libvirt.connection import (
    connect as connect_to,
)
from powercut_extras.libvirt.connection import libvirt_module, require_may_start, usual_uri
from powercut_extras.libvirt.definition import read_likeness
from powercut_extras.libvirt.kubevirt import is_kubevirt, read_kubevirt
from powercut_extras.libvirt.ovirt import is_ovf, read_ovirt
from powercut_extras.libvirt.proxmox import is_proxmox, read_proxmox
from powercut_extras.libvirt.qemu_line import is_qemu_line, read_qemu_line
from powercut_extras.libvirt.without import without_libvirt


def likeness(name: str | None, definition: str | None, connect: str | None) -> Likeness:
    """What this extra registers (powercut.scenario.likeness): a definition needs no libvirt."""
    if definition is not None:
        return _made_here(likeness_of(definition, connect))
    assert name is not None
    return _of_domain(name, connect)


def likeness_of(definition: str, connect: str | None) -> Likeness:
    """Of a domain's XML, of a machine of oVirt, KubeVirt or Proxmox VE, or of a command line of
    QEMU's.  Raises UsageError for what is none of these."""
    try:
        return _reader_of(definition)(definition, connect)
    except RecursionError:
        raise UsageError("this definition of a machine is nested too deeply") from None


def _reader_of(definition: str) -> Callable[[str, str | None], Likeness]:
    if definition.lstrip().startswith("<"):
        return read_ovirt if is_ovf(definition) else read_likeness
    if is_kubevirt(definition):
        return read_kubevirt
    if (near := next((one for one in _NEAR if re.search(one[0], definition)), None)) is not None:
        raise UsageError(f"this is {near[1]}, which is not read: {_READ}", hint=near[2])
    if is_qemu_line(definition):
        return read_qemu_line
    if is_proxmox(definition):
        return read_proxmox
    raise UsageError(f"this is no definition of a machine that is read: {_READ}")


_READ: Final = (
    "a domain's XML (virsh dumpxml), a machine of Proxmox VE (qm config), of KubeVirt (kubectl get "
    "vmi NAME -o yaml) or of oVirt (OVF), a command line of QEMU's (ps), a file for -readconfig"
)
_NEAR: Final = (
    (
        r"(?m)^type: virtual-machine$|^\s+io\.cache:",
        "a machine of LXD's or Incus's",
        "its io.cache is `machine.cache` of a scenario: none, writeback or unsafe",
    ),
    (
        r"Vagrant\.configure",
        "a Vagrantfile",
        "virsh dumpxml of the domain that it makes; near it is --preset vagrant-libvirt",
    ),
    (
        r"\bvirt-install\b",
        "a command line of virt-install's",
        "virt-install --print-xml has the domain's XML; near it is --preset virt-install",
    ),
    (
        r"\bVBoxManage\b|<VirtualBox\b",
        "VirtualBox's",
        "near it is --preset virtualbox-ide or virtualbox-sata",
    ),
    (r"\bvirtualHW\.version\b|^scsi0:0\.fileName", "VMware's", "near it is --preset vmware-esx"),
)
"""What looks like a definition of others: how it is told, what it is, what to do instead."""


def _of_domain(name: str, connect: str | None) -> Likeness:
    """Of a domain, running or not."""
    connection = connect_to(connect or usual_uri())
    libvirt = libvirt_module()
    try:
        domain = connection.lookupByName(name)
        text = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    except libvirt.libvirtError as error:
        there = [one.name() for one in connection.listAllDomains()]
        near = difflib.get_close_matches(name, there, 3)
        raise UsageError(
            f"no domain {name!r} at {connect or usual_uri()}: {error}",
            hint=f"did you mean {', '.join(near)}?" if near else "`virsh list --all`",
        ) from None
    return _made_here(read_likeness(text, connect), named=True)


def _made_here(found: Likeness, *, named: bool = False) -> Likeness:
    """As QEMU has it where there is no libvirt, or none that may start a domain, or for a disk that
    this one has no word for."""
    if any(disk.settings["bus"] == Bus.NVME.value for disk in found.disks):
        return without_libvirt(found, "libvirt makes no NVMe disk here")
    if named or any(disk.settings.get("connect") for disk in found.disks):
        return found  # a connection that was named is to be used
    try:
        require_may_start(usual_uri())
    except HostError as error:
        return without_libvirt(found, str(error))
    return found
