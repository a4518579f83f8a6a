# SPDX-License-Identifier: Apache-2.0
"""Somebody's domain: what of it is kept, and what never is."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from powercut.model.errors import HostError, UsageError
from powercut.model.machine import Aio, Bus, CacheMode, ImageFormat
from powercut.scenario.load import expand, parse_scenario
from powercut.scenario.place import machines_of_disks
from powercut.scenario.refusal import refusals
from powercut_extras.certify.likeness import _names, likeness_here, scenario_like, why_apart
from powercut_extras.libvirt.definition import read_kept, read_likeness
from powercut_extras.libvirt.without import without_libvirt

DOMAIN = """
<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>Shop DB</name><vcpu>2</vcpu><iothreads>1</iothreads>
  <os firmware='efi'><type arch='x86_64' machine='pc-q35-7.2'>hvm</type></os>
  <features><acpi/><apic/><smm state='on'/></features>
  <cpu mode='host-passthrough'/>
  <devices>
    <emulator>/opt/qemu/bin/qemu-system-x86_64</emulator>
    <disk type='file' device='disk'>
      <driver name='qemu' type='qcow2' discard='unmap' iothread='1' queues='2'/>
      <source file='/var/lib/images/shop.qcow2'/><target dev='vda' bus='virtio'/>
      <blockio logical_block_size='512' physical_block_size='4096'/>
    </disk>
    <disk type='block' device='disk'>
      <driver name='qemu' type='raw' cache='none' io='native'/>
      <source dev='/dev/vg/data'/><target dev='sda' bus='scsi'/>
      <address type='drive' controller='1' bus='0' target='0' unit='0'/>
    </disk>
    <disk type='block' device='lun'><source dev='/dev/sdq'/><target dev='sdb' bus='scsi'/></disk>
    <disk type='file' device='cdrom'><target dev='sdc' bus='sata'/></disk>
    <controller type='scsi' index='0' model='lsilogic'/>
    <controller type='scsi' index='1' model='virtio-scsi'><driver queues='2'/></controller>
    <graphics type='vnc' passwd='secret'/>
    <hostdev mode='subsystem' type='pci'/>
  </devices>
  <qemu:commandline><qemu:arg value='-S'/></qemu:commandline>
</domain>
"""


WHOLE = DOMAIN.replace(
    "<disk type='block' device='lun'><source dev='/dev/sdq'/><target dev='sdb' bus='scsi'/></disk>",
    "",
)
"""Without the disk that cannot be made."""


def test_each_disk_becomes_the_settings_of_a_machine():
    likeness = read_likeness(DOMAIN, "qemu:///system")
    assert (likeness.machine, [disk.name for disk in likeness.disks]) == ("Shop DB", ["vda", "sda"])
    first, second = ({**disk.settings} for disk in likeness.disks)
    like = read_kept(str(first.pop("like")))
    assert first == {
        "backend": "libvirt",
        "connect": "qemu:///system",
        "bus": "virtio-blk",
        "cache": "writeback",
        "aio": "threads",
        "format": "qcow2",
        "grows": True,
        "cpus": 2,
        "qemu": "/opt/qemu/bin/qemu-system-x86_64",
    }
    assert (like.machine, like.features, like.iothreads) == ("pc-q35-7.2", ("acpi", "apic"), "1")
    assert like.disk.find("driver").attrib == {"discard": "unmap", "iothread": "1", "queues": "2"}
    assert like.disk.find("blockio").get("physical_block_size") == "4096"
    assert (second["bus"], second["cache"], second["aio"]) == ("virtio-scsi", "none", "native")
    (controller,) = read_kept(str(second["like"])).controllers
    assert (controller.get("model"), controller.find("driver").get("queues")) == (
        "virtio-scsi",
        "2",
    )


def test_without_libvirt_it_is_qemus_machine_and_what_is_not_carried_over_is_said():
    likeness = without_libvirt(read_likeness(DOMAIN, None), "no socket")
    first, second = likeness.disks
    assert dict(first.settings) == {
        "bus": "virtio-blk",
        "cache": "writeback",
        "aio": "threads",
        "format": "qcow2",
        "grows": True,
        "cpus": 2,
        "iothread": True,
        "queues": 2,
    }
    assert (second.settings["bus"], second.settings["queues"]) == ("virtio-scsi", 2)
    said, *rest = likeness.differs
    assert "QEMU without libvirt (no socket)" in said
    assert rest == [*read_likeness(DOMAIN, None).differs]
    before = read_likeness(DOMAIN, None).left_out
    assert likeness.left_out[: len(before)] == before
    assert [one.what for one in likeness.left_out[len(before) :]] == [
        "the board pc-q35-7.2",
        "the processor's model",
        "disk vda: discard=unmap",
        "disk vda: blockio logical_block_size=512",
        "disk vda: blockio physical_block_size=4096",
        "the emulator /opt/qemu/bin/qemu-system-x86_64",
    ]
    scenario = parse_scenario(scenario_like(likeness), Path("x.yaml"))
    assert not [why for cell in expand(scenario, seed=1).cells for why in refusals(cell.parameters)]


@pytest.mark.parametrize(
    ("why", "connect", "backend"),
    [("", None, "libvirt"), ("no socket", None, None), ("no socket", "qemu:///session", "libvirt")],
)
def test_libvirt_is_used_where_it_can_be_or_was_asked_for(why, connect, backend, monkeypatch):
    def may_start(_uri: str) -> None:
        if why:
            raise HostError(why)

    monkeypatch.setattr("powercut_extras.libvirt.likeness.require_may_start", may_start)
    likeness = likeness_here(None, DOMAIN, connect)
    assert likeness.disks[0].settings.get("backend") == backend


def test_nothing_of_the_host_is_kept_and_what_differs_is_said():
    likeness = read_likeness(DOMAIN, None)
    for disk in likeness.disks:
        for word in ("shop.qcow2", "/dev/", "secret", "commandline", "hostdev"):
            assert word not in str(disk.settings)
    said = " ".join(likeness.differs)
    assert "scratch disks" in said
    assert "firmware" in said
    assert [one.what for one in likeness.left_out] == ["qemu: commandline=-S", "hostdev"]
    (lun,) = likeness.disks_left_out
    assert (lun.what, lun.why) == ("disk sdb", "a device of the host that is passed through")


def test_the_scenario_is_one_with_a_raw_log_and_a_file_system_on_each_disk(tmp_path):
    each = ["vda-raw", "vda-ext4", "sda-raw", "sda-ext4"]
    for definition, together in ((WHOLE, ["all-disks"]), (DOMAIN, [])):
        text = scenario_like(read_likeness(definition, None))
        cells = expand(parse_scenario(text, tmp_path / "domain.yaml"), seed=1).cells
        assert [cell.name for cell in cells] == [*each, *together]
        assert cells[1].parameters.machine.like


def test_the_last_cell_has_all_disks_each_as_it_is(tmp_path):
    text = scenario_like(read_likeness(WHOLE, None))
    parameters = expand(parse_scenario(text, tmp_path / "domain.yaml"), seed=1).cells[-1].parameters
    assert refusals(parameters) == ()
    parts = [(part.name, part.word) for part in parameters.disk.parts]
    assert parts == [("vda", "first"), ("sda", "stripe")]
    one, other = machines_of_disks(parameters)
    assert (one.bus, one.cache, one.aio) == (Bus.VIRTIO_BLK, CacheMode.WRITEBACK, Aio.THREADS)
    assert (other.bus, other.cache, other.aio) == (Bus.VIRTIO_SCSI, CacheMode.NONE, Aio.NATIVE)
    assert (one.format, one.grows) == (ImageFormat.RAW, False)
    assert read_kept(one.like).disk.find("driver").get("discard") == "unmap"
    assert read_kept(other.like).controllers[0].find("driver").get("queues") == "2"


@pytest.mark.parametrize("bus", ["usb", "virtio"])
def test_a_disk_that_does_not_say_which_it_is_has_no_part_in_that_cell(tmp_path, bus):
    likeness = read_likeness(WHOLE.replace("bus='virtio'", f"bus='{bus}'"), None)
    text = scenario_like(likeness)
    cells = expand(parse_scenario(text, tmp_path / "domain.yaml"), seed=1).cells
    together = bus == "virtio"
    assert ("all-disks" in [cell.name for cell in cells]) == together
    assert bool(why_apart(likeness)) != together
    assert ("left out: all disks" in text) != together


def test_names_that_a_scenario_does_not_take_become_numbers():
    assert _names(["scsi0", "Virtio1"]) == ["scsi0", "virtio1"]
    assert _names(["a/b", "a-b"]) == ["disk0", "disk1"]
    assert _names(["0", "vda"]) == ["disk0", "disk1"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("<domain", "no definition of a domain"),
        ("<network/>", "it is a <network>"),
        ("<!DOCTYPE d [<!ENTITY a 'b'>]><domain/>", "no entities"),
        ("<domain>" + " " * (2 << 20) + "</domain>", "short"),
        ("<domain><os><type arch='aarch64'>hvm</type></os></domain>", "x86_64"),
        (DOMAIN.replace("bus='virtio'", "bus='xen'").replace("'virtio-scsi'", "'x'"), "no disk"),
    ],
)
def test_what_is_no_domain_that_can_be_made_is_refused(text, why):
    with pytest.raises(UsageError, match=why):
        read_likeness(text, None)


TEXT = st.text(alphabet="abz/<>&'\"=-1 ", max_size=12)


@given(
    st.lists(
        st.tuples(st.sampled_from(sorted({e.tag for e in ET.fromstring(DOMAIN).iter()})), TEXT)
    )
)
def test_a_definition_full_of_nonsense_is_read_or_refused(changes):
    domain = ET.fromstring(DOMAIN)
    for tag, text in changes:
        for element in domain.iter(tag):
            element.text = text
            element.attrib = dict.fromkeys(element.attrib, text)
    try:
        likeness = read_likeness(ET.tostring(domain, encoding="unicode"), None)
    except UsageError:
        return
    for disk in likeness.disks:
        read_kept(str(disk.settings["like"]))
