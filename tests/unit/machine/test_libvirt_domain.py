# SPDX-License-Identifier: Apache-2.0
"""A domain's XML, and what libvirt is not asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from uuid import UUID
from xml.etree import ElementTree as ET

import pytest

from powercut.machine.guest_image import GuestImage
from powercut.machine.libvirt.backend import LibvirtBackend
from powercut.machine.libvirt.connection import connect
from powercut.machine.libvirt.domain import BUSES, DomainSpec, cache_name, domain_xml
from powercut.machine.port import (
    Attachment,
    FileDisk,
    ImageLayer,
    MachineSpec,
    NbdDisk,
    Role,
)
from powercut.model.errors import HostError
from powercut.model.machine import Accelerator, Aio, Bus, CacheFlags, CacheMode, ImageFormat
from powercut.scenario.settings import MachineSettings

OWN = DomainSpec(
    name="powercut-1",
    uuid=UUID(int=1),
    emulator=Path("/usr/bin/qemu"),
    guest=GuestImage(Path("/g/kernel"), Path("/g/initramfs"), "6.1", "0" * 32),
    accelerator=Accelerator.TCG,
)
NBD = Attachment(Role.UNDER_TEST, NbdDisk(Path("/run/nbd")))


def made(disk: Attachment = NBD, own: DomainSpec = OWN) -> ET.Element:
    text = domain_xml(MachineSpec((disk,)), disk, own, Path("/run/it"))
    return ET.fromstring(text)


def test_the_disk_is_ours_and_the_channel_is_ours():
    domain = made()
    assert domain.get("type") == "qemu"
    (disk,) = domain.findall("devices/disk")
    assert disk.find("source").attrib == {"protocol": "nbd"}
    assert disk.find("source/host").attrib == {"transport": "unix", "socket": "/run/nbd"}
    (source,) = domain.findall("devices/channel/source")
    assert source.attrib == {"mode": "connect", "path": "/run/it/ctl"}
    assert domain.find("os/cmdline").text.split()[-1] == "powercut.disk=vda"


@pytest.mark.parametrize("mode", CacheMode)
def test_a_cache_mode_is_libvirts_word_for_it(mode):
    driver = made(replace(NBD, cache=mode)).find("devices/disk/driver")
    assert (driver.get("cache"), driver.get("type")) == (mode.value, "raw")
    parts = CacheFlags(mode.write_cache, mode.direct, mode.no_flush)
    assert cache_name(parts) is mode


def test_parts_of_cache_modes_that_no_mode_has_are_refused():
    assert cache_name(CacheFlags(write_cache=False, direct=True, no_flush=True)) is None


@pytest.mark.parametrize("bus", BUSES)
def test_each_bus_has_its_word_and_its_controller(bus):
    domain = made(replace(NBD, bus=bus))
    assert domain.find("devices/disk/target").get("bus") == BUSES[bus][0]
    kinds = [element.get("type") for element in domain.findall("devices/controller")]
    assert (BUSES[bus][0] in kinds) == (bus not in (Bus.VIRTIO_BLK, Bus.IDE))


def test_a_file_says_with_which_calls_and_a_format_has_no_backing_file():
    layer = ImageLayer(ImageFormat.QCOW2, 1 << 20)
    file = FileDisk(Path("/run/file"), Aio.NATIVE)
    disk = made(replace(NBD, disk=file, layer=layer)).find("devices/disk")
    assert (disk.get("type"), disk.find("source").get("file")) == ("file", "/run/file")
    assert (disk.find("driver").get("io"), disk.find("driver").get("type")) == ("native", "qcow2")
    assert disk.find("backingStore").attrib == {}


def test_qemu_runs_as_who_owns_the_sockets():
    domain = made(own=replace(OWN, owner=(1000, 100), unlabelled=("apparmor",)))
    label, none = domain.findall("seclabel")
    assert (label.get("model"), label.find("label").text) == ("dac", "+1000:+100")
    assert none.attrib == {"type": "none", "model": "apparmor"}


def test_a_name_with_markup_stays_text():
    domain = made(own=replace(OWN, name="a</name><b>"))
    assert domain.find("name").text == "a</name><b>"


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("qemu+ssh://elsewhere/system", "another host"),
        ("qemu+tls:///system", "another host"),
        ("xen:///system", "no other hypervisor"),
        ("qemu+unix:///system?socket=/nonexistent/socket", "No such file"),
    ],
)
def test_a_connection_that_serves_nothing_says_why(uri, why):
    pytest.importorskip("libvirt")
    with pytest.raises(HostError, match=why):
        connect(uri)


def test_all_that_libvirt_cannot_express_is_told_at_once(tmp_path):
    settings = MachineSettings.model_validate(
        {
            "backend": "libvirt",
            "connect": "xen:///",
            "bus": "nvme",
            "config_wce": "off",
            "start": "restored",
            "qemu": "sid",
            "no_flush": "on",
            "direct": "on",
        }
    )
    problems = LibvirtBackend(tmp_path).problems(settings)
    for key in ("machine.bus", "machine.cache", "machine.config_wce", "machine.start"):
        assert sum(problem.startswith(key) for problem in problems) == 1
    assert any("no other hypervisor" in problem for problem in problems)
