# SPDX-License-Identifier: Apache-2.0
"""The capture disk as several disks over NBD: its exports, its log, and what a cut leaves."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from patience import AMPLE_S
from surviving import surviving_image

from powercut.crash.sets import durability_sets
from powercut.disk.base import BaseImageSpec, deal_stripes, ensure_base_image
from powercut.disk.capture import CaptureDisk
from powercut.disk.capture_config import CaptureConfig
from powercut.disk.pclog import read_timeline
from powercut.machine.nbd import NbdExport, examine
from powercut.model.contract import CutPolicy, Honour
from powercut.model.timeline import RequestKind
from powercut.recording.disk_places import filesystem_of
from powercut.scenario.settings_several import DiskPart, Holds

MIB = 1 << 20
KEPT, IGNORED = Honour.HONOURED, Honour.IGNORED


def parts(log: Honour = KEPT) -> tuple[DiskPart, ...]:
    return (
        DiskPart("first", 0, 2 * MIB, None, KEPT, KEPT),
        DiskPart("log", 2 * MIB, MIB, Holds.FOLDER, log, log),
    )


def qemu_io(disk: CaptureDisk, export: str, *commands: str) -> str:
    words = [word for command in commands for word in ("-c", command)]
    uri = f"nbd+unix:///{export}?socket={disk.socket}"
    return subprocess.run(
        ["qemu-io", "-t", "none", "-f", "raw", *words, uri],
        capture_output=True, text=True, check=True, timeout=60,
    ).stdout  # fmt: skip


@pytest.mark.parametrize("log", [KEPT, IGNORED])
def test_a_flush_of_one_says_nothing_of_the_other(tmp_path: Path, log: Honour) -> None:
    base = tmp_path / "base"
    base.write_bytes(b"B" * (3 * MIB))
    with CaptureDisk(CaptureConfig(base, tmp_path / "a", parts=parts(log))) as disk:
        # qemu-io flushes its disk when it ends: that of `log` after, that of `first` before.
        qemu_io(disk, "first", "write -P 97 0 4k")
        qemu_io(disk, "log", "write -P 98 0 4k", "flush", "write -f -P 99 4k 4k")
        disk.cut(CutPolicy.DROP, 1, None, timeout_s=AMPLE_S)
        disk.snapshot(tmp_path / "medium")
    timeline = read_timeline(tmp_path / "a", verify_payloads=True)
    left = np.fromfile(tmp_path / "medium", dtype=np.uint8)
    assert (left[:4096] == ord("a")).all()
    kept = [ord("b"), ord("c")] if log is KEPT else [ord("B")] * 2
    assert left[2 * MIB : 2 * MIB + 8192 : 4096].tolist() == kept
    assert (surviving_image(timeline, base) == left).all()
    requests = timeline.requests
    flush = requests.kind == RequestKind.FLUSH
    ranges = {(0, 2 * MIB), (2 * MIB, MIB)}
    assert set(zip(requests.offset[flush], requests.length[flush], strict=True)) == ranges
    durable = durability_sets(timeline).durable(int(timeline.cut.at))
    expected = requests.is_write & ((requests.offset < 2 * MIB) | (log is KEPT))
    assert (durable == expected).all()


def test_one_that_loses_its_power_alone_has_lost_that_for_good(
    tmp_path: Path,
) -> None:
    """By its log, too: nothing of that is there again after the cut of both."""
    base = tmp_path / "base"
    base.write_bytes(b"B" * (3 * MIB))
    left = set()
    for seed in range(6):
        log = tmp_path / f"log{seed}"
        with CaptureDisk(CaptureConfig(base, log, parts=parts())) as disk:
            qemu_io(disk, "first", "write -P 97 0 8k", "flush")
            for name, command in (("first", "write -P 98 4k 8k"), ("log", "write -P 99 0 4k")):
                with pytest.raises(subprocess.CalledProcessError):  # which flushes nothing
                    qemu_io(disk, name, command, "abort")
            with disk.dark(("first",), seed), pytest.raises(subprocess.CalledProcessError):
                qemu_io(disk, "first", "read 0 512", "write -P 100 0 512")
            disk.snapshot(tmp_path / f"then{seed}")
            disk.cut(CutPolicy.KEEP, 1, None, timeout_s=AMPLE_S)
            disk.snapshot(tmp_path / f"medium{seed}")
        timeline = read_timeline(log, verify_payloads=True)
        then, medium = (
            np.fromfile(tmp_path / f"{name}{seed}", dtype=np.uint8) for name in ("then", "medium")
        )
        assert (surviving_image(timeline, base) == medium).all()
        assert (then[: 2 * MIB] == medium[: 2 * MIB]).all()
        assert (then[2 * MIB :] == ord("B")).all()
        assert medium[2 * MIB] == ord("c")
        assert (medium[:4096] == ord("a")).all()
        assert set(medium[4096:12288].tolist()) <= set(b"abB")
        left.add(medium[4096:12288].tobytes())
        whole = durability_sets(timeline).durable(int(timeline.cut.at))
        of_first = timeline.requests.is_write & (timeline.requests.offset < 2 * MIB)
        assert whole[of_first].all()
    assert len(left) > 1


def test_a_silent_one_offers_neither_flush_nor_fua(tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.write_bytes(bytes(3 * MIB))
    first, log = parts()
    silent = CaptureConfig(base, None, parts=(first, log._replace(silent=True)))
    with CaptureDisk(silent) as disk:
        offers = [examine(disk.socket, timeout_s=AMPLE_S, name=name) for name in ("first", "log")]
    assert offers == [NbdExport(2 * MIB, True, True), NbdExport(MIB, False, False)]


def test_there_is_no_export_of_another_name(tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.write_bytes(bytes(3 * MIB))
    with CaptureDisk(CaptureConfig(base, None, parts=parts())) as disk:
        for name in ("", "other"):
            with pytest.raises(subprocess.CalledProcessError):
                qemu_io(disk, name, "read 0 512")


def test_stripes_are_dealt_in_turn(tmp_path: Path) -> None:
    whole, disks = tmp_path / "whole", [tmp_path / "a", tmp_path / "b"]
    stripe = 64 << 10
    whole.write_bytes(b"".join(bytes([letter]) * stripe for letter in b"1234"))
    for disk in disks:
        disk.write_bytes(bytes(2 * stripe))
    deal_stripes(whole, disks)
    assert [disk.read_bytes()[::stripe] for disk in disks] == [b"13", b"24"]


def test_a_base_holds_what_each_disk_is_for(tmp_path: Path) -> None:
    log = DiskPart("log", 16 * MIB, 16 * MIB, Holds.FOLDER, KEPT, KEPT)
    first = DiskPart("first", 0, 16 * MIB, None, KEPT, KEPT)
    made = ensure_base_image(BaseImageSpec("ext4", 16 * MIB, parts=(first, log)), tmp_path)
    assert made.stat().st_size == 32 * MIB
    assert [filesystem_of(made, begin) for begin in (0, 16 * MIB)] == ["ext4", "ext4"]
    content = made.read_bytes()
    uuid = slice(1024 + 104, 1024 + 120)
    assert content[: 16 * MIB][uuid] != content[16 * MIB :][uuid]
