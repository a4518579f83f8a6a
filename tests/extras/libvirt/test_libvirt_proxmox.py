# SPDX-License-Identifier: Apache-2.0
"""Machines of Proxmox VE, read for what matters to their disks."""

from __future__ import annotations

import pytest

from powercut.model.errors import UsageError
from powercut.scenario.load import expand, parse_scenario
from powercut_extras.certify.likeness import scenario_like
from powercut_extras.libvirt.definition import read_kept
from powercut_extras.libvirt.proxmox import read_proxmox

CONF = """\
#a database
boot: order=scsi0
cores: 2
cpu: host
machine: pc-q35-8.1+pve0
memory: 4096
name: shop-db
net0: virtio=BC:24:11:00:00:01,bridge=vmbr0
ide2: local:iso/debian.iso,media=cdrom,size=600M
scsi0: local-lvm:vm-100-disk-0,discard=on,iothread=1,size=32G,ssd=1
scsihw: virtio-scsi-single
sockets: 2
virtio1: local:100/vm-100-disk-1.qcow2,cache=writeback,aio=native,iothread=1,size=8G

[before-upgrade]
scsi0: local-lvm:vm-100-disk-0,cache=unsafe
"""


def test_each_disk_becomes_the_settings_of_a_machine() -> None:
    likeness = read_proxmox(CONF, None)
    assert (likeness.machine, [one.name for one in likeness.disks]) == ("shop-db", ["sda", "vdb"])
    first, second = ({**one.settings} for one in likeness.disks)
    kept = read_kept(str(first.pop("like")))
    assert first == {
        "backend": "libvirt",
        "bus": "virtio-scsi",
        "cache": "none",
        "aio": "io_uring",
        "format": "raw",
        "cpus": 4,
    }
    assert (kept.machine, kept.iothreads) == ("pc-q35-8.1", "2")
    assert kept.disk.find("driver").attrib == {"discard": "unmap", "detect_zeroes": "unmap"}
    kept = read_kept(str(second.pop("like")))
    assert second == {
        "backend": "libvirt",
        "bus": "virtio-blk",
        "cache": "writeback",
        "aio": "native",
        "format": "qcow2",
        "grows": True,
        "cpus": 4,
    }
    assert kept.disk.find("driver").get("iothread") == "2"
    assert "Proxmox has a build of its own" in likeness.differs[0]


def test_the_scenario_is_one_that_can_be_run(tmp_path) -> None:
    usual = CONF.replace("aio=native,", "")
    scenario = parse_scenario(scenario_like(read_proxmox(usual, None)), tmp_path / "domain.yaml")
    names = [cell.name for cell in expand(scenario, seed=1).cells]
    assert names == ["sda-raw", "sda-ext4", "vdb-raw", "vdb-ext4", "all-disks"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "neither a domain's XML nor"),
        ("name: x\n", "neither a domain's XML nor"),
        ("hello world\n", "no definition of a machine of Proxmox"),
        ("x" * (2 << 20), "short"),
        ("ide2: none,media=cdrom\n", "no disk"),
        ("scsi0: local-lvm:vm-1-disk-0\n", "only virtio-scsi is known, not lsi"),
    ],
)
def test_what_is_no_machine_that_can_be_made_is_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        read_proxmox(text, None)
