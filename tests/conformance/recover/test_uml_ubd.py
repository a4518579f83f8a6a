# SPDX-License-Identifier: Apache-2.0
"""User-Mode Linux's own block driver completes flushes and does nothing: no recordings over it.

docs/findings/uml-ubd-flush.md has the reason.  A version that flushes would fail the first test.
"""

import contextlib
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from powercut.recover.plan import RecoveryPlan
from powercut.recover.uml.engine import UmlEngine, unavailable

pytestmark = [
    pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable())),
    *(pytest.mark.fuse, pytest.mark.mounts),  # in sight of a kernel that is started beside it
]

RECORDS = 500
LOG = (f"run_id={'0' * 32}", "layout=raw", "path=/dev/ubda", "record=512", "align=512")
READ = ("/bin/wal", "read", *LOG)
WRITE = ("/bin/wal", "write", *LOG, "sync=fdatasync", f"records={RECORDS}", "channel=fd:3")
START_S = 120


@contextlib.contextmanager
def counted_disk(folder: Path):
    """A disk as a file; what was asked of it is in the file `stats` once the context is left."""
    socket, disk = folder / "nbd", folder / "disk"
    disk.touch()
    server = subprocess.Popen(
        [
            "nbdkit",
            "-f",
            "-U",
            socket,
            "--filter=stats",
            "memory",
            "16M",
            f"statsfile={folder}/stats",
        ]
    )
    deadline = time.monotonic() + START_S
    try:
        while not socket.exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        # Root's kernel is another user of the host, whom FUSE would refuse.
        options = ["-o", "allow_other"] if os.geteuid() == 0 else []
        fuse = subprocess.Popen(["nbdfuse", *options, disk, f"nbd+unix:///?socket={socket}"])
        try:
            while not disk.stat().st_size:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            yield disk
        finally:
            fuse.terminate()
            fuse.wait(START_S)
    finally:
        server.terminate()
        server.wait(START_S)


def count(folder: Path, what: str) -> int:
    found = re.search(rf"^{what}: (\d+) ops", (folder / "stats").read_text(), re.MULTILINE)
    return int(found[1]) if found else 0


@pytest.mark.parametrize(("flags", "flushes"), [("", 0), ("s", RECORDS)])
def test_ubd_flushes_only_when_every_write_is_synchronous(flags, flushes, tmp_path):
    base = tmp_path / "base"
    with base.open("xb") as file:
        file.truncate(1 << 20)
    with counted_disk(tmp_path) as disk:
        fd = os.open(disk, os.O_RDWR | (os.O_SYNC if flags else 0))
        plan = RecoveryPlan.of("", "", "", READ)
        with UmlEngine(base, plan, disk_fd=fd, disk_flags=flags) as engine:
            engine.start(timeout_s=120)
            engine.mount(timeout_s=60)
            answer = engine.execute(WRITE, timeout_s=120)
        os.close(fd)
    assert answer.acked == RECORDS, "every commit was acknowledged"
    assert count(tmp_path, "write") == RECORDS
    assert count(tmp_path, "flush") == flushes
