# SPDX-License-Identifier: Apache-2.0
"""What a verdict says was not tested, and which kernels are pressed."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from extras import extra
from powercut.model.operations import Pressed
from powercut.model.withheld import Withheld
from powercut.rig.commands import is_pressed
from powercut.scenario.choices import Writeback
from powercut.scenario.plan import Trial, Trigger, TriggerKind
from powercut.scenario.settings import MachineSettings, Parameters, ProgramSettings, WalSettings
from powercut.store.trial_dir import TrialRecord
from powercut.trial.job import RecordingInProgress
from powercut.trial.system import KernelSystem
from powercut.verdict import untested
from powercut.verdict.untested import BOOT_OF_THE_HOST, untested_of, untested_of_program


def program(**settings) -> ProgramSettings:
    return ProgramSettings(kind="program", command=("/bin/program",), **settings)


AT_WORK = Pressed(writebacks=900, commits=40)


def record(workload, *, pressed: Pressed = AT_WORK) -> TrialRecord:
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
    extra("elsewhere")
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

    def pressed(self, *, timeout_s: float) -> Pressed:
        assert timeout_s == 10
        return AT_WORK

    def set_up(self, *argv: str, timeout_s: float) -> None: ...

    def start_unsynced(self, *argv: str) -> None: ...

    def cut_nodes(self, *cut: object, timeout_s: float) -> None: ...


@pytest.mark.parametrize(
    ("workload", "seeds"),
    [(program(), [7]), (program(where="loop"), []), (program(writeback=Writeback.USUAL), [])],
    ids=["uml", "loop", "usual"],
)
def test_a_kernel_is_pressed_if_it_is_to_be_and_asked_what_came_of_it(workload, seeds):
    """A recording says what was done, not what was meant."""
    kernel = cast("Any", Kernel())
    run = SimpleNamespace(
        job=SimpleNamespace(parameters=Parameters(workload=workload)),
        run=SimpleNamespace(seed=7),
        deadline=SimpleNamespace(remaining_s=9, at_least=lambda seconds: seconds),
    )
    run.press = lambda how: RecordingInProgress.press(cast("Any", run), how)
    system = KernelSystem(cast("Any", run))
    system.make_ready(kernel)
    assert kernel.seeds == seeds
    assert system.pressed(cast("Any", None)) is AT_WORK


WRITES = "page cache's to choose"
COMMITS = "another's sync commits"


@pytest.mark.parametrize(
    ("settings", "pressed", "said"),
    [
        ({}, AT_WORK, []),
        ({}, Pressed(), [(WRITES, "was not told to"), (COMMITS, "no neighbour's sync")]),
        ({}, Pressed(writebacks=1), [(COMMITS, "no neighbour's sync has returned")]),
        ({}, Pressed(commits=1), [(WRITES, "was not told to write back")]),
        ({"where": "loop"}, Pressed(), [(WRITES, "not powercut's"), (COMMITS, "not powercut's")]),
        (
            {"writeback": Writeback.USUAL},
            Pressed(),
            [(WRITES, "workload.writeback is `usual`"), (COMMITS, "workload.writeback is `usual`")],
        ),
    ],
)
def test_a_kernel_that_was_left_alone_is_named(settings, pressed, said):
    told = [
        text
        for text in untested_of_program(record(program(**settings), pressed=pressed))
        if WRITES in text or COMMITS in text
    ]
    assert len(told) == len(said)
    for text, parts in zip(told, said, strict=True):
        assert all(part in text for part in parts)


def test_so_it_is_of_a_log_of_powercut_s_own():
    (told,) = untested_of(record(WalSettings(writeback=Writeback.USUAL)))
    assert "workload.writeback is `usual`" in told
    assert list(untested_of(record(WalSettings()))) == []


def test_a_variable_that_did_not_reach_the_program_is_named():
    """If none was kept from it nothing is said."""
    usual = list(untested_of_program(record(program())))
    kept = record(program()).model_copy(
        update={"withheld": Withheld(("LEDGER_FORGETS",), 2, searched=True)}
    )
    (told,) = (one for one in untested_of_program(kept) if one not in usual)
    assert told.endswith("the program's files mention LEDGER_FORGETS")
    assert not any("environment" in one for one in usual)


def test_where_a_check_sees_the_boot_of_the_host_it_is_said(monkeypatch):
    """Of a program that ran on the host's kernel; any other has booted by itself."""

    def told(where: str) -> bool:
        return BOOT_OF_THE_HOST in untested_of_program(record(program(where=where)))

    monkeypatch.setattr(untested, "new_clocks", lambda: [])
    assert told("loop")
    assert not told("uml")
    monkeypatch.setattr(untested, "new_clocks", lambda: ["unshare", "--time", "--"])
    assert not told("loop")
