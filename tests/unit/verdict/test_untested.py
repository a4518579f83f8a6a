# SPDX-License-Identifier: Apache-2.0
"""What a verdict says was not tested, and which kernels are pressed."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from powercut.model.withheld import Withheld
from powercut.rig.commands import is_pressed
from powercut.sandbox.rebooted import BOOT_OF_THE_HOST
from powercut.scenario.choices import Writeback
from powercut.scenario.plan import Trial, Trigger, TriggerKind
from powercut.scenario.settings import MachineSettings, Parameters, ProgramSettings, WalSettings
from powercut.store.trial_dir import TrialRecord
from powercut.trial.job import RecordingInProgress
from powercut.trial.system import KernelSystem
from powercut.verdict import untested
from powercut.verdict.untested import untested_of, untested_of_program


def program(**settings) -> ProgramSettings:
    return ProgramSettings(kind="program", command=("/bin/program",), **settings)


def record(workload, *, pressed: bool) -> TrialRecord:
    first = Trial(1, 1, 1, Trigger(TriggerKind.ACKS, 1))
    return TrialRecord(
        powercut="0", scenario="s", cell="c", parameters=Parameters(workload=workload), trial=first,
        run_id="00" * 16, pressed=pressed,
    )  # fmt: skip


@pytest.mark.parametrize("workload", [program(), program(root="debian"), WalSettings()])
def test_a_kernel_of_powercut_s_is_pressed_unless_it_is_not_to_be(workload):
    assert is_pressed(Parameters(workload=workload))
    usual = workload.model_copy(update={"writeback": Writeback.USUAL})
    assert not is_pressed(Parameters(workload=usual))


def test_a_kernel_of_somebody_else_s_is_left_alone():
    machine = MachineSettings(backend="foreign", folder="/srv/powercut")
    foreign = Parameters(workload=program(root="machine"), machine=machine)
    assert not is_pressed(foreign)
    assert not is_pressed(Parameters(workload=program(where="loop")))


class Kernel:
    """What runs verbs, and hears with which seed it is to write back early."""

    def __init__(self) -> None:
        self.seeds: list[int] = []

    def press(self, seed: int, *, timeout_s: float) -> None:
        assert timeout_s == 9
        self.seeds.append(seed)

    def set_up(self, *argv: str, timeout_s: float) -> None: ...

    def start_unsynced(self, *argv: str) -> None: ...


@pytest.mark.parametrize(
    ("workload", "seeds"),
    [(program(), [7]), (program(where="loop"), []), (program(writeback=Writeback.USUAL), [])],
    ids=["uml", "loop", "usual"],
)
def test_a_recording_says_that_it_was_pressed_if_it_was(workload, seeds):
    kernel = Kernel()
    run = SimpleNamespace(
        job=SimpleNamespace(parameters=Parameters(workload=workload)),
        pressed=False,
        run=SimpleNamespace(seed=7),
        deadline=SimpleNamespace(remaining_s=9),
    )
    run.press = lambda how: RecordingInProgress.press(cast("Any", run), how)
    KernelSystem(cast("Any", run)).make_ready(cast("Any", kernel))
    assert (kernel.seeds, run.pressed) == (seeds, bool(seeds))


@pytest.mark.parametrize(
    ("settings", "pressed", "said"),
    [
        ({}, True, []),
        ({}, False, ["is not powercut's to press"]),
        ({"writeback": Writeback.USUAL}, False, ["workload.writeback is `usual`"]),
    ],
)
def test_a_kernel_that_was_left_alone_is_named(settings, pressed, said):
    told = [
        text
        for text in untested_of_program(record(program(**settings), pressed=pressed))
        if "page cache's to choose" in text
    ]
    assert len(told) == len(said)
    assert all(part in text for text, part in zip(told, said, strict=True))


def test_so_it_is_of_a_log_of_powercut_s_own():
    (told,) = untested_of(record(WalSettings(writeback=Writeback.USUAL), pressed=False))
    assert "workload.writeback is `usual`" in told
    assert list(untested_of(record(WalSettings(), pressed=True))) == []


def test_a_variable_that_did_not_reach_the_program_is_named():
    """If none was kept from it nothing is said."""
    usual = list(untested_of_program(record(program(), pressed=True)))
    kept = record(program(), pressed=True).model_copy(
        update={"withheld": Withheld(("LEDGER_FORGETS",), 2, searched=True)}
    )
    (told,) = (one for one in untested_of_program(kept) if one not in usual)
    assert "LEDGER_FORGETS; nor with 2 others" in told
    assert not any("environment" in one for one in usual)


def test_where_a_check_sees_the_boot_of_the_host_it_is_said(monkeypatch):
    """Of a program that ran on the host's kernel; any other has booted by itself."""

    def told(where: str) -> bool:
        return BOOT_OF_THE_HOST in untested_of_program(record(program(where=where), pressed=True))

    monkeypatch.setattr(untested, "new_clocks", lambda: [])
    assert told("loop")
    assert not told("uml")
    monkeypatch.setattr(untested, "new_clocks", lambda: ["unshare", "--time", "--"])
    assert not told("loop")
