# SPDX-License-Identifier: Apache-2.0
"""Machines of Proxmox VE, read for what matters to their disks."""

from __future__ import annotations

import pytest
from definitions_given import CONF

from powercut.model.errors import UsageError
from powercut.scenario.load import expand, parse_scenario
from powercut_extras.certify.likeness import scenario_like
from powercut_extras.libvirt.definition import read_kept
from powercut_extras.libvirt.proxmox import read_proxmox


def test_each_disk_becomes_the_settings_of_a_machine() -> None:
    likeness = read_proxmox(CONF, None)
    assert (likeness.machine, [one.name for one in likeness.disks]) == (
        "shop-db",
        ["scsi0", "virtio1"],
    )
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
    (controller,) = kept.controllers
    assert controller.find("driver").attrib == {"iothread": "1"}
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
    assert (likeness.left_out, likeness.disks_left_out) == ((), ())


def test_the_scenario_is_one_that_can_be_run(tmp_path) -> None:
    usual = CONF.replace("aio=native,", "")
    scenario = parse_scenario(scenario_like(read_proxmox(usual, None)), tmp_path / "domain.yaml")
    names = [cell.name for cell in expand(scenario, seed=1).cells]
    assert names == ["scsi0-raw", "scsi0-ext4", "virtio1-raw", "virtio1-ext4", "all-disks"]


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


def said(text: str) -> list[tuple[str, str]]:
    return [(one.what, one.why) for one in read_proxmox(text, None).left_out]


ONE = "scsihw: virtio-scsi-single\nscsi0: local-lvm:vm-1-disk-0,iothread=1,size=8G"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (f"args: -drive file=/srv/x.img,if=virtio,cache=unsafe\n{ONE}\n", "machine: args"),
        (f"hostpci0: 01:00.0\n{ONE}\n", "machine: hostpci"),
        (f"virtiofs0: share\n{ONE}\n", "machine: virtiofs"),
        (f"wonder: blue\n{ONE}\n", "machine: wonder=blue"),
        (f"{ONE},werror=stop\n", "disk scsi0: werror=stop"),
        (f"{ONE},mbps_wr=20,iops=100\n", "disk scsi0: mbps_wr=20, iops=100"),
        (f"{ONE},fsync=off\n", "disk scsi0: fsync=off"),
        (ONE.replace("-single", "-pci"), "disk scsi0: iothread=1"),
    ],
)
def test_what_is_left_out_is_said_with_whose_it_is(text: str, what: str) -> None:
    assert [one for one, _ in said(text)] == [what]
    assert "/srv" not in str(said(text))


def test_nothing_is_said_of_what_is_carried_over_or_changes_nothing() -> None:
    more = "agent: 1\namd-sev: std\nballoon: 12288\nboot: order=scsi0\ntags: prod\nunused0: x:y\n"
    assert said(f"{more}{ONE},ssd=1,backup=0,cache=directsync,aio=threads\n") == []


def test_disks_whose_writes_are_thrown_away_or_that_take_none_are_told_apart() -> None:
    more = "\nscsi1: local-lvm:vm-1-disk-1,snapshot=1\nscsi2: local-lvm:vm-1-disk-2,ro=1\n"
    found = read_proxmox(ONE + more, None)
    assert [disk.name for disk in found.disks] == ["scsi0"]
    ((name, why),) = [(one.what, one.why) for one in found.disks_left_out]
    assert (name, "discarded when the machine stops" in why) == ("disk scsi1", True)
    assert "disk scsi2 is not tested: it is read-only" in found.differs
