# SPDX-License-Identifier: Apache-2.0
"""A program in a virtual machine, in a root file system of its own: honest, unsafe, on a liar."""

import shutil
from pathlib import Path

import pytest

from powercut.campaign.runner import run_scenarios
from powercut.model.verdict import LsnRange, Verdict

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
    say ready; n=1
    while :; do
        say "? $n"
        echo "$n" >>"$2/log" || exit 4
        [ -n "$unsafe" ] || busybox sync "$2/log" || exit 5
        say "+ $n"; n=$((n + 1))
    done ;;
check) while read -r n; do say "= $n"; done <"$2/log" ;;
esac
"""
SCENARIO = """
powercut: 1
name: in-guest
workload: {kind: program, command: program/log.sh, root: root}
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


def test_one_that_syncs_is_safe_and_one_that_does_not_loses_all(tmp_path: Path) -> None:
    assert BUSYBOX is not None
    for name in ("root/bin", "program"):
        (tmp_path / name).mkdir(parents=True)
    shutil.copy(BUSYBOX, tmp_path / "root/bin/busybox")
    (tmp_path / "program/log.sh").write_text(PROGRAM)
    (tmp_path / "program/log.sh").chmod(0o755)
    (tmp_path / "in-guest.yaml").write_text(SCENARIO)
    outcome = run_scenarios([tmp_path / "in-guest.yaml"], seed=7, results=tmp_path / "results")
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
