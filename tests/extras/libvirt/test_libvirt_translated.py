# SPDX-License-Identifier: Apache-2.0
"""Machines of KubeVirt and oVirt, read for what matters to their disks."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from definitions_given import BLOCKDEVS, CONF, LINE
from hypothesis import given
from hypothesis import strategies as st

from powercut.model.errors import UsageError
from powercut.scenario.likeness import DiskLikeness, LeftOut, Likeness
from powercut.scenario.load import expand, parse_scenario
from powercut_extras.certify.likeness import scenario_like
from powercut_extras.libvirt.definition import read_kept
from powercut_extras.libvirt.kubevirt import read_kubevirt
from powercut_extras.libvirt.likeness import likeness_of
from powercut_extras.libvirt.ovirt import read_ovirt

KUBEVIRT = """\
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: shop-db}
spec:
  template:
    spec:
      domain:
        cpu: {sockets: 2, cores: 2, model: Haswell}
        machine: {type: pc-q35-rhel9.2.0}
        ioThreadsPolicy: shared
        devices:
          blockMultiQueue: true
          disks:
          - {name: data, dedicatedIOThread: true, disk: {bus: virtio}, cache: writeback}
          - {name: log, disk: {bus: virtio}}
          - {name: room, disk: {bus: scsi}, io: threads}
          - {name: root, disk: {bus: virtio}}
          - {name: cloud, disk: {bus: virtio}}
          - {name: old, disk: {}}
      volumes:
      - {name: data, persistentVolumeClaim: {claimName: shop}}
      - {name: log, dataVolume: {name: log}}
      - {name: room, emptyDisk: {capacity: 2Gi}}
      - {name: root, containerDisk: {image: debian}}
      - {name: cloud, cloudInitNoCloud: {userData: x}}
      - {name: old, hostDisk: {path: /old.img}}
"""

OVF = """\
<?xml version='1.0' encoding='UTF-8'?>
<ovf:Envelope xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1/"
 xmlns:rasd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData"
 xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" ovf:version="4.4.0.0">
<Section xsi:type="ovf:DiskSection_Type"><Info>List of Virtual Disks</Info>
<Disk ovf:diskId="one" ovf:volume-format="COW" ovf:volume-type="Sparse" ovf:disk-interface="VirtIO"
 ovf:pass-discard="true" ovf:disk-alias="data"/>
<Disk ovf:diskId="two" ovf:volume-format="RAW" ovf:volume-type="Sparse"
 ovf:disk-interface="VirtIO_SCSI" ovf:pass-discard="false"/>
</Section>
<Content ovf:id="out" xsi:type="ovf:VirtualSystem_Type"><Name>shop</Name>
<NumOfIoThreads>1</NumOfIoThreads><BiosType>2</BiosType>
<Section><Item><rasd:num_of_sockets>2</rasd:num_of_sockets>
<rasd:cpu_per_socket>3</rasd:cpu_per_socket><rasd:threads_per_cpu>1</rasd:threads_per_cpu></Item>
</Section></Content></ovf:Envelope>
"""


def driver_of(disk: DiskLikeness) -> dict[str, str]:
    found = read_kept(str(disk.settings["like"])).disk.find("driver")
    assert found is not None
    return dict(found.attrib)


def how(disk: DiskLikeness) -> tuple[object, ...]:
    keys = ("bus", "cache", "aio", "format", "grows")
    return (disk.name, *(disk.settings.get(key) for key in keys))


def test_a_machine_of_kubevirt() -> None:
    likeness = read_kubevirt(KUBEVIRT, None)
    assert likeness.machine == "shop-db"
    assert [how(disk) for disk in likeness.disks] == [
        ("data", "virtio-blk", "writeback", "threads", "raw", None),
        ("log", "virtio-blk", "none", "native", "raw", None),
        ("room", "virtio-scsi", "none", "threads", "qcow2", True),
        ("old", "ahci", "none", "threads", "raw", None),
    ]
    first, second = likeness.disks[:2]
    assert driver_of(first) == {"discard": "unmap", "iothread": "2", "queues": "4"}
    assert driver_of(second) == {"discard": "unmap", "iothread": "1", "queues": "4"}
    assert first.settings["cpus"] == 4
    kept = read_kept(str(first.settings["like"]))
    assert (kept.machine, kept.iothreads) == ("pc-q35-rhel9.2.0", "2")
    assert kept.cpu is not None
    assert kept.cpu.findtext("model") == "Haswell"
    assert likeness.disks_left_out == (LeftOut("disk root", "nothing of it lasts (containerDisk)"),)
    assert "disk cloud is not tested: it is made anew at each start" in likeness.differs
    assert likeness.left_out == ()


def test_a_machine_of_ovirt() -> None:
    likeness = read_ovirt(OVF, None)
    assert [how(disk) for disk in likeness.disks] == [
        ("data", "virtio-blk", "none", "native", "qcow2", None),
        ("two", "virtio-scsi", "none", "threads", "raw", None),
    ]
    first, second = likeness.disks
    assert driver_of(first) == {"discard": "unmap", "iothread": "1"}
    assert driver_of(second) == {}
    assert first.settings["cpus"] == 6
    assert read_kept(str(first.settings["like"])).machine == "q35"


@pytest.mark.parametrize("text", [KUBEVIRT, OVF])
def test_the_kind_of_a_definition_is_seen_and_its_scenario_can_be_run(
    text: str, tmp_path: Path
) -> None:
    likeness = likeness_of(text, None)
    assert "a build of" in likeness.differs[0]
    scenario = parse_scenario(scenario_like(likeness), tmp_path / "domain.yaml")
    cells = expand(scenario, seed=1).cells
    together = not likeness.disks_left_out
    assert len(cells) == 2 * len(likeness.disks) + together


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("apiVersion: kubevirt.io/v1\nkind: Pod\n", "its kind is 'Pod'"),
        (KUBEVIRT.replace("bus: scsi", "bus: nvme"), "disk room: bus 'nvme' is none of"),
        (KUBEVIRT.replace("cache: writeback", "cache: unsafe"), "cache 'unsafe' is none of"),
        (KUBEVIRT.replace("volumes:", "volumen:"), "no disk of it can be tested"),
        ("apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nspec: 3\n", "spec is no mapping"),
        (KUBEVIRT.replace("{type: pc-q35-rhel9.2.0}", "[&a 1, *b]"), "not valid YAML"),
        ("apiVersion: kubevirt.io/v1\n" + "[" * 300, "nested too deeply"),
        (OVF.replace("disk-interface", "controller"), "names no Disk"),
        (OVF.replace("Content", "Inhalt"), "no Envelope with a Content"),
        ('<ovf:Envelope xmlns:ovf="x"><Disk>', "no definition of a machine"),
        ('<!DOCTYPE x [<!ENTITY a "b">]>' + OVF, "declares no entities"),
    ],
)
def test_what_is_no_machine_that_can_be_made_is_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        likeness_of(text, None)


@given(st.data())
def test_a_definition_full_of_nonsense_is_read_or_refused(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([KUBEVIRT, OVF, CONF, LINE, BLOCKDEVS]))
    for _ in range(3):
        at = data.draw(st.integers(0, len(text)))
        text = (
            text[:at] + data.draw(st.text(max_size=4)) + text[at + data.draw(st.integers(0, 9)) :]
        )
    with contextlib.suppress(UsageError):
        assert isinstance(likeness_of(text, None), Likeness)


def left(text: str) -> tuple[list[str], list[str]]:
    found = likeness_of(text, None)
    return [one.what for one in found.left_out], [one.what for one in found.disks_left_out]


KUBEVIRT_ONE = """\
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata: {name: one}
spec:
  domain:
    devices:
      disks:
      - {name: data, disk: {bus: virtio}}
  volumes:
  - {name: data, persistentVolumeClaim: {claimName: data}}
"""


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("bus: virtio}", "bus: virtio}, shareable: true", ["disk data: shareable=True"]),
        ("bus: virtio}", "bus: virtio}, errorPolicy: stop", ["disk data: errorPolicy=stop"]),
        ("bus: virtio}", "bus: virtio}, wonder: blue", ["disk data: wonder=blue"]),
        ("    devices:", "    ioThreadsPolicy: auto\n    devices:", []),
        (
            "    devices:",
            "    ioThreadsPolicy: supplementalPool\n    devices:",
            ["machine: ioThreadsPolicy=supplementalPool"],
        ),
        (
            "      disks:",
            "      filesystems: [{name: x, virtiofs: {}}]\n      disks:",
            ["machine: devices filesystems name=x"],
        ),
        ("    devices:", "    resources: {requests: {memory: 1Gi}}\n    devices:", []),
    ],
)
def test_what_kubevirt_says_is_carried_over_or_said(old, new, told) -> None:
    assert left(KUBEVIRT_ONE.replace(old, new)) == (told, [])


def test_blocks_of_kubevirt_and_its_cache_are_carried_over() -> None:
    more = "bus: virtio}, cache: directsync, blockSize: {custom: {logical: 4096, physical: 4096}}"
    (disk,) = likeness_of(KUBEVIRT_ONE.replace("bus: virtio}", more), None).disks
    blocks = read_kept(str(disk.settings["like"])).disk.find("blockio")
    assert blocks is not None
    assert blocks.attrib == {"logical_block_size": "4096", "physical_block_size": "4096"}
    assert disk.settings["cache"] == "directsync"


def test_a_volume_that_no_disk_names_is_one_on_virtio_and_a_preference_is_said() -> None:
    text = KUBEVIRT_ONE.replace(
        "    devices:\n      disks:\n      - {name: data, disk: {bus: virtio}}\n",
        "    devices: {}\n",
    ).replace("spec:\n  domain", "spec:\n  preference: {name: fedora}\n  domain")
    (disk,) = likeness_of(text, None).disks
    assert (disk.name, disk.settings["bus"]) == ("data", "virtio-blk")
    assert left(text)[0] == ["machine: preference name=fedora"]


def test_a_list_with_one_machine_is_that_machine() -> None:
    indented = KUBEVIRT_ONE.replace("\n", "\n  ").rstrip()
    text = f"apiVersion: v1\nkind: List\nitems:\n- {indented}\n"
    assert [disk.name for disk in likeness_of(text, None).disks] == ["data"]
    with pytest.raises(UsageError, match="this List has 2 machines: one, one"):
        likeness_of(f"{text}- {indented}\n", None)


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ('shareable="true"', ["disk data: shareable=true"]),
        ('wonder="x"', ["disk data: wonder=x"]),
        ('shareable="false"', []),
    ],
)
def test_what_ovirt_says_is_carried_over_or_said(word, told) -> None:
    assert left(OVF.replace('disk-alias="data"', f'disk-alias="data" ovf:{word}')) == (told, [])


@pytest.mark.parametrize(("old", "new"), [("VirtIO_SCSI", "SPAPR_VSCSI"), ('"RAW"', '"vmdk"')])
def test_a_disk_of_ovirts_that_cannot_be_made_is_left_out(old, new) -> None:
    assert left(OVF.replace(old, new)) == ([], ["disk two"])


NESTED = 5_000
NODE = '{"a":'


@pytest.mark.parametrize(
    "text",
    [
        f"qemu-kvm -blockdev {NODE * NESTED}1{'}' * NESTED}\n",
        f"<domain><os><type>hvm</type></os><devices><disk>{'<a>' * NESTED}{'</a>' * NESTED}"
        "<target dev='vda' bus='virtio'/></disk></devices></domain>",
    ],
    ids=["JSON", "XML"],
)
def test_what_is_nested_too_deeply_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="nested too deeply"):
        likeness_of(text, None)
