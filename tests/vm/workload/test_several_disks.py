# SPDX-License-Identifier: Apache-2.0
"""Several disks that lose their power at one instant: what one says of itself says nothing of
another.

The program makes twenty operations and no more, and checkpoints after the 8th and the 16th, so
what each fault loses follows from the fault alone.
"""

import json
import shutil
from pathlib import Path

import pytest
import yaml
from command_line import powercut

from powercut.paths import ROOT
from powercut.recover.uml.boot import unavailable

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable())),
]
BUSYBOX = shutil.which("busybox")
SCENARIO = ROOT / "scenarios" / "programs" / "two-disks.yaml"


def run(tmp_path, cell, **changed):
    """The cell of that name; `changed` are keys of the scenario in its place."""
    scenario = yaml.safe_load(SCENARIO.read_text())
    chosen = next(one for one in scenario["cells"] if one["name"] == cell)
    command = chosen.get("workload.command", scenario["workload"]["command"])
    chosen["workload.command"] = [str((SCENARIO.parent / command[0]).resolve()), *command[1:]]
    scenario["workload"]["command"] = chosen["workload.command"]
    scenario["workload"]["writeback"] = "usual"  # what is lost is exact
    scenario |= {"cells": [chosen], "controls": "none", "explore": {"budget": 24}} | changed
    path = tmp_path / "scenario.yaml"
    path.write_text(yaml.safe_dump(scenario))
    results = tmp_path / "results"
    words = ["run", path, "--seed", "7", "--json", "-", "--results", results]
    done = powercut(*words)
    assert done.stdout, done.stderr
    ((of_scenario,), said) = json.loads(done.stdout)["runs"], done.stderr
    (result,) = of_scenario["cells"]
    shown = powercut("show", Path(of_scenario["result_directory"], "cells", cell, "0001"))
    return result, " ".join(shown.stdout.split()), said


FEW = {"budget": 8}
"""Crash states where the cut itself loses all that there is to be lost."""


def lost(result):
    return [(span["first"], span["last"]) for span in result["lost_lsns"]]


def test_the_log_forgets_what_is_not_durable_on_the_other_disk(tmp_path):
    result, told, _ = run(tmp_path, "early")
    assert result["verdict"] == "lossy"
    assert lost(result) == [(1, 16)]
    assert "ignored" not in told


def test_of_two_disks_the_one_that_lies_is_named(tmp_path):
    result, told, _ = run(tmp_path, "data-lies", explore=FEW)
    assert result["verdict"] == "lossy"
    assert lost(result) == [(1, 16)]  # and not 17 to 20, which are in the log of the other
    assert "disk first ignored" in told
    assert "disk log ignored" not in told


LOG_FOLDER = {"name": "log", "size": "16MiB", "holds": "folder"}
FILES = {"name": "files", "size": "16MiB", "holds": "xfs-realtime"}


@pytest.mark.nightly
def test_an_xfs_with_its_log_and_its_files_on_disks_of_their_own(tmp_path):
    disks = [LOG_FOLDER, {"name": "journal", "size": "16MiB", "holds": "xfs-log"}, FILES]
    result, told, said = run(
        tmp_path, "honest", filesystem={"type": "xfs"}, disk={"size": "32MiB", "also": disks}
    )
    assert result["commits_acked"] == 20, said
    assert lost(result) == []
    assert "look inside" not in told  # of any state with a finding


@pytest.mark.nightly
def test_a_realtime_device_that_lies_loses_the_files_on_it_and_is_named(tmp_path):
    disk = {"size": "32MiB", "also": [LOG_FOLDER, FILES | {"flush": "ignored", "fua": "ignored"}]}
    result, told, said = run(tmp_path, "honest", filesystem={"type": "xfs"}, disk=disk, explore=FEW)
    assert result["verdict"] == "lossy", said
    assert lost(result) == [(1, 16)]  # and not 17 to 20, which are in the log of the other
    assert "disk files ignored" in told
    assert "disk first ignored" not in told


TWO_DISKS = """#!/bin/busybox sh
say() { echo "$@" >&"$POWERCUT_FD"; }
log=${2%/*}/log/wal
case $1 in
setup) : >"$2/data" && : >"$log" && busybox sync ;;
run)
    say ready; n=1
    while [ $n -le 20 ]; do
        say "? $n"; echo "$n" >>"$log" && busybox sync "$log" || exit 4; say "+ $n"
        if [ $((n % 8)) = 0 ]; then
            busybox cat "$log" >>"$2/data" && busybox sync "$2/data" || exit 5
            : >"$log" && busybox sync "$log" || exit 6
        fi
        n=$((n + 1))
    done
    busybox sleep 3600 ;;
check) busybox cat "$2/data" "$log" | while read -r n; do say "= $n"; done ;;
esac
"""
IN_GUEST = {
    "powercut": 1,
    "name": "two-disks-in-guest",
    "workload": {"kind": "program", "command": "program/two.sh", "root": "root", "at_most": "2min"},
    "machine": {"bus": "virtio-scsi"},
    "filesystem": {"type": "ext4"},
    "cut": {"trigger": {"acks": 20}},
    "explore": {"budget": "off"},
    "controls": "none",
    "deadline": "5min",
    "expect": "lossy",
}


@pytest.mark.nightly
@pytest.mark.skipif(BUSYBOX is None, reason="busybox-static is not installed")
def test_in_a_virtual_machine_the_disk_that_lies_loses_what_was_moved_to_it(tmp_path):
    for name in ("root/bin", "program"):
        (tmp_path / name).mkdir(parents=True)
    shutil.copy(BUSYBOX, tmp_path / "root/bin/busybox")
    (tmp_path / "root/bin/sh").symlink_to("busybox")
    (tmp_path / "program/two.sh").write_text(TWO_DISKS)
    (tmp_path / "program/two.sh").chmod(0o755)
    log = {"name": "log", "size": "16MiB", "holds": "folder", "bus": "virtio-blk"}
    kept = {"flush": "honoured", "fua": "honoured"}
    disk = {"size": "32MiB", "flush": "ignored", "fua": "ignored", "also": [log | kept]}
    path = tmp_path / "scenario.yaml"
    path.write_text(yaml.safe_dump(IN_GUEST | {"disk": disk}))
    words = ["run", path, "--seed", "7", "--json", "-", "--results", tmp_path / "results"]
    done = powercut(*words)
    assert done.stdout, done.stderr
    (of_scenario,) = json.loads(done.stdout)["runs"]
    (result,) = of_scenario["cells"]
    assert result["verdict"] == "lossy", done.stderr
    assert lost(result) == [(1, 16)]  # and not 17 to 20, which are in the log of the other
    shown = " ".join(powercut("show", of_scenario["result_directory"]).stdout.split())
    assert "Disk first ignored" in shown
    assert "Disk log" not in shown
