# SPDX-License-Identifier: Apache-2.0
"""The WAL workload on a dm-log-writes target in a guest: a mark for each ack, then the log.

One disk with two partitions, for the data and for the log.  What is recorded here is
recorded by the kernel, and by nothing of ours but the marks.
"""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

import pytest

from powercut.channel.guest_channel import GuestChannel
from powercut.disk.base import BaseImageSpec, ensure_base_image
from powercut.explore.state_judge import open_judge
from powercut.machine.guest.image import ensure_guest_image
from powercut.machine.port import FileDisk
from powercut.machine.qemu.machine import QemuMachine
from powercut.machine.qemu.spec import QemuSpec
from powercut.model.machine import CacheMode
from powercut.model.verdict import LsnRange, Verdict
from powercut.recording.open_recording import open_recording
from powercut.recording.state_names import resolve_state
from powercut_extras.logs.imports import LogLayout, import_recording, report_import

START_S = 180
MIB = 1 << 20
DATA = (1 * MIB, 16 * MIB)  # where it begins on the disk, and how long it is
LOG = (32 * MIB, 32 * MIB)
RUN_ID = bytes(range(16)).hex()
RECORDS = 30


def partitions() -> bytes:
    """A partition table (MBR) with data and log."""
    entries = b"".join(
        struct.pack("<B3sB3sII", 0, b"\0\0\0", 0x83, b"\0\0\0", begin // 512, size // 512)
        for begin, size in (DATA, LOG)
    )
    return bytes(446) + entries.ljust(64, b"\0") + b"\x55\xaa"


def part(image: Path, where: tuple[int, int], target: Path) -> Path:
    with image.open("rb") as file:
        file.seek(where[0])
        target.write_bytes(file.read(where[1]))
    return target


@pytest.fixture
def full_guest():
    return ensure_guest_image("full")


@pytest.fixture
def run_logged(full_guest, runtime, tmp_path):
    """Runs the workload on a file system on the target; the imported log and the base."""

    def run(filesystem: str, *extra: str):
        base = ensure_base_image(BaseImageSpec(filesystem, DATA[1]), tmp_path / "cache")
        disk = tmp_path / "disk.img"
        with disk.open("wb") as file:
            file.write(partitions())
            file.seek(DATA[0])
            file.write(base.read_bytes())
        os.truncate(disk, LOG[0] + LOG[1])
        spec = QemuSpec(
            full_guest,
            FileDisk(disk),
            runtime / "ctl",
            runtime / "qmp",
            cache=CacheMode.WRITEBACK,
            memory_mib=256,
            kernel_arguments=("powercut.load=log-writes",),
        )
        with GuestChannel.on_unix(spec.channel) as channel, QemuMachine(spec, runtime) as machine:
            machine.start(timeout_s=START_S)
            channel.wait_hello(timeout_s=START_S)

            def do(*argv: str) -> None:
                done = channel.run(*argv, timeout_s=START_S)
                assert (done.status, done.error) == (0, ""), (argv, done)

            do("exec", "/bin/dmlog", "create", "pc", "/dev/vda1", "/dev/vda2")
            do("mount", filesystem, "/dev/dm-0", "/mnt", "")
            words = [f"run_id={RUN_ID}", "layout=append", "path=/mnt/log", "record=512"]
            words += ["sync=fdatasync", f"records={RECORDS}", "dmlog=pc", "channel=fd:3", *extra]
            do("exec", "/bin/wal", "write", *words)
            do("umount", "/mnt")
            do("exec", "/bin/dmlog", "remove", "pc")
            machine.crash(timeout_s=START_S)
            history = channel.drain(timeout_s=START_S)
        assert history.acked == RECORDS
        log = part(disk, LOG, tmp_path / "log")
        layout = LogLayout(run_id=RUN_ID, layout="append", record=512)
        return import_recording(log, base=base, output=tmp_path / "imported", layout=layout)

    return run


@pytest.mark.parametrize("filesystem", ["xfs", pytest.param("ext4", marks=pytest.mark.nightly)])
def test_every_ack_is_durable_at_its_mark(run_logged, filesystem: str) -> None:
    directory = run_logged(filesystem)
    report = report_import(directory)
    assert (report.complete, report.doubts) == (True, ())
    assert report.acked == RECORDS
    assert (report.exposed, report.perhaps) == ((), ())
    assert report.verdict is Verdict.INCONCLUSIVE  # a file system is between: see below
    recording = open_recording(directory.path)
    assert recording.history.ack_lsn.tolist() == list(range(1, RECORDS + 1))
    with open_judge(recording) as judge:
        for lsn in range(1, RECORDS + 1):
            found = judge.judge(resolve_state(recording, f"ack:{lsn}"))
            assert found.required == (LsnRange(1, lsn),)
            assert found.findings == ()


def test_an_ack_without_a_sync_is_found(run_logged) -> None:
    directory = run_logged("xfs", "plant=skip-sync:4")
    report = report_import(directory)
    assert report.verdict is Verdict.LOSSY
    skipped = range(4, RECORDS + 1, 4)
    assert report.exposed == tuple(LsnRange(lsn, lsn) for lsn in skipped)
    recording = open_recording(directory.path)
    with open_judge(recording) as judge:
        assert judge.judge(resolve_state(recording, "ack:3")).findings == ()
        assert judge.judge(resolve_state(recording, "ack:4")).lost == (LsnRange(4, 4),)


def test_a_device_that_is_not_there_is_said(tmp_path: Path) -> None:
    from powercut.paths import WAL_BINARY

    if Path("/dev/mapper/no-such-device").exists():
        pytest.skip("a device of that name is there")
    words = [f"run_id={RUN_ID}", "layout=append", f"path={tmp_path / 'log'}", "records=1"]
    words += ["dmlog=no-such-device", f"channel={tmp_path / 'channel'}"]
    done = subprocess.run(
        [WAL_BINARY, "write", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "open the dm-log-writes device" in done.stderr
    assert not (tmp_path / "log").exists()
