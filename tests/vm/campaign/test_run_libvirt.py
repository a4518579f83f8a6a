# SPDX-License-Identifier: Apache-2.0
"""A real libvirtd: the same verdicts as by QEMU itself, and nothing is left of a domain."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from powercut.machine.libvirt.connection import connect
from powercut.model.verdict import LsnRange, Verdict

BOTH_SIDES = """\
machine: {{backend: libvirt, connect: "{uri}", bus: {bus}, aio: {aio}}}
filesystem: {{type: raw}}
cut: {{trigger: {{acks: 20}}}}
controls: none
explore: {{budget: off}}
cells:
  - name: honest
  - name: lying
    disk.flush: ignored
    expect: lossy
"""
WAIT_S = 120


@pytest.mark.parametrize(("bus", "aio"), [("virtio-blk", "nbd"), ("virtio-scsi", "threads")])
def test_an_honest_disk_is_safe_and_a_lying_one_is_not(run, libvirt_uri, bus, aio):
    result = run(BOTH_SIDES.format(uri=libvirt_uri, bus=bus, aio=aio))
    honest, lying = result.cells
    assert honest.trials[0].commits_lost == 0
    assert honest.trials[0].verdict is not Verdict.LOSSY
    assert lying.verdict is Verdict.LOSSY
    (trial,) = lying.trials
    assert trial.lost_lsns == (LsnRange(1, trial.commits_acked),)
    assert not connect(libvirt_uri).listAllDomains()


def test_the_domain_of_a_controller_that_was_killed_is_gone(tmp_path, libvirt_uri):
    scenario = tmp_path / "long.yaml"
    scenario.write_text(
        "powercut: 1\nname: long\nfilesystem: {type: raw}\ncontrols: none\n"
        f'machine: {{backend: libvirt, connect: "{libvirt_uri}"}}\n'
        "cut: {trigger: {acks: 1000000}}\ndeadline: 1h\n"
    )
    program = Path(sys.executable).with_name("powercut")
    controller = subprocess.Popen(
        [program, "run", scenario, "--results", tmp_path / "results"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    libvirt = connect(libvirt_uri)
    try:
        wait_until(libvirt.listAllDomains)
    finally:
        controller.send_signal(signal.SIGKILL)
        controller.wait(WAIT_S)
    wait_until(lambda: not libvirt.listAllDomains())


def wait_until(condition) -> None:
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
