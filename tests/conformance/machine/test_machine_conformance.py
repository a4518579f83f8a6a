# SPDX-License-Identifier: Apache-2.0
"""One suite over every backend of the machine port: what each owes, and what it leaves behind."""

from __future__ import annotations

import contextlib
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from fake_machine import FAKE

from powercut.channel.line_channel import LineChannel
from powercut.channel.lines import unpack
from powercut.disk.base import ensure_base_image
from powercut.disk.capture import CaptureDisk
from powercut.machine.port import (
    Ended,
    HasLines,
    LosesPower,
    MachineBackend,
    MachineSpec,
    ShutsDown,
)
from powercut.model.binding import Binding
from powercut.model.contract import CutPolicy
from powercut.model.errors import DeadlineExceeded, HostError
from powercut.paths import CACHE
from powercut.rig import commands
from powercut.rig.rig import Rig, machine_backend
from powercut.scenario.machines import LOOP, MACHINES, UML, backends, row_of
from powercut.scenario.settings import (
    DiskSettings,
    FilesystemSettings,
    Parameters,
    ProgramSettings,
)

BOOT_S = 120
END_S = 60
MADE = sorted(name for name in {*MACHINES, *backends()} if not row_of(name).own_system)
"""Machines that powercut makes; of one that is there already nothing is there for a test."""
OF_PROGRAMS = sorted(name for name, row in MACHINES.items() if row.of_programs)
"""Those without an agent, which alone date their lines and shut down by themselves."""
RAW = Parameters(disk=DiskSettings(size=4 << 20), filesystem=FilesystemSettings(type="raw"))
"""For machines with an agent, whose disk holds nothing."""


def program(where: str) -> Parameters:
    """For a kernel on this host, which mounts its disk, and whose commands are verbs."""
    settings = ProgramSettings(kind="program", command=("/bin/true",), folder="/", where=where)
    return Parameters(disk=DiskSettings(size=64 << 20), workload=settings)


@dataclass(frozen=True)
class Case:
    """A machine backend, the cell that it runs, and a command that does no harm there."""

    rig: Rig
    parameters: Parameters = RAW
    command: tuple[str, ...] = ("flushbufs", "/dev/vda")
    crashed: Ended = Ended.BY_ITSELF
    """How one ends whose guest has lost its RAM: a kernel on this host has no hypervisor."""
    of_programs: bool = False

    @property
    def machines(self) -> MachineBackend:
        return self.rig.machines

    def spec(self, disk: Path) -> MachineSpec:
        return self.rig.machine_spec(self.parameters, disk)


def machines(names: list[str]):
    """Parameters for `case`."""
    return [
        pytest.param(name, marks=[pytest.mark.vm, *([pytest.mark.loop] if name == LOOP else [])])
        for name in names
    ]


@pytest.fixture(params=["fake", *machines(MADE)])
def case(request, monkeypatch):
    name = request.param
    if name == "libvirt":
        uri = request.getfixturevalue("libvirt_uri")
        monkeypatch.setattr("powercut_extras.libvirt.backend.usual_uri", lambda: uri)
    monkeypatch.setitem(MACHINES, "fake", FAKE)
    backend = machine_backend(name, CACHE)
    if not row_of(name).of_programs:
        return Case(Rig(CACHE, backend))
    cell = program(name)
    if problems := backend.problems(cell.machine):
        pytest.skip("; ".join(problems))
    return Case(Rig(CACHE, backend), cell, ("/bin/true",), Ended.KILLED, of_programs=True)


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(prefix="pc-") as name:
        yield Path(name)


@pytest.fixture
def disk(folder, case):
    base = ensure_base_image(commands.base_image(case.parameters), CACHE)
    config = commands.capture_config(
        case.parameters, Binding(bytes(16)), base=base, log=folder / "log", sockets=folder
    )
    with CaptureDisk(config) as running:
        yield running


@contextlib.contextmanager
def opened(case, disk, folder, name="run"):
    """A machine that is off, and its channel."""
    (folder / name).mkdir()
    with case.machines.open(case.spec(disk.socket), folder / name) as (machine, channel):
        yield machine, channel


def test_some_machines_date_their_lines_and_shut_down_by_themselves():
    assert UML in OF_PROGRAMS


def test_what_it_is_made_of_is_told_without_starting_anything(case, folder):
    machines, spec = case.machines, case.spec(folder / "disk")
    assert machines.problems(case.parameters.machine) == ()
    assert machines.describe(spec, folder) == machines.describe(spec, folder)
    assert all(isinstance(word, str) for word in machines.describe(spec, folder))
    assert {"hypervisor", "guest kernel"} & {part.role for part in machines.identity(spec)}
    assert machines.versions(spec)["kernel_release"]
    assert not list(folder.iterdir())


def test_a_machine_that_was_never_started_has_not_ended(case, disk, folder):
    with opened(case, disk, folder) as (machine, _):
        assert (machine.running, machine.ended) == (False, None)
        for power in (HasLines, ShutsDown):
            assert isinstance(machine, power) == case.of_programs
        with pytest.raises(HostError, match="gone before the crash"):
            machine.crash(timeout_s=END_S)
    assert (machine.running, machine.ended) == (False, None)


def test_from_hello_to_the_kill(case, disk, folder):
    with opened(case, disk, folder) as (machine, channel):
        machine.start(timeout_s=BOOT_S)
        assert channel.wait_hello(timeout_s=BOOT_S)["release"]
        assert (machine.running, machine.ended) == (True, None)
        with pytest.raises(HostError, match="started once"):
            machine.start(timeout_s=BOOT_S)
        assert channel.run(*case.command, timeout_s=END_S).status == 0
        machine.kill(timeout_s=END_S)
        machine.kill(timeout_s=END_S)
        assert (machine.running, machine.ended) == (False, Ended.KILLED)
        assert len(channel.drain(timeout_s=END_S).ack_lsn) == 0
        assert isinstance(machine.diagnosis, str)


def test_a_crash_takes_the_guest_and_leaves_the_hypervisor_to_end_in_order(case, disk, folder):
    with opened(case, disk, folder) as (machine, channel):
        machine.start(timeout_s=BOOT_S)
        channel.wait_hello(timeout_s=BOOT_S)
        machine.crash(timeout_s=END_S)
        assert (machine.running, machine.ended) == (False, case.crashed)


def test_whoever_leaves_leaves_nothing_running_and_power_can_be_lost(case, disk, folder):
    with opened(case, disk, folder) as (machine, channel):
        machine.start(timeout_s=BOOT_S)
        channel.wait_hello(timeout_s=BOOT_S)
    assert not machine.running
    disk.cut(CutPolicy.KEEP, 1, None, timeout_s=END_S)
    with opened(case, disk, folder, "again") as (machine, channel):
        assert isinstance(machine, LosesPower)
        machine.start(timeout_s=BOOT_S)
        channel.wait_hello(timeout_s=BOOT_S)
        machine.lose_power(timeout_s=END_S)
        assert machine.ended is Ended.KILLED
        channel.drain(timeout_s=END_S)


@pytest.mark.parametrize("case", machines(OF_PROGRAMS), indirect=True)
def test_what_dates_its_lines_has_them_to_the_last(case, disk, folder):
    """They outlive the machine: what was said before the cut is heard after it."""
    with opened(case, disk, folder) as (machine, channel):
        assert isinstance(machine, HasLines)
        lines = LineChannel(machine.take_lines(), folder / "lines", Binding())
        with pytest.raises(HostError, match="have been taken"):
            machine.take_lines()
        machine.start(timeout_s=BOOT_S)
        began_ns = time.monotonic_ns()
        said = "echo ready >&3; for n in 1 2 3; do echo + $n >&3; done; sleep 1000"
        channel.start("/bin/sh", "-c", said)
        assert lines.wait_acks(3, timeout_s=END_S)
        with pytest.raises(DeadlineExceeded):
            channel.wait_done(timeout_s=0)
        machine.lose_power(timeout_s=END_S)
    with lines:
        lines.drain(timeout_s=END_S)
    packets = unpack((folder / "lines").read_bytes(), Binding())
    assert b"".join(one.data for one in packets) == b"ready\n+ 1\n+ 2\n+ 3\n"
    instants = [began_ns, *(one.at_ns for one in packets), time.monotonic_ns()]
    assert instants == sorted(instants)


@pytest.mark.parametrize("case", machines(OF_PROGRAMS), indirect=True)
def test_what_shuts_down_without_an_agent_has_made_everything_durable(case, disk, folder):
    with opened(case, disk, folder) as (machine, channel):
        assert isinstance(machine, ShutsDown)
        machine.start(timeout_s=BOOT_S)
        write = ("/bin/sh", "-c", "echo kept >/mnt/kept")
        assert channel.run(*write, timeout_s=END_S).status == 0
        machine.shut_down(timeout_s=END_S)
        assert machine.ended is Ended.BY_ITSELF
    disk.cut(CutPolicy.DROP, 1, None, timeout_s=END_S)
    with opened(case, disk, folder, "again") as (machine, channel):
        machine.start(timeout_s=BOOT_S)
        read = ("/bin/sh", "-c", "grep -qx kept /mnt/kept")
        assert channel.run(*read, timeout_s=END_S).status == 0
