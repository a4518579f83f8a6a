# SPDX-License-Identifier: Apache-2.0
"""A program in a virtual machine, in a root file system of its own: honest, unsafe, on a liar."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from recordings_made import recording_made

from powercut.campaign.runner import run_scenarios
from powercut.crash.explore import InstantKind, events
from powercut.crash.states import CrashState, StateSpace
from powercut.disk.base import ensure_base_image
from powercut.disk.root_image import ensure_program_image
from powercut.explore.depth import SecondState
from powercut.explore.recovery_timeline import instant_after
from powercut.explore.request import Prune
from powercut.explore.state_images import StateImages
from powercut.explore.work import Deepen, Work
from powercut.explore.worker import LocalWorker
from powercut.model.creation import Creation
from powercut.model.operations import AckBasis, Packet, Pressed
from powercut.model.reads import CheckReads
from powercut.model.verdict import FindingKind, LsnRange, Verdict
from powercut.paths import CACHE
from powercut.recording.sealed import TrialRecording
from powercut.rig.commands import base_image, recovery_plan
from powercut.rig.guest_engine import GuestEngine
from powercut.rig.recovery import going_on
from powercut.scenario.load import load_scenario
from powercut.scenario.plan import Trial, Trigger, TriggerKind
from powercut.store.trial_dir import TrialDir, TrialRecord
from powercut.workload.port import NOTHING_LATER
from powercut.workload.program.claims import history_of
from powercut.workload.program.promises import ProgramPromises

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
setup) : >"$2/log" && busybox sync ;;
run)
    busybox mkdir -p "$2"; : >>"$2/log"
    say ready; n=$(($(busybox wc -l <"$2/log") + 1))
    while :; do
        say "? $n"
        echo "$n" >>"$2/log" || exit 4
        [ -n "$unsafe" ] || busybox sync "$2/log" || exit 5
        say "+ $n"; n=$((n + 1))
    done & ;; # as a daemon, whose parent ends
check) [ ! -e "$2/log" ] || while read -r n; do say "= $n"; done <"$2/log" ;;
esac
"""
NAMES = """#!/bin/busybox sh
say() { echo "$@" >&"$POWERCUT_FD"; }
case $1 in
setup) echo "$$" >"$2/store" ;;
run)
    say ready; n=1
    while :; do
        say "? $n"
        echo "$n" >"$2/n$n" && busybox sync "$2" || exit 5
        say "+ $n"; n=$((n + 1))
    done ;;
check) for n in "$2"/n*; do [ ! -e "$n" ] || say "= ${n##*/n}"; done ;;
esac
"""
SCENARIO = """
powercut: 1
name: in-guest
workload: {kind: program, command: program/log.sh, root: root, at_most: 2min, state_timeout: 5min}
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
    workload.writeback: usual # nobody else makes anything durable: all is lost
    explore.budget: 2
    controls: none
    expect: lossy
  - name: names
    workload.command: program/names.sh
    explore.budget: 2
    controls: none
"""


def made(folder: Path) -> Path:
    assert BUSYBOX is not None
    for name in ("root/bin", "program"):
        (folder / name).mkdir(parents=True)
    shutil.copy(BUSYBOX, folder / "root/bin/busybox")
    for name in ("sh", "stty", "true", "setsid"):  # what `powercut shell` starts there
        (folder / "root/bin" / name).symlink_to("busybox")
    for name, text in (("log", PROGRAM), ("names", NAMES)):
        (folder / f"program/{name}.sh").write_text(text)
        (folder / f"program/{name}.sh").chmod(0o755)
    (folder / "in-guest.yaml").write_text(SCENARIO)
    return folder / "in-guest.yaml"


# What `check` does to a store that is there: the pads make the middle of its writes lie in between.
PADS = """i=0
    while [ $i -lt 20 ]; do echo $i >>"$2/pad"; busybox sync "$2/pad"; i=$((i + 1)); done"""
IN_PLACE = f"""busybox cp "$2/log" /tmp/log; : >"$2/log"; busybox sync "$2/log"
    {PADS}
    busybox cp /tmp/log "$2/log"; busybox sync "$2/log" """
BESIDE = f"""busybox cp "$2/log" "$2/new"; busybox sync "$2/new"
    {PADS}
    busybox mv "$2/new" "$2/log"; busybox sync "$2" """


@pytest.fixture(scope="module")
def gone_on(tmp_path_factory: pytest.TempPathFactory) -> TrialRecording:
    """What one wrote that had at least four acknowledged: a recovery on record is a recording."""
    folder = tmp_path_factory.mktemp("gone-on")
    _, parameters = load_scenario(made(folder)).cells[0]
    base = ensure_base_image(base_image(parameters), CACHE)
    plan = going_on(recovery_plan(parameters, bytes(16)), parameters, bytes(16), 4)
    with GuestEngine(base, parameters, plan) as engine:
        engine.start(timeout_s=WAIT_S)
        seen, timeline = engine.record((), timeout_s=WAIT_S)
    assert timeline is not None, seen
    ended = instant_after(timeline)
    assert (seen.lines, seen.complete, seen.later is not None) == (b"", True, True), seen
    assert seen.later is not None
    assert seen.later.failure == ""
    lines = seen.later.lines.splitlines(keepends=True)
    assert lines[:3] == [b"ready\n", b"? 1\n", b"+ 1\n"]
    tried, acked = ([line for line in lines if line[:1] == kind] for kind in (b"?", b"+"))
    found = {line[2:] for line in seen.later.observation.lines.splitlines(keepends=True)}
    assert len(acked) >= 4  # then it was ended
    assert {line[2:] for line in acked} <= found <= {line[2:] for line in tried}
    packets = [*(Packet(0, line) for line in tried), *(Packet(ended or 0, one) for one in acked)]
    trial = TrialDir(folder, folder)
    shutil.copy(base, trial.base_image)
    first = Trial(1, 1, Trigger(TriggerKind.ACKS, 1), 1)
    record = TrialRecord(
        powercut="0", scenario="handmade", cell="guest", parameters=parameters, trial=first,
        run_id="00" * 16,
    )  # fmt: skip
    return recording_made(trial, record, timeline, ProgramPromises(history_of(packets)))


def recovering(recorded: TrialRecording, how: str) -> tuple[CrashState, LocalWorker]:
    """With another check: what was durable once all was acknowledged, and who recovers that."""
    check = f'check) [ ! -e "$2/log" ] || {{\n    {how}\n    while'
    program = recorded.directory.path / "program/log.sh"
    text = PROGRAM.replace('check) [ ! -e "$2/log" ] || while', check)
    program.write_text(text.replace('done <"$2/log" ;;\nesac', 'done <"$2/log"; } ;;\nesac'))
    ensure_program_image.cache_clear()
    at_the_end = CrashState((instant_after(recorded.timeline) or 0) + 1, (), policy="durable-only")
    trial = recorded.directory
    work = Work(trial.path, trial.run, "guest", Prune.NOTHING, 1, depth=1)
    return at_the_end, LocalWorker(work, recorded)


@pytest.mark.nightly
def test_a_recovery_in_a_guest_that_is_not_crash_safe_is_found(gone_on: TrialRecording) -> None:
    state, worker = recovering(gone_on, IN_PLACE)
    with worker:
        recovered = worker.record(state, None)
        assert recovered is not None
        assert recovered.doubts == ()
        space = StateSpace(recovered.timeline)
        flushes = events(space, [InstantKind.FLUSH]).tolist()
        middle = CrashState(flushes[len(flushes) // 2], (), policy="durable-only")
        writes = (*recovered.writes, *StateImages(space).writes(middle))
        second = SecondState(middle, writes, (), NOTHING_LATER, "a second cut")
        judged = worker.judge_second(state, second)
    (finding,) = judged.findings
    assert (finding.kind, finding.verdict) == (FindingKind.LOST, Verdict.LOSSY)
    assert finding.lsns == (LsnRange(1, gone_on.promises.acked),)


@pytest.mark.nightly
def test_a_recovery_in_a_guest_that_writes_beside_survives_cuts(gone_on: TrialRecording) -> None:
    state, worker = recovering(gone_on, BESIDE)
    with worker:
        answers = worker.deepen(Deepen(state, 1, 1, 5))
    count = answers.recoveries
    assert (count.recorded, count.unrecorded, count.states) == (1, 0, 1)
    assert [finding for judged in answers.judged for finding in judged.findings] == []


def test_one_that_syncs_keeps_all_and_one_that_does_not_loses_all(tmp_path: Path) -> None:
    scenario = made(tmp_path)
    text = scenario.read_text().replace("budget: 32", "budget: 2")
    text = text.replace("controls: [lying-disk, no-sync]", "controls: none")
    scenario.write_text(text[: text.index("  - name: names")])
    (run,) = run_scenarios([scenario], seed=7, results=tmp_path / "results").runs
    (synced,), (unsafe,) = (cell.trials for cell in run.cells)
    (few,) = synced.findings
    assert few.message.startswith("only 2 states were recovered; SAFE takes 32")
    assert (synced.verdict, synced.commits_lost) == (Verdict.INCONCLUSIVE, 0)
    assert synced.commits_acked >= 12
    assert synced.states is not None
    assert (synced.states.engine, synced.states.states, synced.states.lossy) == ("guest", 2, 0)
    trials = tmp_path.glob("results/in-guest/2*/cells/*/0001")
    records = [TrialDir(one, one.parents[2]).read_record() for one in trials]
    pressed = {record.cell: record.pressed for record in records}
    assert pressed["synced"].writebacks > 0
    assert pressed["synced"].commits > 0
    assert pressed["unsafe"] == Pressed()
    assert (unsafe.verdict, unsafe.lost_lsns) == (
        Verdict.LOSSY, (LsnRange(1, unsafe.commits_acked),)
    )  # fmt: skip


@pytest.mark.nightly
def test_one_that_syncs_is_safe_and_its_controls_lose_all(tmp_path: Path) -> None:
    outcome = run_scenarios([made(tmp_path)], seed=7, results=tmp_path / "results")
    (run,) = outcome.runs
    synced, unsafe, names = run.cells
    assert synced.verdict is Verdict.SAFE, run.model_dump_json(indent=1)
    assert synced.commits_acked >= 12
    assert synced.states is not None
    assert (synced.states.engine, synced.states.states, synced.states.lossy) == ("guest", 32, 0)
    assert [(control.kind.value, control.verdict) for control in synced.controls] == [
        ("lying-disk", Verdict.LOSSY), ("no-sync", Verdict.LOSSY),
    ]  # fmt: skip
    assert synced.acks is not None
    assert synced.acks.basis is AckBasis.CLOCK, synced.acks.reason
    assert synced.acks.window_us is not None  # how much too early they may have been
    (trial,) = unsafe.trials
    assert (unsafe.verdict, trial.lost_lsns) == (
        Verdict.LOSSY, (LsnRange(1, trial.commits_acked),)
    )  # fmt: skip
    (recorded,) = tmp_path.glob("results/in-guest/2*/cells/synced/0001")
    record = TrialDir(recorded, recorded.parents[2]).read_record()
    assert record.pressed.writebacks > 0
    assert record.pressed.commits > 0
    assert record.reads == CheckReads(1)
    assert record.creation == Creation(0)  # its `setup` makes a file that holds nothing
    assert names.verdict is Verdict.INCONCLUSIVE, names.model_dump_json(indent=1)
    said = " ".join(finding.message for finding in names.trials[0].findings)
    assert "the check has read none of the files that were written (data/n1" in said
    assert "loses all that `setup` made (data/store)" in said
    (recorded_names,) = tmp_path.glob("results/in-guest/2*/cells/names/0001")
    made_by = TrialDir(recorded_names, recorded_names.parents[2]).read_record().creation
    assert made_by == Creation(1, ("data/store",), acked=True), "no content of it is ever synced"
    a_shell_has_the_state_and_the_root(recorded)


def a_shell_has_the_state_and_the_root(recorded: Path) -> None:
    """Without a virtual machine, and read-only around the state."""
    commands = (
        "pwd; busybox head -n 1 log; /opt/powercut/log.sh check /mnt/data && busybox touch /x"
    )
    done = subprocess.run(
        [sys.executable, "-m", "powercut.cli.main", "shell", str(recorded), "cut", "--no-terminal"],
        input=commands, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    pwd, first, *checked, refused = done.stdout.splitlines()
    assert (pwd, first, checked[0]) == ("/mnt/data", "1", "= 1")
    assert "Read-only file system" in refused


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
