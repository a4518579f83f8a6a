# SPDX-License-Identifier: Apache-2.0
"""A capture disk as a file: what reaches it, what a cut takes, and that nothing is left."""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from powercut.disk.capture import CaptureDisk
from powercut.disk.capture_config import CaptureConfig
from powercut.machine.fuse import NbdFuse
from powercut.model.errors import HostError

pytestmark = pytest.mark.fuse

SIZE = 1 << 20
TIMEOUT_S = 120

DYING = """
import os, signal, sys
from pathlib import Path
from powercut.machine.fuse import NbdFuse
file = NbdFuse(Path(sys.argv[1]), Path(sys.argv[2]), timeout_s=300)
print(file.path, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def folder():
    """Short enough for the path of a socket."""
    with tempfile.TemporaryDirectory(prefix="pcfuse-") as name:
        yield Path(name)


@pytest.fixture
def disk(folder):
    (folder / "base").write_bytes(bytes(SIZE))
    config = CaptureConfig(base=folder / "base", log=None, sockets=folder)
    with CaptureDisk(config) as running:
        yield running


def mounts(folder: Path) -> list[str]:
    """Those on this host that have to do with it; other tests have theirs."""
    return [one for one in Path("/proc/self/mounts").read_text().splitlines() if str(folder) in one]


def surviving(folder: Path, disk: CaptureDisk) -> bytes:
    image = folder / "medium"
    disk.snapshot(image)
    return image.read_bytes()


def test_a_write_arrives_before_it_returns_and_a_sync_is_a_flush(folder, disk):
    file = NbdFuse(disk.socket, folder, timeout_s=TIMEOUT_S)
    assert file.path.stat().st_size == SIZE
    with file.path.open("r+b", buffering=0) as cached:
        cached.write(b"a" * 4096)
        assert (disk.statistics().writes, disk.statistics().flushes) == (1, 0)
        os.fdatasync(cached)
        assert (disk.statistics().writes, disk.statistics().flushes) == (1, 1)
    direct = os.open(file.path, os.O_RDWR | os.O_DIRECT)
    try:
        page = mmap.mmap(-1, 4096)
        assert os.pwrite(direct, page, 8192) == 4096
    finally:
        os.close(direct)
    assert (disk.statistics().writes, disk.statistics().flushes) == (2, 1)
    file.close(timeout_s=TIMEOUT_S)
    assert mounts(folder) == []
    assert surviving(folder, disk)[:4097] == b"a" * 4096 + b"\0"


def test_root_s_mounts_and_opens_files_and_has_no_other_capability(folder, disk):
    """SYS_ADMIN, DAC_OVERRIDE, DAC_READ_SEARCH and IPC_LOCK."""
    file = NbdFuse(disk.socket, folder, timeout_s=TIMEOUT_S)
    status = Path(f"/proc/{file.pid}/status").read_text()
    file.close(timeout_s=TIMEOUT_S)
    has = int(status.partition("CapEff:")[2].split()[0], 16)
    assert os.geteuid() or not has & ~0x204006


@pytest.mark.parametrize("power", ["lost", "kept"])
def test_a_mapping_has_a_cache_that_goes_with_the_host(folder, disk, power):
    file = NbdFuse(disk.socket, folder, timeout_s=TIMEOUT_S)
    opened = os.open(file.path, os.O_RDWR)
    try:
        mapping = mmap.mmap(opened, SIZE)
        mapping[0:4] = b"sync"
        os.fsync(opened)
        mapping[4096:4100] = b"late"
        assert disk.statistics().writes == 1, "whole pages, when they are synced"
        if power == "lost":
            file.kill()
            with pytest.raises(OSError, match="not connected"):
                os.fsync(opened)
        else:
            file.close(timeout_s=TIMEOUT_S)
    finally:
        with contextlib.suppress(OSError):  # the server is gone; the descriptor is, too
            os.close(opened)
    image = surviving(folder, disk)
    assert image[0:4] == b"sync"
    assert image[4096:4100] == (b"late" if power == "kept" else bytes(4))
    file.close(timeout_s=TIMEOUT_S)  # idempotent
    file.kill()


def test_the_end_of_the_controller_leaves_neither_process_nor_mount(folder, disk):
    argv = [sys.executable, "-c", DYING, str(disk.socket), str(folder)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    served = Path(done.stdout.strip())
    deadline = time.monotonic() + TIMEOUT_S
    while served.exists():
        assert time.monotonic() < deadline, "nbdfuse lives on"
        time.sleep(0.01)
    assert mounts(folder) == []


def test_a_disk_that_is_not_there_is_told_with_what_nbdfuse_said(folder):
    with pytest.raises(HostError, match="nbdfuse ended with status") as caught:
        NbdFuse(folder / "nothing", folder, timeout_s=TIMEOUT_S)
    assert "No such file or directory" in str(caught.value)
    assert "libnbd-bin" in caught.value.hint


def test_a_host_without_nbdfuse_is_told_what_to_install(folder, monkeypatch):
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(HostError, match="nbdfuse is not installed") as caught:
        NbdFuse(folder / "nothing", folder, timeout_s=TIMEOUT_S)
    assert "libnbd-bin" in caught.value.hint
