# SPDX-License-Identifier: Apache-2.0
"""The agent as PID 1 of a real guest: file systems, facts, failures, the end."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from powercut.channel.guest_channel import GuestChannel
from powercut.machine.port import FileDisk
from powercut.machine.qemu.machine import QemuMachine
from powercut.machine.qemu.template import TemplateStore
from powercut.model.machine import CacheMode

pytestmark = pytest.mark.usefixtures("nothing_is_left")
WAIT_S = 120.0
MKFS = {
    "xfs": ("mkfs.xfs", "-q"),
    "ext4": ("mke2fs", "-q", "-t", "ext4", "-F"),
    "btrfs": ("mkfs.btrfs", "-q"),
}
Guest = tuple[QemuMachine, GuestChannel]


@pytest.fixture
def image(runtime: Path) -> Path:
    path = runtime / "disk.img"
    path.touch()
    os.truncate(path, 320 << 20)
    return path


@pytest.fixture
def guest(
    make_machine: Callable[..., Guest], image: Path, templates: TemplateStore
) -> Iterator[Guest]:
    cache = CacheMode.WRITEBACK
    with make_machine(FileDisk(image), templates=templates, cache=cache) as (machine, channel):
        machine.start(timeout_s=WAIT_S)
        channel.wait_hello(timeout_s=WAIT_S)
        yield machine, channel


def run(channel: GuestChannel, *argv: str) -> tuple[int, str]:
    result = channel.run(*argv, timeout_s=WAIT_S)
    return result.status, result.error


@pytest.mark.parametrize("kind", MKFS)
def test_file_system_is_mounted_used_and_left(
    make_machine: Callable[..., Guest], image: Path, templates: TemplateStore, kind: str
) -> None:
    search = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    if shutil.which(MKFS[kind][0], path=search) is None:
        pytest.skip(f"no {MKFS[kind][0]}; `powercut doctor` says how to get it")
    subprocess.run(
        [*MKFS[kind], str(image)], check=True, env=dict(os.environ, PATH=search), timeout=WAIT_S
    )
    cache = CacheMode.WRITEBACK
    with make_machine(FileDisk(image), templates=templates, cache=cache) as (machine, channel):
        machine.start(timeout_s=WAIT_S)
        hello = channel.wait_hello(timeout_s=WAIT_S)
        assert hello["modules_failed"] == ""
        assert hello["disks"] == "vda"
        assert run(channel, "mount", kind, "vda", "/mnt/log", "noatime") == (0, "")
        assert run(channel, "mkdir", "/mnt/log/a/b") == (0, "")
        assert run(channel, "sync", "/mnt/log/a") == (0, "")
        status, error = run(channel, "umount", "/mnt")
        assert status == 1
        assert "umount /mnt" in error
        assert run(channel, "umount", "/mnt/log") == (0, "")
        assert run(channel, "flushbufs", "/dev/vda") == (0, "")
        # What was made is on the disk, and /mnt/log without it is empty.
        assert run(channel, "mount", kind, "/dev/vda", "/mnt/log", "ro")[0] == 0
        status, error = run(channel, "mkdir", "/mnt/log/c")
        assert status == 1
        assert "mkdir /mnt/log/c" in error
        assert run(channel, "mkdir", "/mnt/log/a/b") == (0, "")


def test_mount_of_garbage_says_why(guest: Guest, image: Path) -> None:
    _, channel = guest
    for kind in ("xfs", "ext4"):
        result = channel.run("mount", kind, "vda", "/mnt", timeout_s=WAIT_S)
        assert result.status == 1
        assert f"mount {kind} /dev/vda on /mnt" in result.error
        assert any(text.startswith("kernel: ") and "vda" in text for text in result.texts)


def test_facts_are_those_of_the_disk(guest: Guest, image: Path) -> None:
    _, channel = guest
    facts = channel.run("facts", "/dev/vda", timeout_s=WAIT_S).facts
    assert facts["write_cache"] == "write back"
    assert facts["fua"] == "0"
    assert facts["driver"] == "virtio_blk"
    assert int(facts["size"]) * 512 == image.stat().st_size
    assert run(channel, "write", "/sys/block/vda/queue/write_cache", "write through") == (0, "")
    facts = channel.run("facts", "vda", timeout_s=WAIT_S).facts
    assert facts["write_cache"] == "write through"
    stat = channel.run("stat", "vda", timeout_s=WAIT_S).facts["stat"].split()
    assert len(stat) >= 17


def test_workload_that_cannot_run_leaves_the_agent_at_work(guest: Guest) -> None:
    _, channel = guest
    assert run(channel, "exec", "/bin/nothing")[0] == 127
    assert run(channel, "exec", "/bin/wal", "write", "nonsense=1")[0] not in (0, 127)
    assert run(channel, "mkdir", "/alive") == (0, "")


def test_poweroff_ends_the_machine(guest: Guest) -> None:
    machine, channel = guest
    assert run(channel, "poweroff") == (0, "")
    deadline = time.monotonic() + WAIT_S
    while machine.running:
        assert time.monotonic() < deadline
        time.sleep(0.01)
