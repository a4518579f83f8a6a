# SPDX-License-Identifier: Apache-2.0
"""Several disks: each lies alone once, or nothing shows that its losses would be seen."""

from __future__ import annotations

import pytest

from powercut.model.contract import Honour
from powercut.model.machine import Bus, CacheMode
from powercut.model.verdict import Verdict
from powercut.scenario.settings import (
    ControlKind,
    DiskSettings,
    FilesystemSettings,
    FilesystemType,
    MachineSettings,
    Parameters,
)
from powercut.scenario.settings_several import AlsoDisk, Holds
from powercut.trial.controls import Control, controls_for
from powercut.verdict.controls import ControlOutcome, check_controls

SIZE = 32 << 20
HONOURED, IGNORED = Honour.HONOURED, Honour.IGNORED


def cell(**more: object) -> Parameters:
    """Stripes over three disks, one of which QEMU tells of no flush."""
    also = (
        AlsoDisk(name="b", size=SIZE, holds=Holds.STRIPE, cache=CacheMode.UNSAFE),
        AlsoDisk(name="c", size=SIZE, holds=Holds.STRIPE, bus=Bus.VIRTIO_SCSI, flush=IGNORED),
    )
    return Parameters(
        disk=DiskSettings(size=SIZE, also=also, **more),
        filesystem=FilesystemSettings(type=FilesystemType.XFS),
        machine=MachineSettings(),
    )


def liars(control: Control) -> list[str]:
    """The disks that ignore flushes and FUA in this run."""
    disk = control.parameters.disk
    found = [disk.name] if (disk.flush, disk.fua) == (IGNORED, IGNORED) else []
    return found + [d.name for d in disk.also if (d.flush, d.fua) == (IGNORED, IGNORED)]


def test_each_disk_lies_alone_once():
    controls = controls_for(cell(), Verdict.SAFE)
    lying = [c for c in controls if c.kind is ControlKind.LYING_DISK]
    assert [(c.name, liars(c)) for c in lying] == [
        ("lying-disk.first", ["first"]),
        ("lying-disk.b", ["b"]),
        ("lying-disk.c", ["c"]),
    ]
    assert [c.name for c in controls if c.kind is not ControlKind.LYING_DISK] == ["no-sync"]


def test_the_others_keep_what_they_promise_and_what_they_are_reached_by():
    control = next(c for c in controls_for(cell(), Verdict.SAFE) if c.disk == "first")
    b, c = control.parameters.disk.also
    assert [(d.flush, d.fua) for d in (b, c)] == [(HONOURED, HONOURED)] * 2
    assert (b.cache, c.bus) == (CacheMode.UNSAFE, Bus.VIRTIO_SCSI)


def test_the_first_disk_has_its_own_name():
    names = [c.name for c in controls_for(cell(name="vda"), Verdict.SAFE)]
    assert names[0] == "lying-disk.vda"


def test_one_disk_has_the_control_that_it_always_had():
    lying = controls_for(Parameters(), Verdict.SAFE)[0]
    assert (lying.name, lying.disk) == ("lying-disk", None)


def test_a_loss_has_one_honest_twin():
    (control,) = controls_for(cell(), Verdict.LOSSY)
    assert control.name == "honest"


@pytest.mark.parametrize("came", [Verdict.SAFE, Verdict.INCONCLUSIVE])
def test_a_disk_that_made_no_difference_takes_the_verdict(came):
    """Whatever that disk does to its flushes, this workload would not notice."""
    outcomes = [
        ControlOutcome("lying-disk.first", Verdict.LOSSY, Verdict.LOSSY, disk="first"),
        ControlOutcome("lying-disk.b", Verdict.LOSSY, came, disk="b"),
    ]
    (finding,) = check_controls(outcomes, Verdict.SAFE)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert f"lying-disk.b had to be LOSSY and was {came.name}" in finding.message
    assert "nothing shows that a loss on disk b would be seen" in finding.message
