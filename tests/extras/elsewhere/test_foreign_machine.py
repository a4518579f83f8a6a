# SPDX-License-Identifier: Apache-2.0
"""Machines that are there already: a cut that did not happen is an error, never a pass."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from fake_remote import FakeHost, FakeRemote

from powercut.machine.port import Ended
from powercut.model.errors import DeadlineExceeded, HostError
from powercut.scenario.settings_machine import PowerSettings
from powercut_extras.elsewhere.machine import ForeignMachine
from powercut_extras.elsewhere.power import IS_OFF, Power

LONG_S = 60
SLOW_S = 5
"""What hangs has begun by then, on a busy host, too."""


@pytest.fixture
def host(tmp_path):
    with FakeHost(tmp_path) as made:
        yield made


def power_of(host, *, on=True, status=True, off=True):
    return Power(
        PowerSettings(
            off=(host.switch.command("off") if off else "true",),
            on=(host.switch.command("on"),) if on else (),
            status=(host.switch.command("status"),) if status else (),
        )
    )


def machine_of(host, tmp_path, **options):
    folder = tmp_path / "outlives"
    folder.mkdir(exist_ok=True)
    return ForeignMachine("fake", FakeRemote(host), power_of(host, **options), folder)


@pytest.mark.parametrize("status", [True, False])
def test_a_cut_is_seen_and_the_next_boot_is_another(host, tmp_path, status):
    first = machine_of(host, tmp_path, status=status)
    first.start(timeout_s=LONG_S)
    assert (first.boot_id, first.running, first.ended) == (host.boot_id, True, None)
    first.lose_power(timeout_s=LONG_S)
    assert (host.is_on, first.running, first.ended) == (False, False, Ended.KILLED)
    first.lose_power(timeout_s=LONG_S)  # idempotent
    again = machine_of(host, tmp_path, status=status)
    again.start(timeout_s=LONG_S)
    assert (again.boot_id, host.boots) == (host.boot_id, 2)
    assert again.boot_id != first.boot_id


def test_one_that_is_off_is_switched_on(host, tmp_path):
    host.off()
    machine_of(host, tmp_path).start(timeout_s=LONG_S)
    assert host.boots == 2


def test_one_that_is_on_and_does_not_answer_yet_is_waited_for(host, tmp_path):
    power = Power(PowerSettings(off=("true",), on=("false",), status=("echo is on",)))
    host.is_on = False  # to ssh; its switch says that it boots
    machine = ForeignMachine("fake", FakeRemote(host), power, tmp_path)
    with pytest.raises(DeadlineExceeded, match="does not answer"):
        machine.start(timeout_s=1)


@pytest.mark.parametrize("status", [True, False])
def test_power_that_stays_is_no_cut(host, tmp_path, status):
    host.unplugged = True
    machine = machine_of(host, tmp_path, status=status)
    machine.start(timeout_s=LONG_S)
    with pytest.raises(HostError, match="there was no cut") as error:
        machine.lose_power(timeout_s=1)
    assert "machine.power.off" in error.value.hint


def test_the_same_boot_id_after_a_cut_is_an_error(host, tmp_path):
    machine = machine_of(host, tmp_path)
    machine.start(timeout_s=LONG_S)
    machine.lose_power(timeout_s=LONG_S)
    host.is_on = True  # a suspended machine that was woken: it is the one that it was
    with pytest.raises(HostError, match="did not lose its power"):
        machine_of(host, tmp_path).start(timeout_s=LONG_S)


def test_one_that_never_comes_back(host, tmp_path):
    machine = machine_of(host, tmp_path)
    machine.start(timeout_s=LONG_S)
    machine.lose_power(timeout_s=LONG_S)
    host.comes_back = False
    with pytest.raises(DeadlineExceeded, match=r"did not come back.*no route to host"):
        machine_of(host, tmp_path).start(timeout_s=1)


def test_one_that_shuts_down_was_not_cut(host, tmp_path):
    host.orderly = True
    machine = machine_of(host, tmp_path)
    machine.start(timeout_s=LONG_S)
    remote = FakeRemote(host)
    remote.connect(timeout_s=LONG_S)
    machine.writer = remote.begin("sleep 1000", timeout_s=LONG_S)
    machine.lose_power(timeout_s=LONG_S)
    assert machine.ended is Ended.BY_ITSELF


def test_a_program_that_had_ended_before_says_nothing_of_the_cut(host, tmp_path):
    machine = machine_of(host, tmp_path)
    machine.start(timeout_s=LONG_S)
    remote = FakeRemote(host)
    remote.connect(timeout_s=LONG_S)
    machine.writer = remote.begin("true", timeout_s=LONG_S)
    while not machine.writer.ended_in_order:
        time.sleep(0.01)
    machine.lose_power(timeout_s=LONG_S)
    assert machine.ended is Ended.KILLED


def test_a_machine_without_a_boot_id_is_refused(host, tmp_path):
    host.boot_id = "cat: No such file"
    with pytest.raises(HostError, match="no boot id"):
        machine_of(host, tmp_path).start(timeout_s=LONG_S)


def test_nobody_is_let_in(host, tmp_path):
    host.lets_in = False
    with pytest.raises(HostError, match="Authentication failed"):
        machine_of(host, tmp_path).start(timeout_s=LONG_S)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("false", "`false` ended with status 1: it printed nothing"),
        ("/no-such-program-here", "cannot be started: No such file"),
        ((sys.executable, "-c", "raise SystemExit('no outlet 7')"), "no outlet 7"),
    ],
)
def test_a_command_that_fails_is_told_with_its_words(command, words):
    with pytest.raises(HostError) as error:
        Power(PowerSettings(off=(command,))).off(timeout_s=LONG_S)
    assert words in str(error.value)
    assert "machine.power.off" in str(error.value)


def test_a_command_that_hangs_is_ended_with_what_it_started(tmp_path):
    mark = tmp_path / "pid"
    script = f"sleep 1000 & echo $! > '{mark}'; wait"
    with pytest.raises(DeadlineExceeded, match="did not end within 5 s"):
        Power(PowerSettings(off=(("sh", "-c", script),))).off(timeout_s=SLOW_S)
    pid = mark.read_text().strip()
    status = Path(f"/proc/{pid}/stat")
    deadline = time.monotonic() + LONG_S
    while time.monotonic() < deadline:
        try:
            if status.read_text().split()[2] == "Z":
                return
        except FileNotFoundError:
            return
        time.sleep(0.01)
    pytest.fail("it lives on")


@pytest.mark.parametrize(
    ("said", "off"),
    [
        ("Chassis Power is off", True),
        ("Chassis Power is on", False),
        ('VMState="poweroff"', True),
        ('VMState="running"', False),
        ("shut off", True),
        ('{"output": false, "state": "OFF"}', True),
        ("offset 12: on", False),
        ("powered off", True),
    ],
)
def test_what_says_that_a_machine_is_off(said, off):
    assert bool(IS_OFF.search(said)) is off


def test_a_kernel_that_restarts_is_a_cut_too(host, tmp_path):
    folder = tmp_path / "outlives"
    folder.mkdir()
    machine = ForeignMachine("fake", FakeRemote(host), Power(None), folder)
    machine.start(timeout_s=LONG_S)
    machine.crash(timeout_s=LONG_S)
    assert (host.boots, machine.ended) == (2, Ended.KILLED)
    again = ForeignMachine("fake", FakeRemote(host), Power(None), folder)
    again.start(timeout_s=LONG_S)
    assert again.boot_id == host.boot_id != machine.boot_id
