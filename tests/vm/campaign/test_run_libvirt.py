# SPDX-License-Identifier: Apache-2.0
"""A real libvirtd: the same verdicts as by QEMU itself, and nothing is left of a domain."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from powercut.model.errors import HostError
from powercut.model.verdict import FindingKind, LsnRange, Verdict
from powercut.report.explained import explain
from powercut_extras.certify.likeness import scenario_like
from powercut_extras.libvirt.connection import connect
from powercut_extras.libvirt.likeness import likeness

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
WAIT_S = 300
ELEMENT = re.compile("<disk .*?</disk>", re.DOTALL)
NOBODY = 65534


@pytest.mark.parametrize(
    ("bus", "aio"),
    [("virtio-blk", "nbd, iothread: true, queues: 2, cpus: 2"), ("virtio-scsi", "threads")],
)
def test_an_honest_disk_is_safe_and_a_lying_one_is_not(run, libvirt_uri, bus, aio):
    result = run(BOTH_SIDES.format(uri=libvirt_uri, bus=bus, aio=aio))
    honest, lying = result.cells
    kinds = {finding.kind for finding in honest.trials[0].findings}
    assert FindingKind.NOT_AS_CONFIGURED not in kinds, "the guest has the queues that it is to have"
    assert honest.trials[0].commits_lost == 0
    assert honest.trials[0].verdict is not Verdict.LOSSY
    assert lying.verdict is Verdict.LOSSY
    (trial,) = lying.trials
    assert trial.lost_lsns == (LsnRange(1, trial.commits_acked),)
    assert not connect(libvirt_uri).listAllDomains()


def test_the_domain_of_a_controller_that_was_killed_is_gone(tmp_path, runtime, libvirt_uri):
    scenario = tmp_path / "long.yaml"
    scenario.write_text(
        "powercut: 1\nname: long\nfilesystem: {type: raw}\ncontrols: none\n"
        f'machine: {{backend: libvirt, connect: "{libvirt_uri}"}}\n'
        "cut: {trigger: {acks: 1000000}}\ndeadline: 1h\n"
    )
    program = Path(sys.executable).with_name("powercut")
    controller = subprocess.Popen(
        [program, "run", scenario, "--results", tmp_path / "results"],
        env={**os.environ, "TMPDIR": str(runtime)},  # a socket's path is short
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    libvirt = connect(libvirt_uri)
    try:
        wait_until(lambda: libvirt.listAllDomains() or controller.poll() is not None)
        assert controller.poll() is None
    finally:
        controller.send_signal(signal.SIGKILL)
        controller.wait(WAIT_S)
    wait_until(lambda: not libvirt.listAllDomains())
    wait_until(lambda: not any(runtime.iterdir()))


THEIRS = """\
<domain type='qemu'>
  <name>shop</name><memory unit='MiB'>64</memory><vcpu>1</vcpu>
  <os><type arch='x86_64' machine='q35'>hvm</type></os><features><acpi/></features>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <disk type='file' device='disk'>
      <driver name='qemu' type='raw' cache='{cache}' discard='unmap'/>
      <source file='{image}'/><target dev='vda' bus='virtio'/>
    </disk>
  </devices>
</domain>
"""


def test_a_running_domain_is_certified_by_its_name_and_never_touched(tmp_path, libvirt_uri):
    """It goes on running, and its hypervisor holds its image open and locked all the time."""
    image = tmp_path / "precious.img"
    image.write_bytes(b"precious" * 64)
    libvirt = connect(libvirt_uri)
    theirs = libvirt.defineXML(THEIRS.format(cache="unsafe", image=image))
    try:
        theirs.create()
        before = (theirs.XMLDesc(), theirs.ID())
        certified = certify(tmp_path, "--domain", "shop", "--connect", libvirt_uri)
        assert (theirs.XMLDesc(), theirs.ID()) == before
        assert theirs.isActive()
    finally:
        with contextlib.suppress(Exception):  # it may not have come as far
            theirs.destroy()
        theirs.undefine()
    assert image.read_bytes() == b"precious" * 64
    assert certified.returncode == 1, certified.stdout
    assert "tests run on scratch disks" in certified.stdout
    (path,) = tmp_path.glob("results/certify/*/2*/certificate.json")
    certificate = json.loads(path.read_text())
    verdicts = {cell["cell"]: cell["verdict"] for cell in certificate["cells"]}
    assert verdicts == {"vda-raw": "lossy", "vda-ext4": "lossy"}
    roles = {component["role"] for component in certificate["components"]}
    assert {"machine manager", "hypervisor"} <= roles


def test_of_a_domains_disks_the_one_that_drops_flushes_is_named(run, tmp_path, libvirt_uri):
    image = tmp_path / "precious.img"
    image.write_bytes(b"precious")
    text = THEIRS.format(cache="none", image=image)
    second = ELEMENT.findall(text)[0].replace("none", "unsafe").replace("vda", "vdb")
    libvirt = connect(libvirt_uri)
    theirs = libvirt.defineXML(text.replace("</devices>", f"{second}</devices>"))
    try:
        scenario = scenario_like(likeness("shop", None, libvirt_uri))
    finally:
        theirs.undefine()
    path = tmp_path / "shop.yaml"
    both = yaml.safe_load(scenario)
    both |= {"controls": "none", "explore": {"budget": "off"}, "cut": {"trigger": {"acks": 20}}}
    path.write_text(yaml.safe_dump(both | {"cells": both["cells"][-1:]}))
    (cell,) = run(path).cells
    assert cell.verdict is Verdict.LOSSY
    (trial,) = cell.trials
    assert [disk.name for disk in trial.disks] == ["vda", "vdb"]
    # 20 records fill stripes of both disks, whatever the file system does besides.
    assert "Disk vdb was sent" in explain(cell)
    assert "Disk vda" not in explain(cell)
    assert image.read_bytes() == b"precious"


def test_a_domain_that_is_not_there_is_named_with_its_neighbours(tmp_path, libvirt_uri):
    libvirt = connect(libvirt_uri)
    theirs = libvirt.defineXML(THEIRS.format(cache="none", image="/nowhere"))
    try:
        done = certify(tmp_path, "--domain", "shpo", "--connect", libvirt_uri)
    finally:
        theirs.undefine()
    assert done.returncode == 2
    assert "no domain 'shpo'" in done.stderr
    assert "did you mean shop?" in done.stderr


def test_a_connection_that_may_only_look_is_refused_before_anything_starts(tmp_path, libvirt_uri):
    libvirt = connect(libvirt_uri)
    theirs = libvirt.defineXML(THEIRS.format(cache="none", image="/nowhere"))
    try:
        done = certify(tmp_path, "--domain", "shop", "--connect", f"{libvirt_uri}-ro")
        assert [one.name() for one in libvirt.listAllDomains()] == ["shop"]
    finally:
        theirs.undefine()
    assert done.returncode == 3, done.stderr
    assert "it may start no domain: operation forbidden: read only access" in done.stderr
    assert "join the group libvirt" in done.stderr
    assert not list(tmp_path.glob("results/certify/*/2*/certificate.json"))


def test_a_user_who_may_not_reach_libvirtd_is_told_so(libvirt_uri):
    other = libvirt_uri.replace("/libvirt-sock", "//libvirt-sock")  # that nobody has connected to
    os.seteuid(NOBODY)
    try:
        with pytest.raises(HostError, match="Permission denied") as error:
            connect(other)
    finally:
        os.seteuid(0)
    assert "join the group libvirt" in error.value.hint


def certify(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("powercut")
    return subprocess.run(
        [program, "certify", *argv, "--no-cost", "--results", folder / "results"],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        cwd=folder,
    )


def wait_until(condition) -> None:
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
