# SPDX-License-Identifier: Apache-2.0
"""Controls: which ones a verdict needs, and how they differ from their cell."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from powercut.campaign.assemble import (
    Outcome,
    _control_result,
    as_control,
    cell_results,
    doubt_of,
    missing_controls,
    vouched_for,
)
from powercut.campaign.run import Run
from powercut.model.contract import CutKind, CutPolicy, Honour
from powercut.model.machine import Aio, Bus, CacheMode, ImageFormat
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut.scenario.load import expand, parse_scenario
from powercut.scenario.plan import Trial, Trigger, TriggerKind
from powercut.scenario.settings import (
    ControlKind,
    CutSettings,
    DiskSettings,
    Expect,
    FilesystemSettings,
    FilesystemType,
    GuestWriteCache,
    MachineSettings,
    Parameters,
    ProgramSettings,
    Switch,
    SyncMode,
    TriggerSettings,
    WalSettings,
)
from powercut.store.layout import ResultDir
from powercut.store.results import ControlResult
from powercut.store.trial_result import TrialResult
from powercut.trial.controls import Control, begins_alike, controls_for, twin
from powercut.verdict.controls import with_controls


def kinds(controls):
    return [control.kind for control in controls]


def test_safe_must_be_earned_by_two_losses():
    controls = controls_for(Parameters(), Verdict.SAFE)
    assert kinds(controls) == [ControlKind.LYING_DISK, ControlKind.NO_SYNC]
    assert [control.expected for control in controls] == [Verdict.LOSSY, Verdict.LOSSY]


def test_lossy_must_be_told_from_a_ghost():
    (control,) = controls_for(Parameters(), Verdict.LOSSY)
    assert control.kind is ControlKind.HONEST
    assert control.expected is Verdict.SAFE


@pytest.mark.parametrize("kind", ControlKind)
def test_no_control_has_the_errors_of_its_cell(kind):
    cell = Parameters(disk=DiskSettings(errors=({"on": "flush"},)))
    assert twin(cell, kind).disk.errors == ()


def test_an_honest_twin_has_no_layers_and_the_others_have():
    beside = {"name": "b", "size": 64 << 20, "holds": "layers"}
    cell = Parameters(disk=DiskSettings(layers=({"layer": "crypt"},), also=(beside,)))
    honest = twin(cell, ControlKind.HONEST).disk
    assert (honest.layers, honest.also) == ((), ())
    for kind in (ControlKind.LYING_DISK, ControlKind.NO_SYNC):
        assert twin(cell, kind).disk.layers == cell.disk.layers
    lying = twin(cell, ControlKind.LYING_DISK).disk  # one that does not lie keeps a mirror whole
    assert {part.flush for part in lying.parts} == {part.fua for part in lying.parts}
    assert {part.flush for part in lying.parts} == {Honour.IGNORED}


def test_the_honest_twin_of_a_cell_with_errors_has_its_layers():
    beside = {"name": "b", "size": 64 << 20, "holds": "layers"}
    cell = Parameters(
        disk=DiskSettings(layers=({"layer": "raid1"},), also=(beside,), errors=({"on": "flush"},))
    )
    honest = twin(cell, ControlKind.HONEST).disk
    assert (honest.layers, honest.errors) == (cell.disk.layers, ())
    assert [disk.name for disk in honest.also] == ["b"]


PROGRAM = Parameters(workload=ProgramSettings(kind="program", command="prog", folder="/"))


@pytest.mark.parametrize(
    ("kind", "setting", "alike"),
    [
        (ControlKind.LYING_DISK, {}, True),
        (ControlKind.NO_SYNC, {}, True),
        (ControlKind.HONEST, {"filesystem": {"mount": ("nobarrier",)}}, False),
        (ControlKind.NO_FLUSH, {}, False),  # another kernel's belief while `setup` runs
    ],
)
def test_a_control_begins_with_the_disk_of_its_cell_if_setup_does_the_same(kind, setting, alike):
    cell = PROGRAM.model_copy(
        update={
            group: getattr(PROGRAM, group).model_copy(update=change)
            for group, change in setting.items()
        }
    )
    assert begins_alike(cell, twin(cell, kind)) is alike


@pytest.mark.parametrize(
    ("group", "change"),
    [
        ("disk", {"size": 1 << 30}),
        ("filesystem", {"type": FilesystemType.BTRFS}),
        ("workload", {"command": ("other",)}),
        ("workload", {"syncs": "traced"}),
        ("workload", {"env": ("A=b",)}),
    ],
)
def test_what_setup_may_see_is_no_control_s_beginning(group, change):
    other = PROGRAM.model_copy(update={group: getattr(PROGRAM, group).model_copy(update=change)})
    assert not begins_alike(PROGRAM, twin(other, ControlKind.LYING_DISK))
    assert not begins_alike(Parameters(), Parameters())  # made by mkfs alone


@pytest.mark.parametrize(("kind", "begins"), [("lying-disk", True), ("honest", False)])
def test_what_checks_a_control_that_must_be_safe_boots_after_its_cut(kind, begins):
    """A kernel that is lent with the disk has booted before: its files look younger than a boot."""
    kind = ControlKind(kind)
    control = Control(kind, twin(PROGRAM, kind))
    assert begins_alike(PROGRAM, control.parameters)
    run = SimpleNamespace(
        plan=SimpleNamespace(cells=[SimpleNamespace(parameters=PROGRAM, trials=[1])])
    )
    assert bool(Run._first_alike(run, control)) is begins


def test_nothing_can_make_something_of_inconclusive():
    assert controls_for(Parameters(), Verdict.INCONCLUSIVE) == ()


def test_a_scenario_may_ask_for_fewer():
    only = Parameters(controls=["lying-disk"])
    assert kinds(controls_for(only, Verdict.SAFE)) == [ControlKind.LYING_DISK]
    assert controls_for(Parameters(controls="none"), Verdict.SAFE) == ()


def test_the_lying_disk_differs_in_nothing_else():
    cell = Parameters(controls="none")
    lying = twin(cell, ControlKind.LYING_DISK)
    assert (lying.disk.flush, lying.disk.fua) == (Honour.IGNORED, Honour.IGNORED)
    restored = lying.model_copy(update={"disk": cell.disk, "controls": cell.controls})
    assert restored == cell


def test_the_workload_without_sync_stays_in_the_page_cache():
    cell = Parameters(workload=WalSettings(sync=SyncMode.O_DSYNC, direct=True))
    lossy = twin(cell, ControlKind.NO_SYNC)
    assert lossy.workload.sync is SyncMode.NONE
    assert not lossy.workload.direct
    assert lossy.disk.flush is Honour.HONOURED


@pytest.mark.parametrize("kind", [ControlKind.LYING_DISK, ControlKind.NO_SYNC])
@pytest.mark.parametrize(
    "disk",
    [
        DiskSettings(cache_size=4096),
        DiskSettings(cache_size=1 << 20),
        DiskSettings(volatile_cache=False),
        DiskSettings(flush=Honour.IGNORED, fua=Honour.IGNORED, cache_size=4096),
    ],
)
def test_what_has_to_lose_has_a_cache_that_is_never_full(kind, disk):
    """A full cache writes records to the medium by itself: the control might lose nothing."""
    control = twin(Parameters(disk=disk), kind).disk
    assert (control.volatile_cache, control.cache_size) == (True, 0)
    assert control.flush is (Honour.IGNORED if kind is ControlKind.LYING_DISK else Honour.HONOURED)
    assert control.fua is control.flush


@pytest.mark.parametrize(
    "cell",
    [
        Parameters(workload=WalSettings(sync=SyncMode.NONE)),
        Parameters(workload=WalSettings(plant="early-ack")),
        Parameters(disk=DiskSettings(flush=Honour.IGNORED)),
        Parameters(machine=MachineSettings(cache=CacheMode.UNSAFE)),
        Parameters(machine=MachineSettings(no_flush=Switch.ON)),
        Parameters(
            machine=MachineSettings(bus=Bus.NVDIMM), filesystem=FilesystemSettings(mount=("dax",))
        ),
        Parameters(machine=MachineSettings(aio=Aio.IO_URING)),
        Parameters(filesystem=FilesystemSettings(type=FilesystemType.EXT4, mount=("barrier=0",))),
        Parameters(filesystem=FilesystemSettings(type=FilesystemType.EXT4, mount=("nobarrier",))),
        Parameters(machine=MachineSettings(guest_write_cache=GuestWriteCache.WRITE_THROUGH)),
        Parameters(machine=MachineSettings(guest_write_cache=GuestWriteCache.SWITCHED_OFF)),
    ],
)
def test_the_honest_twin_is_honest_throughout(cell):
    honest = twin(cell, ControlKind.HONEST)
    assert honest.disk.contract().honest
    assert honest.workload.sync is not SyncMode.NONE
    assert honest.workload.plant == "none"
    assert honest.machine.guest_write_cache is GuestWriteCache.AS_PROMISED
    assert not honest.machine.host_cache.no_flush
    assert honest.machine.aio is Aio.NBD
    assert honest.filesystem.mount == ()


def test_nothing_that_may_lie_stands_between_the_honest_twin_and_its_disk():
    machine = MachineSettings(
        bus=Bus.NVME,
        format=ImageFormat.QCOW2,
        format_options=("cluster_size=4096",),
        hotplug=True,
        iothread=True,
        queues=1,
    )
    honest = twin(Parameters(machine=machine), ControlKind.HONEST).machine
    assert honest == MachineSettings()
    lying = twin(Parameters(machine=machine), ControlKind.LYING_DISK).machine
    assert lying == machine, "the others keep it: it is what they vouch for"


def test_a_control_cuts_once_and_when_something_was_acknowledged():
    cell = Parameters(
        trials=50,
        cut=CutSettings(
            kind=CutKind.VM_KILL,
            policy=CutPolicy.KEEP,
            trigger=TriggerSettings(random=("1 ms", "9 ms")),
        ),
    )
    for kind in ControlKind:
        control = twin(cell, kind)
        assert control.trials == 1
        assert control.cut.trigger.acks == 20
        cut = (control.cut.kind, control.cut.policy)
        if kind is ControlKind.NO_FLUSH:  # of a machine that has its own disk, and its own cut
            assert cut == (CutKind.VM_KILL, CutPolicy.KEEP)
        else:
            assert cut == (CutKind.POWER_LOSS, CutPolicy.DROP)


def test_equal_cells_share_their_controls():
    one = Parameters(workload=WalSettings(sync=SyncMode.FSYNC))
    other = Parameters(workload=WalSettings(sync=SyncMode.FDATASYNC))
    assert twin(one, ControlKind.NO_SYNC) == twin(other, ControlKind.NO_SYNC)
    assert twin(one, ControlKind.LYING_DISK) != twin(other, ControlKind.LYING_DISK)


def heard(kind, expected, verdict):
    return ControlResult(
        kind=kind,
        expected=expected,
        verdict=verdict,
        behaved=expected.value == verdict.name.lower(),
        message="",
        result_directory="controls/x",
    )


def test_a_control_that_went_otherwise_takes_safe_away_and_not_lossy():
    lost = heard(ControlKind.LYING_DISK, Expect.LOSSY, Verdict.LOSSY)
    blind = heard(ControlKind.NO_SYNC, Expect.LOSSY, Verdict.SAFE)
    unknown = heard(ControlKind.NO_SYNC, Expect.LOSSY, Verdict.INCONCLUSIVE)
    ghost = heard(ControlKind.HONEST, Expect.SAFE, Verdict.LOSSY)
    assert with_controls(Verdict.SAFE, [lost]) == (Verdict.SAFE, [])
    for wrong in (blind, unknown):
        verdict, reasons = with_controls(Verdict.SAFE, [lost, wrong])
        assert verdict is Verdict.INCONCLUSIVE
        assert len(reasons) == 1
    assert with_controls(Verdict.SAFE, [])[0] is Verdict.INCONCLUSIVE
    verdict, reasons = with_controls(Verdict.LOSSY, [ghost])
    assert verdict is Verdict.LOSSY
    assert len(reasons) == 1


def lossy(*kinds):
    lsns = (LsnRange(1, 10),)
    findings = [
        Finding(
            kind,
            Verdict.INCONCLUSIVE if kind is FindingKind.DISAGREEMENT else Verdict.LOSSY,
            "gone",
            lsns,
        )
        for kind in kinds
    ]
    return TrialResult.judged(
        Trial(1, 7, Trigger(TriggerKind.ACKS, 10), 8),
        verdict=Verdict.LOSSY,
        acked=10,
        attempted=11,
        findings=findings,
    )


@pytest.mark.parametrize(
    ("kinds", "verdict", "doubt"),
    [
        ((FindingKind.LOST,), Verdict.LOSSY, ""),
        ((FindingKind.EXPOSED, FindingKind.LOST), Verdict.LOSSY, ""),
        ((FindingKind.EXPOSED,), Verdict.INCONCLUSIVE, "its records came back"),
        ((FindingKind.LOST, FindingKind.DISAGREEMENT), Verdict.INCONCLUSIVE, "what came back"),
    ],
)
def test_a_control_has_shown_a_loss_only_if_its_records_did_not_come_back(kinds, verdict, doubt):
    result = lossy(*kinds)
    assert as_control(result) is verdict
    assert doubt_of(result).startswith(doubt)
    assert bool(doubt_of(result)) == bool(doubt)


def test_a_control_that_was_never_run_did_not_behave():
    for control in controls_for(Parameters(), Verdict.SAFE):
        result = _control_result(control, {})
        assert (result.verdict, result.behaved) == (Verdict.INCONCLUSIVE, False)


def safe_or_unknown(*verdicts):
    return [
        TrialResult.judged(
            Trial(number, 7, Trigger(TriggerKind.ACKS, 10), 8),
            verdict=verdict,
            acked=10,
            attempted=11,
            findings=[],
        )
        for number, verdict in enumerate(verdicts, 1)
    ]


def test_controls_vouch_for_the_cuts_of_which_something_is_known(tmp_path):
    """One cut of many that came to nothing does not hide whether the others can be believed."""
    safe, unknown = Verdict.SAFE, Verdict.INCONCLUSIVE
    assert vouched_for(safe_or_unknown(safe, unknown, safe)) is Verdict.SAFE
    assert vouched_for(safe_or_unknown(unknown, Verdict.LOSSY)) is Verdict.LOSSY
    assert vouched_for(safe_or_unknown(unknown, unknown)) is Verdict.INCONCLUSIVE
    scenario = parse_scenario("powercut: 1\nname: s\ntrials: 2\n", Path("s.yaml"))
    plan = expand(scenario, seed=1)
    (cell,) = plan.cells
    trials = {cell.name: safe_or_unknown(safe, unknown)}
    missing = missing_controls(plan, trials, {})
    kinds = [control.kind for _, control in missing.values()]
    assert kinds == [ControlKind.LYING_DISK, ControlKind.NO_SYNC]
    assert missing_controls(plan, {cell.name: safe_or_unknown(unknown, unknown)}, {}) == {}
    run = ResultDir.create(tmp_path, "s", 1)
    known = {key: Outcome(name, Verdict.LOSSY, "controls/x") for key, (name, _) in missing.items()}
    (result,) = cell_results(plan, trials, known, run)
    assert result.verdict is Verdict.INCONCLUSIVE, "the verdict of the cell stays"
    assert [control.behaved for control in result.controls] == [True, True]
