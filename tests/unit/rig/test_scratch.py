# SPDX-License-Identifier: Apache-2.0
"""Scratch folders are gone afterwards, whatever happened to the process."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from powercut.rig.scratch import scratch

HOLDER = """
import sys
from powercut.rig.scratch import scratch
with scratch() as folder:
    (folder / "socket").touch()
    print(folder, flush=True)
    sys.stdin.read()
"""


def wait_gone(folder: Path) -> None:
    deadline = time.monotonic() + 10
    while folder.exists():
        assert time.monotonic() < deadline, f"{folder} is still there"
        time.sleep(0.01)  # nothing tells when somebody else's folder goes


def test_it_is_there_and_then_gone():
    with scratch() as folder:
        (folder / "deeper").mkdir()
        (folder / "deeper" / "file").touch()
        assert len(str(folder)) < 60
    assert not folder.exists()


def test_an_exception_does_not_keep_it():
    with pytest.raises(RuntimeError), scratch() as folder:
        raise RuntimeError
    assert not folder.exists()


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGTERM])
def test_a_signal_to_the_holder_does_not_keep_it(sig):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as holder:
        folder = Path(holder.stdout.readline().strip())
        assert (folder / "socket").exists()
        holder.send_signal(sig)
        holder.wait(timeout=10)
    wait_gone(folder)
