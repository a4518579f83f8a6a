# SPDX-License-Identifier: Apache-2.0
"""A trial from its plan to its verdict on a fake machine: cuts, trouble, deadlines.

Channel, disk, recording and judge are the real ones.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_machine import Behaviour, FakeBackend, FakeMachine

from powercut.model.contract import CutKind, CutPolicy
from powercut.model.errors import DeadlineExceeded
from powercut.model.events import Phase
from powercut.model.machine import Move, Restart
from powercut.model.verdict import FindingKind, LsnRange, Verdict
from powercut.paths import CACHE
from powercut.recording.sealed import SealedTrial
from powercut.rig.engine_shelf import EngineShelf
from powercut.rig.rig import Rig
from powercut.scenario.plan import Trial, Trigger, TriggerKind
from powercut.scenario.settings import (
    CutSettings,
    DiskSettings,
    FilesystemSettings,
    MachineSettings,
    Parameters,
    WalSettings,
)
from powercut.store.trial_dir import TrialDir
from powercut.trial.job import TrialJob
from powercut.trial.record import record_trial
from powercut.verdict.judge import judge_recording

RECORD = 512
SLOTS = 4096


class OnMains(FakeMachine):
    """A machine that cannot lose its power."""

    lose_power = None  # type: ignore[assignment]


def parameters(*, kind="power-loss", deadline_s=60.0, during=(), slots=SLOTS, **disk) -> Parameters:
    policy = CutPolicy.DROP if kind == "power-loss" else CutPolicy.KEEP
    return Parameters(
        machine=MachineSettings(during=during),
        disk=DiskSettings(size=4 << 20, **disk),
        filesystem=FilesystemSettings(type="raw"),
        workload=WalSettings(layout="raw", record=RECORD, align=0, capacity=slots * RECORD),
        cut=CutSettings(kind=kind, policy=policy),
        deadline=f"{deadline_s:g}s",
    )


def job(settings: Parameters, trigger: str = "acks", value: int = 20) -> TrialJob:
    made = Trial(1, 7, 8, Trigger(TriggerKind(trigger), value))
    return TrialJob("fake", "cell", settings, made, bytes(range(16)))


@pytest.fixture
def tried(tmp_path: Path):
    """Records a trial with a guest of some behaviour, and judges it."""

    def try_it(settings=None, behaviour=None, *, machine=FakeMachine, **trigger):
        directory = TrialDir(tmp_path / "run" / "cells" / "cell" / "0001", tmp_path / "run")
        directory.path.mkdir(parents=True)
        backend = FakeBackend(behaviour=behaviour)
        backend.machine = machine
        rig = Rig(CACHE, backend)
        wanted = job(settings or parameters(), **trigger)
        record_trial(rig, wanted, directory, lambda _: None, EngineShelf())
        assert not any(made.running for made in backend.made)
        try_it.machine = backend.made[0]
        return judge_recording(SealedTrial(directory)), directory.read_record()

    try_it.machine = None
    return try_it


def kinds(result) -> set[FindingKind]:
    return {finding.kind for finding in result.findings}


def hot_plugged(**disk) -> Parameters:
    settings = parameters(**disk)
    machine = settings.machine.model_copy(update={"hotplug": True})
    return settings.model_copy(update={"machine": machine})


def test_a_disk_is_plugged_in_before_the_workload_begins_and_keeps_what_it_promised(tried):
    result, record = tried(hot_plugged(), Behaviour(hangs_after=20))
    assert (result.live_losses, record.trouble) == ((), "")
    assert record.guest_facts["disks_at_boot"] == "none"
    assert FindingKind.NOT_AS_CONFIGURED not in kinds(result)
    assert result.commits_acked == 20


def test_a_lying_disk_that_was_plugged_in_is_convicted_of_every_record(tried):
    result, _ = tried(hot_plugged(flush="ignored", fua="ignored"), Behaviour(hangs_after=20))
    assert result.verdict is Verdict.LOSSY
    assert result.lost_lsns == (LsnRange(1, 20),)


def test_a_guest_that_had_a_disk_before_says_nothing_about_hot_plug(tried):
    result, _ = tried(hot_plugged(), Behaviour(hangs_after=20, disks=("vda",)))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert FindingKind.NOT_AS_CONFIGURED in kinds(result)


def test_a_guest_that_does_not_find_the_disk_is_trouble(tried):
    result, record = tried(hot_plugged(deadline_s=2.0), Behaviour(finds_plugged=False))
    assert "the guest did not find vda" in record.trouble
    assert result.verdict is Verdict.INCONCLUSIVE


class NoPlug(FakeMachine):
    """A machine that has all its disks when it boots."""

    plug_disk = None  # type: ignore[assignment]


def test_a_machine_that_cannot_plug_is_trouble(tried):
    result, record = tried(hot_plugged(), machine=NoPlug)
    assert "has all its disks when it boots" in record.trouble
    assert result.verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("kind", ["power-loss", "vm-kill", "guest-crash"])
def test_an_honest_disk_keeps_what_was_acknowledged_through_every_cut(tried, kind):
    result, record = tried(parameters(kind=kind), Behaviour(hangs_after=20))
    assert (result.live_losses, record.trouble) == ((), "")
    assert result.commits_acked == 20
    assert record.cut_ns is not None
    assert record.versions == {"kernel_release": "6.1-fake"}


def test_a_lying_disk_is_convicted_of_every_record(tried):
    settings = parameters(flush="ignored", fua="ignored")
    result, record = tried(settings, Behaviour(hangs_after=20))
    assert record.trouble == ""
    assert result.verdict is Verdict.LOSSY
    lost = {lsn for finding in result.live_losses for span in finding.lsns for lsn in span}
    assert lost == set(range(1, 21))


def test_only_a_loss_of_power_convicts_it(tried):
    result, _ = tried(parameters(kind="vm-kill", flush="ignored", fua="ignored"))
    assert result.live_losses == ()
    assert result.verdict is not Verdict.LOSSY


def test_a_cut_at_a_flush_finds_the_disk_there(tried):
    result, record = tried(trigger="flushes", value=10)
    assert record.trouble == ""
    assert result.commits_acked == 9, "the tenth flush was never answered"
    assert result.live_losses == ()


@pytest.mark.parametrize(
    ("behaviour", "says"),
    [
        (Behaviour(starts=False), "told not to start"),
        (Behaviour(fails="flushbufs"), "`flushbufs /dev/vda` failed"),
    ],
)
def test_a_system_that_does_not_come_up_is_no_loss(tried, behaviour, says):
    result, record = tried(behaviour=behaviour)
    assert says in record.trouble
    assert "the guest never booted" in record.trouble
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.live_losses == ()


def test_a_machine_that_dies_is_inconclusive_and_what_was_acked_counts(tried):
    result, record = tried(behaviour=Behaviour(dies_after=12), value=1000)
    assert "connection to the guest ended" in record.trouble
    assert (result.verdict, result.commits_acked) == (Verdict.INCONCLUSIVE, 12)


def test_a_machine_that_ended_in_order_was_not_cut(tried):
    result, record = tried(behaviour=Behaviour(ends_after=12), value=1000)
    assert "the machine had shut down before the cut" in record.trouble
    assert result.verdict is Verdict.INCONCLUSIVE


def test_a_lying_disk_is_convicted_even_then(tried):
    settings = parameters(flush="ignored", fua="ignored")
    result, _ = tried(settings, Behaviour(dies_after=12), value=1000)
    assert result.verdict is Verdict.LOSSY


def test_a_guest_that_hangs_meets_the_deadline(tried):
    result, record = tried(parameters(deadline_s=5.0), Behaviour(hangs_after=5), value=1000)
    assert "did not come before the deadline" in record.trouble
    assert (result.verdict, result.commits_acked) == (Verdict.INCONCLUSIVE, 5)


def test_each_phase_has_the_deadline_to_itself(tmp_path, monkeypatch):
    """A busy host slows all phases down; none of these misses its deadline, all together would."""
    spent = []
    late = SimpleNamespace(monotonic=lambda: time.monotonic() + 900 * len(spent))
    monkeypatch.setattr("powercut.rig.set_up.time", late)
    directory = TrialDir(tmp_path / "run" / "cells" / "cell" / "0001", tmp_path / "run")
    directory.path.mkdir(parents=True)
    settings = parameters(deadline_s=1000)
    record_trial(
        Rig(CACHE, FakeBackend(None)), job(settings), directory, spent.append, EngineShelf()
    )
    assert spent == [Phase.PREPARE, Phase.BOOT, Phase.WORKLOAD, Phase.CUT, Phase.RECOVER]
    assert directory.read_record().trouble == ""
    assert judge_recording(SealedTrial(directory)).live_losses == ()


def test_a_guest_that_never_says_hello_meets_it_too(tried):
    result, record = tried(parameters(deadline_s=1.0), Behaviour(says_hello=False))
    assert "the guest never booted" in record.trouble
    assert result.verdict is Verdict.INCONCLUSIVE


def test_a_machine_that_cannot_lose_its_power_is_not_said_to_have_lost_it(tried):
    result, record = tried(machine=OnMains)
    assert "cannot lose its power" in record.trouble
    assert result.verdict is Verdict.INCONCLUSIVE
    assert record.parameters.cut.kind is CutKind.POWER_LOSS


def test_a_disk_that_is_not_what_it_was_to_be_is_named(tried):
    result, _ = tried(behaviour=Behaviour(write_cache="write through"))
    assert FindingKind.NOT_AS_CONFIGURED in kinds(result)
    assert result.verdict is Verdict.INCONCLUSIVE


THERE_AND_BACK = ("migrate@10", "save-restore@20")


class NeverRestarts(FakeMachine):
    """A machine whose guest boots once."""

    restart = None  # type: ignore[assignment]


class NoOtherHypervisor(FakeMachine):
    """A machine whose guest stays."""

    move = None  # type: ignore[assignment]


def test_a_guest_that_moves_keeps_what_it_acknowledged_before_and_after(tried):
    settings = parameters(during=THERE_AND_BACK)
    result, record = tried(settings, Behaviour(hangs_after=40, moves_after=(15, 25)), value=40)
    assert (result.live_losses, record.trouble) == ((), "")
    assert result.commits_acked == 40
    assert tried.machine.moves == [Move.MIGRATE, Move.SAVE_RESTORE]


def test_all_is_lost_that_was_written_after_a_move_to_where_flushes_are_dropped(tried):
    dropping = Behaviour(hangs_after=40, moves_after=(15,), drops_flushes_after_move=True)
    result, record = tried(parameters(during=("migrate@10",)), dropping, value=40)
    assert record.trouble == ""
    lost = (LsnRange(16, 40),)
    assert (result.verdict, result.lost_lsns) == (Verdict.LOSSY, lost)
    assert result.exposure.lsns == lost


class NeverThere(FakeMachine):
    """A machine whose guest is still in the first hypervisor when the power goes."""

    def move(self, how: Move, *, timeout_s: float) -> int:
        threading.Event().wait(timeout_s)
        raise DeadlineExceeded("it was still on its way")


class JustThere(FakeMachine):
    """A machine whose guest has done all its work in the second, and nobody has said so yet."""

    def move(self, how: Move, *, timeout_s: float) -> int:
        began = time.monotonic()
        super().move(how, timeout_s=20)
        assert self.did_all.wait(20)
        threading.Event().wait(max(timeout_s - (time.monotonic() - began), 0))
        raise DeadlineExceeded("it was about to say that it had arrived")

    def __init__(self, *words) -> None:
        super().__init__(*words)
        self.did_all = threading.Event()

    def _work(self, command: int, words: list[str]) -> None:
        super()._work(command, words)
        self.did_all.set()


@pytest.mark.parametrize("kind", ["power-loss", "vm-kill"])
@pytest.mark.parametrize(
    ("machine", "behaviour"),
    [
        (NeverThere, Behaviour(hangs_after=20)),
        (JustThere, Behaviour(hangs_after=20, moves_after=(15,))),
    ],
)
def test_the_power_goes_in_the_midst_of_a_move(tried, machine, behaviour, kind):
    settings = parameters(kind=kind, during=("migrate@10",))
    result, record = tried(
        settings, behaviour, machine=machine, trigger="moving", value=200 * 10**6
    )
    assert (result.live_losses, record.trouble) == ((), "")
    assert 10 <= result.commits_acked <= 20
    if machine is JustThere:
        assert result.commits_acked == 20, "both hypervisors are heard"


def test_what_the_second_hypervisor_has_promised_by_then_counts(tried):
    dropping = Behaviour(hangs_after=20, moves_after=(15,), drops_flushes_after_move=True)
    settings = parameters(during=("migrate@10",))
    result, record = tried(
        settings, dropping, machine=JustThere, trigger="moving", value=200 * 10**6
    )
    assert record.trouble == ""
    assert (result.verdict, result.lost_lsns) == (Verdict.LOSSY, (LsnRange(16, 20),))


def test_a_move_that_fails_before_the_moment_of_the_cut_is_trouble(tried):
    lost = Behaviour(moves_after=(15,), arrives=False)
    settings = parameters(during=("migrate@10",))
    result, record = tried(settings, lost, trigger="moving", value=30 * 10**9)
    assert "told to get lost" in record.trouble
    assert result.verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("during", [("restart@10",), ("restart@10", "relaunch@20")])
def test_a_restarted_guest_keeps_what_it_acknowledged_before_and_after(tried, during):
    after = (15, 25)[: len(during)]
    settings = parameters(during=during)
    result, record = tried(settings, Behaviour(hangs_after=40, moves_after=after), value=40)
    assert (result.live_losses, record.trouble) == ((), "")
    assert result.commits_acked == 40
    assert tried.machine.moves == [Restart.RESTART, Restart.RELAUNCH][: len(during)]
    started = [words for words in tried.machine.asked if words[:3] == ["exec", "/bin/wal", "write"]]
    first = [word for words in started for word in words if word.startswith("first_lsn")]
    assert first == [f"first_lsn={lsn + 1}" for lsn in after]


def test_a_machine_that_loses_its_cache_at_a_restart_is_convicted_of_what_was_before_alone(tried):
    losing = Behaviour(hangs_after=40, moves_after=(15,), holds_until_restart=True)
    result, record = tried(parameters(during=("restart@10",)), losing, value=40)
    assert record.trouble == ""
    assert (result.verdict, result.lost_lsns) == (Verdict.LOSSY, (LsnRange(1, 15),))


def test_a_workload_that_begins_again_would_hide_a_loss_and_proves_nothing(tried):
    again = Behaviour(hangs_after=40, moves_after=(15,), begins_again=True)
    result, record = tried(parameters(during=("restart@10",)), again, value=40)
    assert (result.live_losses, record.trouble) == ((), "")
    assert result.verdict is Verdict.INCONCLUSIVE
    said = "writes record 1 again, and records up to 15 were acknowledged before"
    assert said in str(result.findings)


def test_a_log_that_wraps_after_a_restart_proves_nothing(tried):
    settings = parameters(during=("restart@10",), slots=20)
    result, record = tried(settings, Behaviour(hangs_after=40, moves_after=(15,)), value=40)
    assert (result.live_losses, record.trouble) == ((), "")
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "the log wrapped after a restart" in str(result.findings)


@pytest.mark.parametrize(("slots", "begins_again"), [(SLOTS, True), (20, False)])
def test_what_was_never_on_the_disk_is_missed_though_it_is_written_later(
    tried, slots, begins_again
):
    losing = Behaviour(
        hangs_after=40, moves_after=(15,), begins_again=begins_again, holds_until_restart=True
    )
    result, _ = tried(parameters(during=("restart@10",), slots=slots), losing, value=40)
    assert result.live_losses == ()
    assert (result.verdict, result.exposure.lsns) == (Verdict.LOSSY, (LsnRange(1, 15),))


class NeverUp(FakeMachine):
    """A machine whose guest is booting when the power goes."""

    def restart(self, how: Restart, *, timeout_s: float) -> int:
        threading.Event().wait(timeout_s)
        raise DeadlineExceeded("it was still booting")


class JustUp(FakeMachine):
    """A machine whose guest is to be mounted when the power goes."""

    def _obey(self, command: int, argv: list[str]) -> None:
        if argv[0] != "facts" or not self.moves:
            super()._obey(command, argv)


@pytest.mark.parametrize("machine", [NeverUp, JustUp, FakeMachine])
def test_the_power_goes_in_the_midst_of_a_restart(tried, machine):
    settings = parameters(during=("restart@10",))
    behaviour = Behaviour(hangs_after=30, moves_after=(15,))
    result, record = tried(
        settings, behaviour, machine=machine, trigger="moving", value=400 * 10**6
    )
    assert (result.live_losses, record.trouble) == ((), "")
    assert 10 <= result.commits_acked <= 30


@pytest.mark.parametrize(
    ("machine", "behaviour", "says"),
    [
        (FakeMachine, Behaviour(moves_after=(15,), arrives=False), "told to get lost"),
        (NeverRestarts, Behaviour(moves_after=(15,)), "this machine cannot restart its guest"),
    ],
)
def test_a_guest_that_cannot_be_restarted_proves_nothing(tried, machine, behaviour, says):
    settings = parameters(during=("restart@10",))
    result, record = tried(settings, behaviour, machine=machine, value=40)
    assert says in record.trouble
    assert result.verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("machine", "behaviour", "says"),
    [
        (FakeMachine, Behaviour(moves_after=(15,), arrives=False), "told to get lost"),
        (
            NoOtherHypervisor,
            Behaviour(moves_after=(15,)),
            "no other hypervisor to migrate its guest to",
        ),
    ],
)
def test_a_guest_that_cannot_move_proves_nothing(tried, machine, behaviour, says):
    settings = parameters(during=("migrate@10",))
    result, record = tried(settings, behaviour, machine=machine, value=40)
    assert says in record.trouble
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.commits_acked >= 10
