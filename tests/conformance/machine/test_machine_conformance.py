# SPDX-License-Identifier: Apache-2.0
"""One suite over every backend of the machine port: what each owes, and what it leaves behind."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import pytest
from fake_machine import FAKE

from powercut.disk.capture import CaptureDisk
from powercut.machine.port import Ended, LosesPower
from powercut.machine.table import machine_backend
from powercut.model.binding import Binding
from powercut.model.contract import CutPolicy
from powercut.model.errors import HostError
from powercut.paths import CACHE
from powercut.rig import commands
from powercut.rig.rig import Rig
from powercut.scenario.machines import MACHINES
from powercut.scenario.settings import DiskSettings, FilesystemSettings, Parameters

BOOT_S = 120
END_S = 60
MADE = sorted(name for name, row in MACHINES.items() if not row.own_system)
"""Machines that powercut makes; of one that is there already nothing is there for a test."""
PARAMETERS = Parameters(disk=DiskSettings(size=4 << 20), filesystem=FilesystemSettings(type="raw"))


@pytest.fixture(params=["fake", *(pytest.param(name, marks=pytest.mark.vm) for name in MADE)])
def rig(request, monkeypatch):
    if request.param == "libvirt":
        uri = request.getfixturevalue("libvirt_uri")
        monkeypatch.setattr("powercut.machine.libvirt.backend.usual_uri", lambda: uri)
    monkeypatch.setitem(MACHINES, "fake", FAKE)
    return Rig(CACHE, machine_backend(request.param, CACHE))


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(prefix="pc-") as name:
        yield Path(name)


@pytest.fixture
def disk(folder):
    base = folder / "base"
    with base.open("wb") as file:
        file.truncate(PARAMETERS.disk.size)
    config = commands.capture_config(
        PARAMETERS, Binding(bytes(16)), base=base, log=folder / "log", sockets=folder
    )
    with CaptureDisk(config) as running:
        yield running


@contextlib.contextmanager
def opened(rig, disk, folder, name="run"):
    """A machine that is off, and its channel."""
    (folder / name).mkdir()
    spec = rig.machine_spec(PARAMETERS, disk.socket)
    with rig.machines.open(spec, folder / name) as (machine, channel):
        yield machine, channel


def test_what_it_is_made_of_is_told_without_starting_anything(rig, folder):
    machines, spec = rig.machines, rig.machine_spec(PARAMETERS, folder / "disk")
    assert machines.problems(PARAMETERS.machine) == ()
    assert machines.describe(spec, folder) == machines.describe(spec, folder)
    assert all(isinstance(word, str) for word in machines.describe(spec, folder))
    assert "hypervisor" in {part.role for part in machines.identity(spec)}
    assert machines.versions(spec)["kernel_release"]
    assert not list(folder.iterdir())


def test_a_machine_that_was_never_started_has_not_ended(rig, disk, folder):
    with opened(rig, disk, folder) as (machine, _):
        assert (machine.running, machine.ended) == (False, None)
        with pytest.raises(HostError, match="gone before the crash"):
            machine.crash(timeout_s=END_S)
    assert (machine.running, machine.ended) == (False, None)


def test_from_hello_to_the_kill(rig, disk, folder):
    with opened(rig, disk, folder) as (machine, channel):
        machine.start(timeout_s=BOOT_S)
        assert channel.wait_hello(timeout_s=BOOT_S)["release"]
        assert (machine.running, machine.ended) == (True, None)
        with pytest.raises(HostError, match="started once"):
            machine.start(timeout_s=BOOT_S)
        assert channel.run("flushbufs", "/dev/vda", timeout_s=END_S).status == 0
        machine.kill(timeout_s=END_S)
        machine.kill(timeout_s=END_S)
        assert (machine.running, machine.ended) == (False, Ended.KILLED)
        assert len(channel.drain(timeout_s=END_S).ack_lsn) == 0
        assert machine.diagnosis


def test_a_crash_is_an_end_in_order(rig, disk, folder):
    with opened(rig, disk, folder) as (machine, channel):
        machine.start(timeout_s=BOOT_S)
        channel.wait_hello(timeout_s=BOOT_S)
        machine.crash(timeout_s=END_S)
        assert (machine.running, machine.ended) == (False, Ended.BY_ITSELF)


def test_whoever_leaves_leaves_nothing_running_and_power_can_be_lost(rig, disk, folder):
    with opened(rig, disk, folder) as (machine, channel):
        machine.start(timeout_s=BOOT_S)
        channel.wait_hello(timeout_s=BOOT_S)
    assert not machine.running
    disk.cut(CutPolicy.KEEP, 1, None, timeout_s=END_S)
    with opened(rig, disk, folder, "again") as (machine, channel):
        assert isinstance(machine, LosesPower)
        machine.start(timeout_s=BOOT_S)
        channel.wait_hello(timeout_s=BOOT_S)
        machine.lose_power(timeout_s=END_S)
        assert machine.ended is Ended.KILLED
        channel.drain(timeout_s=END_S)
