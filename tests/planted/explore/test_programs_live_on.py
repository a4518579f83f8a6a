# SPDX-License-Identifier: Apache-2.0
"""Programs whose recovery looks right: one breaks on the next write, of another a cut during the
recovery loses everything.  Each is found, with the operations; their honest twins are silent.

The recordings are made by the uml engine itself: a program on an empty file system, with every
write on record.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from recordings_made import recording_made

from powercut.crash.explore import InstantKind, events
from powercut.crash.states import CrashState
from powercut.explore import explorer
from powercut.explore.disks import DiskMedium
from powercut.explore.explorer import ExplorerRun
from powercut.explore.recovery_timeline import Durability, instant_after, timeline_of_record
from powercut.explore.request import Budget, ExploreRequest, Prune
from powercut.explore.state_judge import open_judge
from powercut.explore.work import Deepen, Work
from powercut.explore.worker import LocalWorker
from powercut.model.contract import DeviceContract
from powercut.model.errors import HostError
from powercut.model.operations import Packet
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut.recording import state_ref
from powercut.recording.sealed import TrialRecording
from powercut.recover.uml.engine import UmlEngine, unavailable
from powercut.rig import commands
from powercut.rig.recovery import going_on
from powercut.rig.rig import Rig
from powercut.scenario.plan import Trial, Trigger, TriggerKind
from powercut.scenario.settings import DiskSettings, FilesystemSettings, Parameters
from powercut.scenario.settings_program import ProgramSettings
from powercut.store.trial_dir import TrialDir, TrialRecord
from powercut.witness.minimize import minimize
from powercut.workload.program.claims import history_of
from powercut.workload.program.promises import ProgramPromises

pytestmark = pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable()))

SIZE = 16 << 20
OPERATIONS = 4
GO_ON = 3
STATES = 6
SECOND_STATES = 100

# An operation is a line that says that it begins and one that says that it has ended.
PAIRS = r"""#!/bin/sh
say() { echo "$@" >&"$POWERCUT_FD"; }
log=$2/log
case $1 in
run)
    mkdir -p "$2"; touch "$log"; sync "$2" "$2/.."
    REPAIR
    n=$(($(grep -c end "$log") + 1))
    while :; do
        say "? $n"
        echo "begin $n" >>"$log"; sync "$log"
        echo "end $n" >>"$log"; sync "$log"
        say "+ $n"; n=$((n + 1))
    done ;;
check)
    [ -e "$log" ] || exit 0
    RECOVER
    while read -r begin n && read -r end m; do
        [ "$begin $end $n" = "begin end $m" ] || break
        say "= $n"
    done <"$log" ;;
esac
"""
WITHOUT_THE_HALF = r"""
    if tail -n 1 "$log" | grep -q begin; then
        sed '$d' "$log" >"$log.new"; sync "$log.new"; mv "$log.new" "$log"; sync "$2"
    fi"""
IN_PLACE = 'cp "$log" /tmp/log; : >"$log"; sync "$log"; cat /tmp/log >"$log"; sync "$log"'
BESIDE = 'cp "$log" "$log.new"; sync "$log.new"; mv "$log.new" "$log"; sync "$2"'
ADDS = 'n=$(grep -c end "$log"); printf "begin $n\\nend $n\\n" | sed "s/$n/$((n + 1))/" >>"$log"'


def recording(
    folder: Path, *, text: str = PAIRS, repair: str = "", recover: str = ""
) -> TrialRecording:
    """A program that had acknowledged some operations when it was killed; then a clean unmount."""
    folder.mkdir(exist_ok=True)
    program = folder / "pairs"
    program.write_text(text.replace("REPAIR", repair).replace("RECOVER", recover))
    program.chmod(0o755)
    trial = TrialDir(folder, folder)
    with trial.base_image.open("wb") as file:
        file.truncate(SIZE)
    mkfs = shutil.which("mkfs.ext4", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    assert mkfs is not None
    subprocess.run([mkfs, "-q", "-F", trial.base_image], check=True, timeout=60)
    parameters = Parameters(
        disk=DiskSettings(size=SIZE, atomic_unit=4096),
        filesystem=FilesystemSettings(type="ext4"),
        workload=ProgramSettings(kind="program", command=(str(program),), folder=str(folder)),
    )
    plan = going_on(
        commands.recovery_plan(parameters, bytes(16)), parameters, bytes(16), OPERATIONS
    )
    with UmlEngine(trial.base_image, plan) as engine:
        engine.start(timeout_s=120)
        seen, raw = engine.record((), timeout_s=60)
    assert seen.later is not None
    assert seen.later.failure == ""
    durability = Durability(DeviceContract(atomic_unit=4096), through=False)
    timeline = timeline_of_record(raw, disk_size=SIZE, durability=durability)
    tried = [Packet(0, line) for line in seen.later.lines.splitlines(True) if line[:1] == b"?"]
    acks = [line for line in seen.later.lines.splitlines(True) if line[:1] == b"+"]
    assert len(acks) >= OPERATIONS
    packets = [*tried, *(Packet(instant_after(timeline) or 0, line) for line in acks)]
    record = TrialRecord(
        powercut="0",
        scenario="handmade",
        cell="pairs",
        parameters=parameters,
        trial=Trial(1, 1, 1, Trigger(TriggerKind.ACKS, 1)),
        run_id="00" * 16,
        versions=Rig().versions(parameters),
    )
    trial.write_record(record)
    trial.seal_recording()
    promises = ProgramPromises(history_of(packets))
    return recording_made(trial, record, timeline, promises)


def acknowledged(recorded: TrialRecording) -> LsnRange:
    return LsnRange(1, recorded.promises.acked)


def worker(recorded: TrialRecording, *, after: int = 0, depth: int = 0) -> LocalWorker:
    trial = recorded.directory
    return LocalWorker(
        Work(trial.path, trial.run, "program", Prune.BYTES, 1, after, depth), recorded
    )


def lives(recorded: TrialRecording) -> list[tuple[Finding, ...]]:
    """What is found after a recovery of what is durable at instants all over the run."""
    ended = instant_after(recorded.space.timeline) or 0
    instants = [one for one in events(recorded.space, [InstantKind.FLUSH]).tolist() if one < ended]
    found = []
    with worker(recorded, after=GO_ON) as one:
        for instant in instants[:: max(1, len(instants) // STATES)]:
            state = CrashState(instant + 1, (), policy="durable-only")
            (judged,) = one.judge([state]).judged
            assert judged.went_on
            found.append(judged.findings)
    return found


def test_a_store_that_reads_well_and_breaks_on_the_next_write_is_found(tmp_path):
    found = lives(recording(tmp_path))
    broken = [findings for findings in found if findings]
    # Some states end within an operation: what comes after it is never read again.
    assert len(found) > len(broken) > 0
    for (finding,) in broken:
        assert (finding.kind, finding.verdict) == (FindingKind.LOST, Verdict.LOSSY)
        (lost,) = finding.lsns
        assert len(lost) >= GO_ON
        assert finding.message.startswith(f"life after recovery, which acknowledged {lost}: ")


def test_its_honest_twin_lives_on(tmp_path):
    assert not any(lives(recording(tmp_path, repair=WITHOUT_THE_HALF)))


def second_cuts(recorded: TrialRecording):
    at_the_end = CrashState(instant_after(recorded.space.timeline) + 1, (), policy="durable-only")
    with worker(recorded, depth=1) as one:
        return one.deepen(Deepen(at_the_end, SECOND_STATES, 1, 5))


def test_a_recovery_that_is_not_crash_safe_is_found(tmp_path):
    recorded = recording(tmp_path, recover=IN_PLACE)
    answers = second_cuts(recorded)
    lost = [f for judged in answers.judged for f in judged.findings]
    assert answers.recoveries.recorded == 1
    assert 0 < len(lost) < len(answers.judged)
    assert {(f.kind, f.verdict, f.lsns) for f in lost} == {
        (FindingKind.LOST, Verdict.LOSSY, (acknowledged(recorded),))
    }
    assert all("during the recovery of that state" in f.message for f in lost)


def test_a_recovery_that_writes_beside_what_is_there_survives_cuts(tmp_path):
    answers = second_cuts(recording(tmp_path, recover=BESIDE))
    assert answers.recoveries.recorded == 1
    assert answers.recoveries.states == len(answers.judged) > 0
    assert [f for judged in answers.judged for f in judged.findings] == []


def test_a_check_that_adds_something_has_no_second_cuts(tmp_path):
    """Else its own additions would be operations that nobody tried."""
    recorded = recording(tmp_path)
    program = tmp_path / "pairs"
    program.write_text(
        PAIRS.replace("REPAIR", "")
        .replace("RECOVER", ADDS)
        .replace("exit 0", 'mkdir -p "$2"; : >"$log"')
    )
    wanted = ExploreRequest(budget=Budget(states=2), depth=1, confirm=False)
    result = ExplorerRun(DiskMedium(replace(recorded), wanted), wanted).explore()
    told = [found.examples[0].message for found in result.findings]
    assert any("second cuts were not looked at" in message for message in told)
    assert (result.coverage.recoveries, result.coverage.recovery_states) == (0, 0)


def test_a_program_that_begins_anew_is_not_cut_again(tmp_path):
    """It overwrites what was there before, and says so: that is nobody's loss."""
    recorded = recording(tmp_path)
    program = tmp_path / "pairs"
    anew = PAIRS.replace("REPAIR", ': >"$log"').replace("RECOVER", "")
    program.write_text(anew)
    ended = instant_after(recorded.space.timeline)
    assert ended is not None
    with worker(recorded, after=GO_ON, depth=1) as one:
        answers = one.deepen(Deepen(CrashState(ended + 1, (), policy="durable-only"), 8, 1, 5))
    found = [f for judged in answers.judged for f in judged.findings]
    assert {f.verdict for f in found} == {Verdict.INCONCLUSIVE}
    assert any("tries operation 1 again" in f.message for f in found)
    assert (answers.recoveries.recorded, answers.recoveries.states) == (0, 0)


def test_the_smallest_loss_of_an_operation_is_found_and_told(tmp_path):
    """The end of an operation is acknowledged before it is synced: its write is the one to lose."""
    early = PAIRS.replace('end $n" >>"$log"; sync "$log"', 'end $n" >>"$log"')
    early = early.replace("while :;", f'while [ "$n" -le {OPERATIONS} ];')
    recorded = recording(tmp_path, text=early)
    ended = instant_after(recorded.space.timeline)
    assert ended is not None
    state = CrashState(ended + 1, (), policy="durable-only")
    name = state_ref.save(recorded.directory, state)
    witness = minimize(recorded, name, budget=Budget(states=60))
    lost = LsnRange(OPERATIONS, OPERATIONS)
    assert acknowledged(recorded) == LsnRange(1, OPERATIONS)
    assert (witness.unit, witness.lost, witness.minimal) == ("operation", (lost,), True)
    assert witness.cause.startswith("No write has to be lost: even with everything")
    assert f"operation {OPERATIONS} is lost" in witness.cause
    assert any(one.text == f"operation {OPERATIONS} is acknowledged" for one in witness.events)


def test_another_check_is_not_asked_of_what_was_recorded(tmp_path):
    """It would convict an honest program, or acquit one that loses."""
    recorded = recording(tmp_path / "program")
    program = tmp_path / "program" / "pairs"
    program.write_text(program.read_text().replace('say "= $n"', ":"))
    with pytest.raises(HostError, match="has changed since the recording was made"):
        explorer.explore(recorded.sealed)
    with pytest.raises(HostError, match="has changed since the recording was made"):
        open_judge(recorded)
