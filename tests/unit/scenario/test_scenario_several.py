# SPDX-License-Identifier: Apache-2.0
"""Several disks in a scenario: what they come to, and what cannot be."""

from __future__ import annotations

import pytest

from powercut.model.contract import Honour
from powercut.scenario.refusal import refusals
from powercut.scenario.settings import Parameters

MIB = 1 << 20
LOG = {"name": "log", "size": "16MiB", "holds": "folder"}


IN_GUEST = {
    "workload": {"kind": "program", "command": "/bin/true", "folder": "/", "root": "debian:sid"}
}


def cell(also, disk=None, **groups) -> Parameters:
    return Parameters.model_validate(
        {
            "workload": {"kind": "program", "command": "/bin/true", "folder": "/"},
            "filesystem": {"type": "xfs"},
            "disk": {"size": "32MiB", "also": also, **(disk or {})},
        }
        | groups
    )


def test_they_lie_one_behind_the_other_and_inherit_what_the_first_does() -> None:
    lying = LOG | {"name": "other", "flush": "ignored"}
    parts = cell([LOG, lying], disk={"fua": "ignored"}).disk.parts
    assert [(part.name, part.offset, part.size, part.word) for part in parts] == [
        ("first", 0, 32 * MIB, "first"),
        ("log", 32 * MIB, 16 * MIB, "folder"),
        ("other", 48 * MIB, 16 * MIB, "folder"),
    ]
    honoured, ignored = Honour.HONOURED, Honour.IGNORED
    assert [part.flush for part in parts] == [honoured, honoured, ignored]
    assert [part.fua for part in parts] == [ignored] * 3
    assert cell([]).disk.parts == ()


def test_the_contract_of_all_is_what_any_of_them_keeps() -> None:
    honest = LOG | {"flush": "honoured"}
    assert cell([honest], disk={"flush": "ignored"}).disk.contract().flush is Honour.HONOURED
    assert cell([LOG], disk={"flush": "ignored"}).disk.contract().flush is Honour.IGNORED


def test_what_can_be_is_not_refused() -> None:
    log = {"name": "journal", "size": "16MiB", "holds": "xfs-log"}
    stripe = {"name": "b", "size": "32MiB", "holds": "stripe"}
    for also in ([LOG], [LOG, log], [stripe], [stripe, stripe | {"name": "c"}]):
        assert refusals(cell(also)) == ()
        assert refusals(cell(also, **IN_GUEST)) == ()
    queued = IN_GUEST | {"machine": {"cpus": 2, "iothread": True}}
    assert refusals(cell([LOG | {"queues": 2}], **queued)) == ()
    assert refusals(cell([LOG | {"bus": "nvme", "iothread": False, "queues": 2}], **queued)) == ()
    data = {"name": "data", "size": "64MiB", "holds": "xfs-realtime"}
    for also in (
        [log],
        [data],
        [data, log],
        [stripe],
        [stripe | {"bus": "nvme", "cache": "unsafe"}],
    ):
        assert refusals(cell(also, workload={"kind": "wal"})) == ()


@pytest.mark.parametrize(
    ("also", "groups", "key", "reason"),
    [
        ([LOG, LOG], {}, "disk.also", "two disks are called log"),
        ([LOG | {"holds": "stripe"}], {}, "disk.also", "stripes take disks of one size"),
        ([LOG, LOG | {"name": "b", "holds": "stripe"}], {}, "disk.also", "on all disks"),
        ([LOG | {"holds": "xfs-log"}], {"filesystem": {"type": "ext4"}}, "disk.also", "of an XFS"),
        (
            [LOG | {"holds": "xfs-realtime"}],
            {"filesystem": {"type": "ext4"}},
            "disk.also",
            "xfs-realtime is the realtime section of an XFS",
        ),
        (
            [LOG | {"name": name, "holds": "xfs-realtime"} for name in ("b", "c")],
            {"filesystem": {"type": "xfs"}},
            "disk.also",
            "an XFS has one realtime section",
        ),
        ([LOG], {"filesystem": {"type": "btrfs"}}, "filesystem.type", "take xfs or ext4"),
        ([LOG], {"workload": {"kind": "wal"}}, "disk.also", "log is in one file system"),
        ([LOG | {"bus": "nvme"}], {}, "disk.also", "are of a virtual machine"),
        ([LOG | {"bus": "usb-storage"}], IN_GUEST, "machine.bus", "does not tell the guest which"),
        ([LOG], IN_GUEST | {"machine": {"format": "qcow2"}}, "machine.format", "left out"),
        ([LOG | {"aio": "native", "cache": "writeback"}], IN_GUEST, "disk.also", "with O_DIRECT"),
        ([LOG], IN_GUEST | {"machine": {"hotplug": True}}, "machine.hotplug", "left out"),
        ([LOG | {"queues": 2}], IN_GUEST, "disk.also", "log: queues: a guest uses at most one"),
        ([LOG | {"bus": "ide", "iothread": True}], IN_GUEST, "disk.also", "log: iothread: QEMU"),
        (
            [LOG | {"bus": "virtio-scsi", "iothread": False}],
            IN_GUEST | {"machine": {"bus": "virtio-scsi-fua", "iothread": True}},
            "disk.also",
            "share a controller",
        ),
        ([LOG], {"explore": {"depth": 1}}, "explore.depth", "second cuts are of one disk"),
    ],
)  # fmt: skip
def test_what_cannot_be_says_why(also, groups, key, reason) -> None:
    found = refusals(cell(also, **groups))
    assert any(at == key and reason in why for at, why in found), found
