# SPDX-License-Identifier: Apache-2.0
"""Scenarios on a host that has KVM, which QEMU emulates; what they record is judged here again.

A campaign of 15 minutes on two processors that are idle, most of it in emulation.  What each run
says and its recordings lie below build/kvm-host/runs/COMMIT.  An interrupted run is resumed
(`run --resume`), one that has ended is not made again.  The table goes to build/kvm-host/table.md.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kvm_host
import pytest
from kvm_host import KvmHost

from powercut.paths import ROOT

pytestmark = [pytest.mark.vm, pytest.mark.campaign]

POWERCUT = Path(sys.executable).with_name("powercut")
THERE = Path("/root/kvm")
RUN_S = 3600
SIDES = ("there", "here", "explored")
HEAD = (*SIDES, "acked/lost", "states", "seconds", "ack window, µs")

SCENARIO = """powercut: 1
name: kvm
disk: {size: 64MiB}
machine: {accelerator: kvm}
cut: {trigger: {acks: 60}}
deadline: 10min
"""
"""Where `deadline` is the time limit of each phase of a cell."""

FIRST_LIGHT = """explore: {budget: 8}
cells:
  - name: honest
  - {name: lying, disk.flush: ignored, disk.fua: ignored, expect: lossy}
  - {name: no-sync, workload.sync: none, expect: lossy}
"""

CELLS = """explore: {budget: 4}
controls: none  # those of first-light: the rig is one
cells:
  - {name: migrate, machine.during: [migrate@30], disk.flush_latency: 60ms}  # its clock: to 26 ms
  - {name: restart, machine.during: [restart@30]}
  - {name: vm-kill, cut.kind: vm-kill, disk.flush: ignored, disk.fua: ignored}
  - {name: guest-crash, cut.kind: guest-crash, disk.flush: ignored, disk.fua: ignored}
  - {name: aio-native, machine.aio: native}
  - {name: iothread-io-uring, machine.iothread: true, machine.aio: io_uring}
  - {name: save-restore, machine.during: [save-restore@30]}
  - {name: relaunch, machine.during: [relaunch@30]}
  - {name: to-a-newer-qemu, machine.during: [migrate@30], machine.qemu_after_move: trixie,
     disk.flush_latency: 100ms}  # its clock is known to 31 ms there
  - {name: hotplug, machine.hotplug: true, machine.bus: virtio-scsi}
  - {name: queues, machine.queues: 2, machine.cpus: 2, workload.streams: 4}
  - {name: ext4, filesystem.type: ext4}
  - {name: virtio-pmem, machine.bus: virtio-pmem}
  - {name: nvdimm, machine.bus: nvdimm, expect: lossy}
  - {name: nvme, machine.bus: nvme, cut.trigger: {flushes: 40}, expect: lossy}
  - {name: to-unsafe, machine.during: [migrate@30], machine.aio: threads,
     machine.cache_after_move: unsafe, expect: lossy}
  - {name: ahci, machine.bus: ahci}
  - {name: qcow2, machine.format: qcow2}
"""

OF_LIBVIRT = """explore: {budget: 4}
controls: none
cells:
  - {name: libvirt, machine.backend: libvirt, machine.connect: "URI"}
"""

LIBVIRT = f"""
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, "{ROOT}/tests/support")
from own_libvirt import own_libvirtd

with own_libvirtd() as uri:
    for file in map(Path, sys.argv[2:]):
        if file.is_file():
            file.write_text(file.read_text().replace("URI", uri))
    sys.exit(subprocess.run(sys.argv[1:]).returncode)
"""

RUNS = {"first-light": FIRST_LIGHT, "cells": CELLS, "libvirt": OF_LIBVIRT}

SHARED = ROOT / "workloads" / "programs" / "shared_folder.py"
CAPTURE = (
    "mkdir -p {folder} && {powercut} capture {folder} --share virtiofs --acks 24 "
    "--seconds 300 --budget 32 --results {there} --json {there}/result.json "
    "--check 'python3 {program} check fdatasync {folder}' -- "
    "python3 {program} run fdatasync {folder}"
)
FOLDER = kvm_host.FOLDER / "shared"
"""At one path there and here, where the check runs again."""


@pytest.fixture(scope="module")
def host() -> Iterator[Callable[[], KvmHost]]:
    """The host, which starts when something is to be run there."""
    if why := kvm_host.missing():
        pytest.skip(why)
    up: list[KvmHost] = []

    def started() -> KvmHost:
        if not up or up[-1].ended:
            up.append(KvmHost())
        return up[-1]

    yield started
    for one in up:
        one.close()


@pytest.fixture(scope="module")
def runs() -> Iterator[Path]:
    """Where the evidence lies; what comes of all of it is written down at the end."""
    folder = kvm_host.FOLDER / "runs" / kvm_host.commit()
    folder.mkdir(parents=True, exist_ok=True)
    yield folder
    rows: dict[str, Any] = {}
    for name in (*RUNS, "virtiofs"):
        file = folder / name / "rows.json"
        rows |= json.loads(file.read_text()) if file.exists() else {}
    lines = [[name, *(row[column] for column in HEAD)] for name, row in rows.items()]
    table = [["cell", *HEAD], ["---"] * (len(HEAD) + 1), *lines]
    text = "".join(f"| {' | '.join(map(str, line))} |\n" for line in table)
    (kvm_host.FOLDER / "table.md").write_text(text)
    sys.stdout.write(f"\n{text}")


def run_there(started: Callable[[], KvmHost], folder: Path, script: str) -> None:
    """Runs a script there; on a new host again if this one dies, as its emulation has faults."""
    host = started()
    try:
        run_once(host, folder, script)
    except subprocess.CalledProcessError:
        if not host.ended:
            raise
        run_once(started(), folder, script)


def run_once(host: KvmHost, folder: Path, script: str) -> None:
    """Runs a script there; its folder there becomes `folder`, whatever came of it."""
    there = THERE / folder.name
    host.run(f"mkdir -p {there}", timeout_s=60)
    if folder.exists():
        host.send(folder, there)
    try:
        done = host.run(script, timeout_s=RUN_S)
    finally:
        fetched = folder.with_name(f".{folder.name}")
        shutil.rmtree(fetched, ignore_errors=True)
        host.fetch(there, fetched)
        shutil.rmtree(folder, ignore_errors=True)
        fetched.rename(folder)
    (folder / "said.txt").write_text(f"status {done.returncode}\n{done.stdout}\n{done.stderr}")


def powercut(*words: object) -> Any:
    """What a command says in JSON here."""
    argv = [POWERCUT, *map(str, words), "--json", "-"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=RUN_S, check=False)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def judged_here(run: Path) -> dict[str, dict[str, Any]]:
    """What the trials of a run came to there, verified here, and explored here, by cell."""
    (verified,) = powercut("verify", run)["runs"]
    found = {}
    for cell in verified["cells"]:
        trial = run / "cells" / cell["cell"] / "0001"
        there = json.loads((trial / "verdict.json").read_text())
        budget = ("--budget", "32", "--seed", "7", "--no-confirm")
        (explored,) = powercut("explore", trial, *budget)["explorations"]
        (here,) = cell["trials"]
        found[cell["cell"]] = {
            "there": there["verdict"],
            "here": here["verdict"],
            "explored": explored["verdict"],
            "acked/lost": f"{there['commits_acked']}/{there['commits_lost']}",
            "states": f"{there['states']['states']}, {explored['coverage']['distinct']}",
            "seconds": round(sum(there["timings_s"].values())),
            "ack window, µs": (there["acks"] or {}).get("usual_window_us"),
        }
    return found


def rows_of(host: Callable[[], KvmHost], folder: Path) -> dict[str, Any]:
    """The rows of a run, by cell; it is made there, and judged here, unless it was."""
    file = folder / "rows.json"
    if not file.exists():
        if not list(folder.glob("kvm/2*/verdict.json")):
            there = THERE / folder.name
            begun = [
                THERE / folder.name / path.relative_to(folder) for path in folder.glob("kvm/2*")
            ]
            words = ["run", "--resume", begun[0]] if begun else ["run", there / "kvm.yaml"]
            words += [] if begun else ["--seed", "1", "--results", there]
            of_libvirt = [sys.executable, "-c", LIBVIRT] if folder.name == "libvirt" else []
            argv = shlex.join(map(str, [*of_libvirt, POWERCUT, *words]))
            text = shlex.quote(SCENARIO + RUNS[folder.name])
            run_there(host, folder, f"echo {text} >{there}/kvm.yaml; {argv}")
        (run,) = folder.glob("kvm/2*")
        file.write_text(json.dumps(judged_here(run), indent=1))
    return json.loads(file.read_text())


def test_doctor_says_that_kvm_works(host, runs):
    folder = runs / "doctor"
    if not (folder / "doctor.json").exists():
        run_there(host, folder, f"{POWERCUT} doctor --json {THERE}/doctor/doctor.json")
    found = {one["name"]: one for one in json.loads((folder / "doctor.json").read_text())["probes"]}
    assert found["kvm"]["ok"], found["kvm"]


@pytest.mark.parametrize("name", RUNS)
def test_verdicts_there_and_here(host, runs, name):
    rows = rows_of(host, runs / name)
    for line in RUNS[name].replace(",\n", ",").splitlines():
        if "name: " in line:
            cell = line.partition("name: ")[2].partition(",")[0]
            wanted = "lossy" if "expect: lossy" in line else "safe"
            assert [rows[cell][side] for side in SIDES] == [wanted] * len(SIDES), cell


def test_a_folder_shared_by_virtiofs(host, runs):
    folder = runs / "virtiofs"
    file = folder / "rows.json"
    if not file.exists():
        words = {"there": THERE / folder.name, "powercut": POWERCUT, "program": SHARED}
        words |= {"folder": FOLDER}
        FOLDER.mkdir(exist_ok=True)
        run_there(host, folder, CAPTURE.format(**words))
        said = json.loads((folder / "result.json").read_text())
        (recording,) = (found.parent for found in folder.glob("capture/*/capture.json"))
        row = {
            "there": said["verdict"],
            "here": powercut("verify", recording, "--run-check")["verdict"],
            "explored": powercut("explore", recording, "--budget", "32", "--run-check")["verdict"],
            "acked/lost": f"{said['acknowledged']}/0",
            "states": "",
            "seconds": "",
            "ack window, µs": "",
        }
        file.write_text(json.dumps({"virtiofs": row}, indent=1))
    row = json.loads(file.read_text())["virtiofs"]
    assert [row[side] for side in SIDES] == ["safe"] * len(SIDES)


def test_a_recording_with_kvm_asked_for_is_recovered_in_its_guest_here(host, runs):
    """The accelerator that a scenario asks for is of the machine that was recorded."""
    rows_of(host, runs / "first-light")
    for name, verdict in (("honest", "safe"), ("lying", "lossy")):
        (recording,) = (runs / "first-light").glob(f"kvm/2*/cells/{name}/0001")
        words = ("--engine", "guest", "--budget", "4", "--seed", "7")
        (found,) = powercut("explore", recording, *words)["explorations"]
        assert found["verdict"] == verdict
