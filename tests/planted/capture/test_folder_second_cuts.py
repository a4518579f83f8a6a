# SPDX-License-Identifier: Apache-2.0
"""The power fails again while a check recovers: a recovery that is not safe loses what it must."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from pathlib import Path

import pytest
from checked_folder import check_folder
from click.testing import CliRunner

from powercut.campaign.folder import CaptureOrder, record_folder
from powercut.cli.commands import cli
from powercut.crash.folder_rows import Promise
from powercut.crash.states import CrashState
from powercut.explore.depth import SecondCuts
from powercut.explore.folder import FolderCuts
from powercut.explore.folder_judge import FolderJudge
from powercut.explore.work import Deepen, StateJudgement
from powercut.model.verdict import FindingKind, losses
from powercut.recording.folder import FolderRecording, open_capture
from powercut.rig.folder_check import record_check
from powercut.store.folder import CaptureDir

pytestmark = pytest.mark.fuse

PROGRAM = Path(__file__).parents[2] / "support" / "folder_recovery.py"
ALL = frozenset((FindingKind.LOST, lsn) for lsn in range(1, 13))
TIMEOUT_S = 120.0


def words(way: str, verb: str, folder: Path) -> list[str]:
    return [sys.executable, "-I", "-S", str(PROGRAM), way, verb, str(folder)]


def recorded(tmp_path: Path) -> FolderRecording:
    folder = tmp_path / "folder"
    folder.mkdir()
    order = CaptureOrder(
        folder=folder,
        command=tuple(words("late", "run", folder)),
        check=("check",),
        acks=0,
        seconds=TIMEOUT_S,
        atomic_unit=4096,
        seed=1,
    )
    directory = CaptureDir.create(tmp_path / "recording")
    assert record_folder(order, directory).status == 0, directory.console.read_text()
    return open_capture(directory)


def second_cuts(
    tmp_path: Path, recording: FolderRecording, way: str, depth: int
) -> list[StateJudgement]:
    """What cuts leave of the state at the end with nothing but what is durable, which is all."""
    folder, scratch = tmp_path / "folder", tmp_path / f"{way}-{depth}"
    scratch.mkdir()
    command = words(way, "check", folder)
    check = partial(check_folder, command, folder=folder, where=Path("/"), timeout_s=TIMEOUT_S)
    record = partial(
        record_check,
        command,
        folder=folder,
        where=Path("/"),
        atomic_unit=4096,
        seed=1,
        timeout_s=TIMEOUT_S,
    )
    checked = FolderJudge(
        recording.under(Promise.JOURNAL), lambda state, boot: check(state=state, boot=boot), scratch
    )
    with checked as judge:
        at_end = CrashState(recording.record.cut_ns, ())
        assert judge.ask(at_end)().findings == ()
        medium = FolderCuts(
            judge,
            Promise.JOURNAL,
            lambda state, log, boot: record(state=state, log=log, boot=boot),
            scratch,
        )
        limit = 32 if depth == 1 else 1024
        cuts = SecondCuts(medium, Deepen(at_end, limit, depth, seed=1), deeper=32)
        cuts.follow(at_end)
        assert cuts.count.deepest == depth
        return cuts.judged


def test_a_log_that_goes_before_its_table_is_durable(tmp_path: Path) -> None:
    recording = recorded(tmp_path)
    lost = [one for one in second_cuts(tmp_path, recording, "early", 1) if losses(one.findings)]
    assert lost
    assert {frozenset(losses(one.findings)) for one in lost} == {ALL}
    assert all("into check 1" in one.findings[0].message for one in lost)
    # Its honest twin, whose every cut leaves the one or the other.
    twin = list(second_cuts(tmp_path, recording, "late", 2))
    assert twin
    assert [one for one in twin if one.findings] == []


def test_a_fault_that_takes_two_cuts_in_checks_is_found_by_the_second(tmp_path: Path) -> None:
    recording = recorded(tmp_path)
    assert [one for one in second_cuts(tmp_path, recording, "second", 1) if one.findings] == []
    states = list(second_cuts(tmp_path, recording, "second", 2))
    lost = [one for one in states if losses(one.findings)]
    assert lost
    assert {frozenset(losses(one.findings)) for one in lost} == {ALL}
    told = [one.findings[0].message for one in lost]
    assert all("then" in message and "into check 2" in message for message in told)


@pytest.mark.parametrize(("way", "verdict"), [("early", "LOSSY"), ("late", "SAFE")])
def test_capture_says_what_a_second_cut_loses(tmp_path: Path, way: str, verdict: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    check = shlex.join(words(way, "check", folder))
    argv = ["capture", str(folder), "--check", check, "--budget", "32", "--depth", "1"]
    argv += ["--seed", "1", "--results", str(tmp_path / "results")]
    done = CliRunner().invoke(cli, [*argv, "--", *words(way, "run", folder)])
    assert done.exception is None, done.output
    (made,) = (tmp_path / "results" / "capture").iterdir()
    result = CaptureDir(made).read_result()
    assert result.verdict.name == verdict, done.output
    seen = result.explored.coverage
    assert (seen.recovery_lossy > 0) == (way == "early")
    assert seen.lossy == seen.recovery_lossy
    assert seen.recovery_states > 0
    assert "recorded checks" in done.output
    again = CliRunner().invoke(cli, ["verify", str(made)])
    assert "recorded checks" in again.output
    assert "DIFFERS" not in again.output
