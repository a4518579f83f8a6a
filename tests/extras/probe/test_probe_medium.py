# SPDX-License-Identifier: Apache-2.0
"""From a path to its medium, on trees that look like those of real machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from powercut.model.errors import UsageError
from powercut_extras.probe.judge import Kind
from powercut_extras.probe.medium import Host, look_up, mount_of, virtualisation

SATA = "pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0"
USB = "pci0000:00/0000:00:14.0/usb1/1-2/1-2:1.0/host6/target6:0:0/6:0:0:0"


class Machine:
    """Makes /sys and /proc of a machine, in which everything is mounted at /."""

    def __init__(self, root: Path) -> None:
        self.host = Host(root / "sys", root / "proc")
        (self.host.proc / "self").mkdir(parents=True)
        self.cpu("fpu sse2")
        (self.host.sys / "dev/block").mkdir(parents=True)

    def cpu(self, flags: str) -> None:
        (self.host.proc / "cpuinfo").write_text(f"processor : 0\nflags\t\t: {flags}\n")

    def mount(self, device: str, filesystem: str = "ext4", source: str = "/dev/root") -> None:
        (self.host.proc / "self/mountinfo").write_text(
            f"1 0 {device} / / rw,relatime shared:1 - {filesystem} {source} rw\n"
        )

    def disk(self, device: str, path: str, **files: str) -> Path:
        folder = self.host.sys / "devices" / path
        folder.mkdir(parents=True)
        for name, text in files.items():
            file = folder / name.replace("__", "/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{text}\n")
        (self.host.sys / "dev/block" / device).symlink_to(folder)
        return folder

    def sata(self, device: str, name: str, rotational: int, model: str, cache: str = "write back"):
        return self.disk(
            device,
            f"{SATA}/block/{name}",
            queue__rotational=str(rotational),
            queue__write_cache=cache,
            device__model=model,
        )

    def look(self, path: Path):
        return look_up(path, self.host)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("HGST HUS724040AL", Kind.HDD_7200),
        ("Hitachi HDS721010CLA332", Kind.HDD_7200),
        ("HGST HTS545050A7E680", Kind.HDD_5400),
        ("HUC101212CSS600", Kind.HDD_10K),
        ("HUS156030VLS600", Kind.HDD_15K),
        ("HDS5C3030ALA630", Kind.HDD),  # CoolSpin: the name does not say
        ("ST4000VN008-2DR166", Kind.HDD),
        ("SAMSUNG HD103SJ", Kind.HDD),
    ],
)
def test_the_speed_comes_from_the_model_only_where_it_is_certain(machine, tmp_path, model, kind):
    machine.sata("8:0", "sda", 1, model)
    machine.mount("8:0")
    assert machine.look(tmp_path).medium.kind is kind


def test_a_partition_below_lvm_below_ext4(machine, tmp_path):
    disk = machine.sata("8:0", "sda", 0, "Samsung SSD 870", cache="write through")
    machine.disk("8:3", f"{SATA}/block/sda/sda3", partition="3")
    volume = machine.disk("253:0", "virtual/block/dm-0", queue__rotational="0")
    (volume / "slaves").mkdir()
    (volume / "slaves/sda3").symlink_to(disk / "sda3")
    machine.mount("253:0")
    place = machine.look(tmp_path)
    assert place.stack == ("ext4", "dm-0", "sda3", "sda")
    assert place.medium.kind is Kind.SATA_SSD
    assert place.medium.write_cache is False
    assert place.medium.plp is None


def test_disks_of_two_kinds_are_unknown_and_one_cache_is_a_cache(machine, tmp_path):
    slow = machine.sata("8:0", "sda", 1, "HUS724040ALE640", cache="write through")
    fast = machine.disk(
        "259:0",
        "pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1",
        queue__rotational="0",
        queue__write_cache="write back",
    )
    array = machine.disk("9:0", "virtual/block/md0")
    (array / "slaves").mkdir()
    (array / "slaves/sda").symlink_to(slow)
    (array / "slaves/nvme0n1").symlink_to(fast)
    machine.mount("9:0")
    place = machine.look(tmp_path)
    assert [disk.kind for disk in place.disks] == [Kind.NVME, Kind.HDD_7200]
    assert place.medium.kind is Kind.UNKNOWN
    assert place.medium.write_cache is True


@pytest.mark.parametrize(
    ("device", "path", "files", "said"),
    [
        ("254:0", "pci0000:00/virtio1/block/vda", {"queue__rotational": "1"}, "hypervisor"),
        (
            "8:0",
            f"{SATA}/block/sda",
            {"device__model": "VBOX HARDDISK", "queue__rotational": "1"},
            "hypervisor",
        ),
        ("8:16", f"{USB}/block/sdb", {"queue__rotational": "1"}, "not attached by SATA or PCIe"),
        (
            "259:1",
            "virtual/nvme-fabrics/ctl/nvme1/nvme1n1",
            {"device__transport": "tcp"},
            "far end of tcp",
        ),
        ("8:32", f"{SATA}/block/sdc", {"device__model": "HUS724040ALE640"}, "does not say"),
    ],
)
def test_what_cannot_be_believed_is_unknown(machine, tmp_path, device, path, files, said):
    machine.disk(device, path, **files)
    machine.mount(device)
    medium = machine.look(tmp_path).medium
    assert medium.kind is Kind.UNKNOWN
    assert said in medium.source


def test_in_a_guest_nothing_is_believed(machine, tmp_path):
    machine.sata("8:0", "sda", 1, "HUS724040ALE640")
    machine.mount("8:0")
    machine.cpu("fpu sse2 hypervisor")
    place = machine.look(tmp_path)
    assert place.virtual == "the CPU says so"
    assert place.medium.kind is Kind.UNKNOWN


def test_hints_of_virtualisation(machine):
    assert virtualisation(machine.host) == ""
    dmi = machine.host.sys / "class/dmi/id"
    dmi.mkdir(parents=True)
    (dmi / "sys_vendor").write_text("Dell Inc.\n")
    assert virtualisation(machine.host) == ""
    (dmi / "sys_vendor").write_text("innotek GmbH\n")
    (dmi / "product_name").write_text("VirtualBox\n")
    assert virtualisation(machine.host) == "innotek GmbH, VirtualBox"


@pytest.mark.parametrize("filesystem", ["tmpfs", "ramfs", "devtmpfs"])
def test_memory_is_recognised(machine, tmp_path, filesystem):
    machine.mount("0:40", filesystem, "none")
    assert machine.look(tmp_path).medium.kind is Kind.MEMORY


def test_a_disk_in_memory_is_recognised(machine, tmp_path):
    machine.disk("1:0", "virtual/block/ram0", queue__rotational="0")
    machine.mount("1:0")
    assert machine.look(tmp_path).medium.kind is Kind.MEMORY


def test_a_loop_device_is_what_its_file_lies_on(machine, tmp_path):
    image = tmp_path / "image"
    image.touch()
    machine.disk("7:0", "virtual/block/loop0", loop__backing_file=str(image))
    machine.sata("8:0", "sda", 1, "HUS724040ALE640")
    (machine.host.proc / "self/mountinfo").write_text(
        f"1 0 8:0 / / rw - btrfs /dev/sda rw\n2 1 7:0 / {tmp_path}/on\\040loop rw - xfs x rw\n"
    )
    (tmp_path / "on loop").mkdir()
    place = machine.look(tmp_path / "on loop")
    assert place.stack == ("xfs", "loop0", str(image), "btrfs", "sda")
    assert place.medium.kind is Kind.HDD_7200
    assert place.medium.copy_on_write


@pytest.mark.parametrize("filesystem", ["nfs4", "9p", "virtiofs", "overlay", "zfs", "fuse.sshfs"])
def test_files_that_lie_elsewhere_are_unknown(machine, tmp_path, filesystem):
    machine.mount("0:55", filesystem, "server:/export")
    medium = machine.look(tmp_path).medium
    assert medium.kind is Kind.UNKNOWN
    assert medium.source == f"{filesystem} keeps its files elsewhere"


def test_a_device_that_the_kernel_does_not_describe(machine, tmp_path):
    machine.mount("8:99")
    assert machine.look(tmp_path).medium.kind is Kind.UNKNOWN


def test_the_longest_mount_point_wins_and_of_two_the_last():
    text = (
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "2 1 8:2 / /srv rw master:1 - xfs /dev/sda2 rw\n"
        "3 1 0:9 / /srv rw - tmpfs none rw\n"
        "4 1 8:3 / /srv/data rw - xfs /dev/sda3 rw\n"
        "5 1 8:4 / /srv/data\\040two rw - ext4 /dev/sda4 rw\n"
    )
    assert mount_of(Path("/srv"), text).filesystem == "tmpfs"
    assert mount_of(Path("/srv/database"), text).device == "0:9"
    assert mount_of(Path("/srv/data/x"), text).device == "8:3"
    assert mount_of(Path("/srv/data two/x"), text).device == "8:4"
    assert mount_of(Path("/home"), text).device == "8:1"


def test_nothing_there_is_a_mistake_of_the_user(machine, tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        machine.look(tmp_path / "nowhere")


def test_this_machine_can_be_looked_at(tmp_path):
    place = look_up(tmp_path)
    assert place.stack
    assert place.filesystem == place.stack[0]
    assert place.medium.source
