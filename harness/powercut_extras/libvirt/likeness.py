# SPDX-License-Identifier: Apache-2.0
"""How machines are made that are like somebody's: a domain of libvirt's by its name, or a machine
by the definition that libvirt, oVirt, KubeVirt or Proxmox VE has of it.
"""

from __future__ import annotations

import difflib

from powercut.model.errors import HostError, UsageError
from powercut.scenario.likeness import Likeness
from powercut_extras.libvirt.connection import (
    connect as connect_to,
)
from powercut_extras.libvirt.connection import libvirt_module, require_may_start, usual_uri
from powercut_extras.libvirt.definition import read_likeness
from powercut_extras.libvirt.kubevirt import is_kubevirt, read_kubevirt
from powercut_extras.libvirt.ovirt import is_ovf, read_ovirt
from powercut_extras.libvirt.proxmox import read_proxmox
from powercut_extras.libvirt.without import without_libvirt


def likeness(name: str | None, definition: str | None, connect: str | None) -> Likeness:
    """What this extra registers (powercut.scenario.likeness): a definition needs no libvirt."""
    if definition is not None:
        return _made_here(likeness_of(definition, connect))
    assert name is not None
    return _of_domain(name, connect)


def likeness_of(definition: str, connect: str | None) -> Likeness:
    """Of a domain's XML, or of a machine of oVirt, KubeVirt or Proxmox VE."""
    if definition.lstrip().startswith("<"):
        read = read_ovirt if is_ovf(definition) else read_likeness
        return read(definition, connect)
    if is_kubevirt(definition):
        return read_kubevirt(definition, connect)
    return read_proxmox(definition, connect)


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
    return read_likeness(text, connect)


def _made_here(found: Likeness) -> Likeness:
    """As QEMU has it where there is no libvirt, or none that may start a domain."""
    if any(disk.settings.get("connect") for disk in found.disks):
        return found  # a connection that was named is to be used
    try:
        require_may_start(usual_uri())
    except HostError as error:
        return without_libvirt(found, str(error))
    return found
