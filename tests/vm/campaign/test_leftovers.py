# SPDX-License-Identifier: Apache-2.0
"""SIGKILL of the controller at any moment leaves nothing behind but evidence."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from powercut.paths import SCENARIOS

MARK = "POWERCUT_TEST_RUN"
FILES = [("matrix/aio.yaml", 4), ("lying/nvdimm.yaml", 5)]  # with a server and a mount more


def marked(value: str) -> list[tuple[int, str]]:
    """Living processes that have the mark in their environment, whoever their parent is."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if f"{MARK}={value}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append((int(entry.name), (entry / "cmdline").read_text()))
    return found


def held(folder: Path) -> list[str]:
    """Mounts and loop devices that have to do with it; other tests have theirs."""
    loops = []
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):  # it has gone meanwhile
            loops.append(f"{path}: {path.read_text()}")
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    return [line for line in (*mounts, *loops) if str(folder) in line]


def wait_until(condition) -> bool:
    """Others need a moment to notice that the controller is gone."""
    deadline = time.monotonic() + 120
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.parametrize(
    ("scenario", "seed"),
    [*(("first-light.yaml", seed) for seed in range(4)), *FILES],
)
def test_sigkill_at_a_random_moment(tmp_path, scenario, seed):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    value = uuid.uuid4().hex
    program = Path(sys.executable).with_name("powercut")
    command = [str(program), "run", str(SCENARIOS / scenario)]
    controller = subprocess.Popen(
        [*command, "--seed", "1", "--results", str(tmp_path / "results")],
        env={**os.environ, MARK: value, "TMPDIR": str(temporary)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    moment_s = random.Random(seed).uniform(0.3, 4)
    with contextlib.suppress(subprocess.TimeoutExpired):
        controller.wait(timeout=moment_s)
    controller.send_signal(signal.SIGKILL)
    controller.wait(timeout=120)
    assert wait_until(lambda: not marked(value)), marked(value)
    assert wait_until(lambda: not any(temporary.iterdir())), list(temporary.iterdir())
    assert held(tmp_path) == []
