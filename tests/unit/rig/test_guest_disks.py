# SPDX-License-Identifier: Apache-2.0
"""Which device each of several disks is, and what of them is mounted where."""

from __future__ import annotations

from pathlib import Path

from powercut.machine.port import FileDisk, NbdDisk, NbdFile, Role
from powercut.model.machine import Aio, Bus, CacheFlags, CacheMode
from powercut.recover.plan import Mount, PlanDisk, RecoveryPlan
from powercut.rig import commands
from powercut.rig.guest_disks import GuestDisks
from powercut.rig.rig import Rig
from powercut.scenario.settings import Parameters

MIB = 1 << 20
MOUNT = Mount("xfs", "noatime", "/mnt")
NAMES = {"first": "vdb", "log": "nvme0n1", "journal": "vda"}


def plan(*disks: PlanDisk) -> RecoveryPlan:
    return RecoveryPlan.of("xfs", "noatime", "/mnt", ("/check",), device="vda", disks=disks)


def found(wanted: RecoveryPlan) -> tuple[GuestDisks, list[tuple[str, ...]]]:
    asked = []

    def run(*argv: str) -> dict[str, str]:
        asked.append(argv)
        return {"device": NAMES[argv[1]] if argv[0] == "find" else "dm-0"}

    return GuestDisks.found(wanted, run), asked


def test_one_disk_is_what_its_bus_calls_it() -> None:
    disks, asked = found(plan())
    assert asked == []
    assert disks.nodes == ("/dev/vda",)
    assert disks.mounting(MOUNT) == [("mount", "xfs", "/dev/vda", "/mnt", "noatime")]
    assert disks.points("/mnt") == ("/mnt",)


def test_a_log_device_and_a_folder_are_found_by_their_serial_numbers() -> None:
    disks, asked = found(
        plan(
            PlanDisk("first", 0, 32 * MIB, "first"),
            PlanDisk("log", 32 * MIB, 16 * MIB, "folder"),
            PlanDisk("journal", 48 * MIB, 16 * MIB, "xfs-log"),
        )
    )
    assert asked == [("find", "first"), ("find", "log"), ("find", "journal")]
    assert disks.mounting(MOUNT) == [
        ("mount", "xfs", "/dev/vdb", "/mnt", "noatime,logdev=/dev/vda"),
        ("mount", "xfs", "/dev/nvme0n1", "/mnt/log", "noatime"),
    ]
    assert disks.points("/mnt") == ("/mnt", "/mnt/log")


def test_a_realtime_device_is_an_option_of_the_mount() -> None:
    disks, _ = found(
        plan(
            PlanDisk("first", 0, 32 * MIB, "first"),
            PlanDisk("log", 32 * MIB, 16 * MIB, "xfs-realtime"),
            PlanDisk("journal", 48 * MIB, 16 * MIB, "xfs-log"),
        )
    )
    options = "noatime,logdev=/dev/vda,rtdev=/dev/nvme0n1"
    assert disks.mounting(MOUNT) == [("mount", "xfs", "/dev/vdb", "/mnt", options)]
    assert disks.points("/mnt") == ("/mnt",)


def test_stripes_lie_over_all_disks() -> None:
    names = ("first", "log", "journal")
    parts = (
        PlanDisk(name, at * 32 * MIB, 32 * MIB, "stripe" if at else "first")
        for at, name in enumerate(names)
    )
    disks, asked = found(plan(*parts))
    assert asked[-1] == ("stripes", f"{96 * MIB // 512}", "128", "vdb", "nvme0n1", "vda")
    assert disks.nodes == ("/dev/vdb", "/dev/nvme0n1", "/dev/vda", "/dev/dm-0")
    assert disks.mounting(MOUNT) == [("mount", "xfs", "/dev/dm-0", "/mnt", "noatime")]


CELL = Parameters.model_validate(
    {
        "filesystem": {"type": "xfs"},
        "machine": {"bus": "virtio-scsi", "cache": "writeback"},
        "disk": {
            "size": "32MiB",
            "also": [
                {"name": "b", "size": "16MiB", "holds": "xfs-log", "cache": "unsafe"},
                {"name": "c", "size": "16MiB", "holds": "xfs-log", "bus": "ide", "aio": "threads"},
            ],
        },
    }
)


def test_each_disk_is_attached_as_its_settings_say() -> None:
    disks = Rig().machine_spec(CELL, Path("/run/nbd")).attachments
    assert [disk.role for disk in disks] == [Role.UNDER_TEST] * 3
    assert [(disk.serial, disk.bus, disk.disk) for disk in disks] == [
        ("first", Bus.VIRTIO_SCSI, NbdDisk(Path("/run/nbd"), "first")),
        ("b", Bus.VIRTIO_SCSI, NbdDisk(Path("/run/nbd"), "b")),
        ("c", Bus.IDE, NbdFile(Path("/run/nbd"), 16 * MIB, Aio.THREADS, export="c")),
    ]
    modes = [CacheMode.WRITEBACK, CacheMode.UNSAFE, CacheMode.WRITEBACK]
    assert [disk.cache for disk in disks] == [
        CacheFlags(mode.write_cache, mode.direct, mode.no_flush) for mode in modes
    ]


def test_in_an_image_they_are_windows_of_it() -> None:
    disks = Rig().machine_spec(CELL, FileDisk(Path("/image"))).attachments
    assert [disk.disk for disk in disks] == [
        FileDisk(Path("/image"), size=size * MIB, offset=at * MIB)
        for at, size in ((0, 32), (32, 16), (48, 16))
    ]


def test_only_a_disk_that_is_to_get_no_flush_offers_none(tmp_path: Path) -> None:
    config = commands.capture_config(
        CELL, commands.Binding(), base=tmp_path, log=tmp_path, sockets=None
    )
    assert [part.silent for part in config.parts] == [False, True, False]
    assert config.offer_flush


def test_what_the_guest_must_see_is_said_of_each_disk() -> None:
    promised = commands.promised_of_disks(CELL)
    assert promised["write_cache"] == promised["disk b: write_cache"] == "write back"
    assert set(promised) == {"write_cache", "fua"} | {
        f"disk {name}: {key}" for name in "bc" for key in ("write_cache", "fua")
    }
