# SPDX-License-Identifier: Apache-2.0
"""A program in a virtual machine, in a root file system of its own: honest, unsafe, on a liar."""

import shutil
from pathlib import Path

import pytest

from powercut.campaign.runner import run_scenarios
from powercut.disk.base import ensure_base_image
from powercut.explore.after import going_on
from powercut.model.verdict import LsnRange, Verdict
from powercut.paths import CACHE
from powercut.rig.commands import base_image, recovery_plan
from powercut.rig.guest_engine import GuestEngine
from powercut.scenario.load import load_scenario

WAIT_S = 180
BUSYBOX = shutil.which("busybox")
pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(BUSYBOX is None, reason="busybox-static is not installed"),
]

PROGRAM = """#!/bin/busybox sh
unsafe=; [ "$1" = unsafe ] && { unsafe=1; shift; }
say() { echo "$@" >&"$POWERCUT_FD"; }
case $1 in
setup) busybox mkdir "$2" && : >"$2/log" && busybox sync ;;
run)
    busybox mkdir -p "$2"; : >>"$2/log"
    say ready; n=$(($(busybox wc -l <"$2/log") + 1))
    while :; do
        say "? $n"
        echo "$n" >>"$2/log" || exit 4
        [ -n "$unsafe" ] || busybox sync "$2/log" || exit 5
        say "+ $n"; n=$((n + 1))
    done ;;
check) [ ! -e "$2/log" ] || while read -r n; do say "= $n"; done <"$2/log" ;;
esac
"""
SCENARIO = """
powercut: 1
name: in-guest
workload: {kind: program, command: program/log.sh, root: root, at_most: 2min}
machine: {bus: virtio-scsi}
disk: {model: none, size: 32 MiB}
filesystem: {type: ext4}
cut: {trigger: {acks: 12}}
explore: {budget: 32}
deadline: 5min
cells:
  - name: synced
    controls: [lying-disk, no-sync]
  - name: unsafe
    workload.command: [program/log.sh, unsafe]
    explore.budget: 2
    controls: none
    expect: lossy
"""


def made(folder: Path) -> Path:
    assert BUSYBOX is not None
    for name in ("root/bin", "program"):
        (folder / name).mkdir(parents=True)
    shutil.copy(BUSYBOX, folder / "root/bin/busybox")
    (folder / "program/log.sh").write_text(PROGRAM)
    (folder / "program/log.sh").chmod(0o755)
    (folder / "in-guest.yaml").write_text(SCENARIO)
    return folder / "in-guest.yaml"


def test_one_that_goes_on_after_a_recovery_is_ended_after_its_acks(tmp_path: Path) -> None:
    _, parameters = load_scenario(made(tmp_path)).cells[0]
    base = ensure_base_image(base_image(parameters), CACHE)
    plan = going_on(recovery_plan(parameters, bytes(16)), parameters, bytes(16), 4)
    with GuestEngine(base, parameters, plan) as engine:
        engine.start(timeout_s=WAIT_S)
        seen = engine.recover([], timeout_s=WAIT_S)
    assert (seen.lines, seen.complete, seen.later is not None) == (b"", True, True), seen
    assert seen.later is not None
    assert seen.later.failure == ""
    said = seen.later.lines.split(b"\n")
    assert said[:3] == [b"ready", b"? 1", b"+ 1"]
    acked = {line[2:] for line in said if line.startswith(b"+ ")}
    assert {b"1", b"2", b"3", b"4"} <= acked
    found = {line[2:] for line in seen.later.observation.lines.splitlines()}
    assert acked <= found <= {line[2:] for line in said if line.startswith(b"? ")}


def test_one_that_syncs_is_safe_and_one_that_does_not_loses_all(tmp_path: Path) -> None:
    outcome = run_scenarios([made(tmp_path)], seed=7, results=tmp_path / "results")
    (run,) = outcome.runs
    synced, unsafe = run.cells
    assert synced.verdict is Verdict.SAFE, run.model_dump_json(indent=1)
    assert synced.commits_acked >= 12
    assert synced.states is not None
    assert (synced.states.engine, synced.states.states, synced.states.lossy) == ("guest", 32, 0)
    assert [(control.kind.value, control.verdict) for control in synced.controls] == [
        ("lying-disk", Verdict.LOSSY), ("no-sync", Verdict.LOSSY),
    ]  # fmt: skip
    assert synced.acks is not None
    assert synced.acks.window_us is None  # it says what it does not know
    (trial,) = unsafe.trials
    assert (unsafe.verdict, trial.lost_lsns) == (
        Verdict.LOSSY, (LsnRange(1, trial.commits_acked),)
    )  # fmt: skip


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("where", "verdict"),
    [
        *(
            (f"bus: {bus}", Verdict.SAFE)
            for bus in ("virtio-scsi-fua", "ide", "ahci", "usb-storage")
        ),
        ("bus: nvme", Verdict.LOSSY),  # QEMU ignores FUA there: docs/buses-and-formats.md
        ("bus: nvme, cache: writethrough", Verdict.SAFE),
        *((f"format: {name}", Verdict.SAFE) for name in ("qcow2", "vmdk", "vdi")),
    ],
)
def test_other_buses_and_formats_carry_a_program_and_its_root(
    tmp_path: Path, where: str, verdict: Verdict
) -> None:
    """Each bus brings modules of its own into the guest, each format a layer below its disk."""
    made(tmp_path)
    text = SCENARIO[: SCENARIO.index("cells:")].replace("bus: virtio-scsi", where)
    (tmp_path / "elsewhere.yaml").write_text(text.replace("5min", "30min"))
    outcome = run_scenarios([tmp_path / "elsewhere.yaml"], seed=7, results=tmp_path / "results")
    (cell,) = outcome.runs[0].cells
    assert cell.verdict is verdict, cell.model_dump_json(indent=1)
    (control,) = cell.controls
    assert control.verdict is (Verdict.LOSSY if verdict is Verdict.SAFE else Verdict.SAFE)
