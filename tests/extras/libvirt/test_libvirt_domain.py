# SPDX-License-Identifier: Apache-2.0
"""A domain's XML, and what libvirt is not asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from uuid import UUID
from xml.etree import ElementTree as ET

import pytest

from powercut.machine.port import (
    Attachment,
    FileDisk,
    GuestImage,
    ImageLayer,
    MachineSpec,
    NbdDisk,
    Role,
)
from powercut.model.errors import HostError
from powercut.model.machine import (
    Accelerator,
    Aio,
    Bus,
    CacheFlags,
    CacheMode,
    ImageFormat,
    Queueing,
)
from powercut.scenario.settings import MachineSettings
from powercut_extras.libvirt.backend import LibvirtBackend
from powercut_extras.libvirt.connection import connect
from powercut_extras.libvirt.definition import read_kept
from powercut_extras.libvirt.domain import BUSES, DomainSpec, cache_name, domain_xml

OWN = DomainSpec(
    name="powercut-1",
    uuid=UUID(int=1),
    emulator=Path("/usr/bin/qemu"),
    guest=GuestImage(Path("/g/kernel"), Path("/g/initramfs"), "6.1", "0" * 32),
    accelerator=Accelerator.TCG,
)
NBD = Attachment(Role.UNDER_TEST, NbdDisk(Path("/run/nbd")))


def test_several_disks_are_exports_by_name_and_keep_what_each_has() -> None:
    def disk(name: str, bus: Bus, mode: CacheMode) -> Attachment:
        return Attachment(
            Role.UNDER_TEST, NbdDisk(Path("/run/nbd"), name), bus, mode, serial=name, size=1 << 20
        )

    disks = (
        disk("vda", Bus.VIRTIO_BLK, CacheMode.NONE),
        disk("sdb", Bus.VIRTIO_SCSI, CacheMode.UNSAFE),
        disk("sdc", Bus.VIRTIO_SCSI, CacheMode.WRITEBACK),
    )
    texts = [
        f"<domain><os><type machine='q35'>hvm</type></os><devices><disk>{driver}</disk>"
        "<controller type='scsi' index='0' model='virtio-scsi'><driver queues='2'/></controller>"
        "</devices></domain>"
        for driver in ("<driver queues='3'/>", "<driver discard='unmap'/>", "<driver/>")
    ]
    likes = [read_kept(text) for text in texts]
    text = domain_xml(MachineSpec(disks), disks, OWN, Path("/run/it"), likes)
    domain = ET.fromstring(text)
    made = domain.findall("devices/disk")
    assert [one.find("source").get("name") for one in made] == ["vda", "sdb", "sdc"]
    assert [one.findtext("serial") for one in made] == ["vda", "sdb", "sdc"]
    assert [one.find("target").attrib for one in made] == [
        {"dev": "vda", "bus": "virtio"},
        {"dev": "sda", "bus": "scsi"},
        {"dev": "sdb", "bus": "scsi"},
    ]
    drivers = [one.find("driver") for one in made]
    assert [one.get("cache") for one in drivers] == ["none", "unsafe", "writeback"]
    assert [one.get("queues") for one in drivers] == ["3", None, None]
    assert [one.get("discard") for one in drivers] == [None, "unmap", None]
    kinds = [element.get("type") for element in domain.findall("devices/controller")]
    assert kinds.count("scsi") == 1


def test_threads_and_queues_are_of_a_virtio_disk_or_of_its_controller() -> None:
    def disk(name: str, bus: Bus, queueing: Queueing) -> Attachment:
        served = NbdDisk(Path("/run/nbd"), name)
        return Attachment(Role.UNDER_TEST, served, bus, serial=name, size=1, queueing=queueing)

    both = Queueing(iothread=True, queues=2)
    disks = (
        disk("a", Bus.VIRTIO_BLK, both),
        disk("b", Bus.VIRTIO_SCSI, both),
        disk("c", Bus.VIRTIO_SCSI, both),
        disk("d", Bus.VIRTIO_BLK, Queueing(queues=3)),
    )
    text = domain_xml(MachineSpec(disks), disks, OWN, Path("/run/it"), [None] * len(disks))
    domain = ET.fromstring(text)
    assert domain.findtext("iothreads") == "2"
    drivers = [one.find("driver") for one in domain.findall("devices/disk")]
    said = [(one.get("iothread"), one.get("queues")) for one in drivers]
    assert said == [("1", "2"), (None, None), (None, None), (None, "3")]
    (controller,) = domain.findall("devices/controller[@type='scsi']")
    assert controller.find("driver").attrib == {"iothread": "2", "queues": "2"}
    assert made().find("iothreads") is None


def test_a_guest_with_several_processors_has_acpi() -> None:
    text = domain_xml(MachineSpec((NBD,), cpus=2), [NBD], OWN, Path("/run/it"))
    domain = ET.fromstring(text)
    assert domain.find("features/acpi") is not None
    assert "acpi=off" not in domain.findtext("os/cmdline").split()
    assert made().find("features/acpi") is None


def made(disk: Attachment = NBD, own: DomainSpec = OWN) -> ET.Element:
    text = domain_xml(MachineSpec((disk,)), [disk], own, Path("/run/it"))
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
    pytest.importorskip("libvirt")
    assert any("no other hypervisor" in problem for problem in problems)
