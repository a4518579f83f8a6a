# SPDX-License-Identifier: Apache-2.0
"""Honest programs that do what few do are SAFE in a captured folder, and those that lie LOSSY."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from folders_judged import judged_by

from powercut.campaign.folder import CaptureOrder, judge_folder, record_folder
from powercut.crash.folder_rows import Promise
from powercut.crash.states import CrashState
from powercut.explore.request import Budget, ExploreRequest
from powercut.model.folder import FolderOp
from powercut.model.observation import Observation
from powercut.recording.folder import FolderRecording, build_tree, open_capture
from powercut.store.folder import CaptureDir, CaptureResult

pytestmark = pytest.mark.fuse

PROGRAM = Path(__file__).parents[2] / "support" / "honest_ways.py"
OPERATIONS = 24


def recorded(tmp_path: Path, way: str) -> FolderRecording:
    folder = tmp_path / "folder"
    folder.mkdir(exist_ok=True)
    run, check = (
        ("/usr/bin/python3", "-ISB", str(PROGRAM), way, verb, str(folder))
        for verb in ("run", "check")
    )
    directory = CaptureDir.create(tmp_path / "recording")
    record_folder(CaptureOrder(folder, run, check, 0, 120.0, 4096, 1), directory)
    return open_capture(directory)


def judged(recording: FolderRecording, *, states: int = 60) -> CaptureResult:
    wanted = ExploreRequest(budget=Budget(states=states), seed=1, confirm=False)
    return judge_folder(open_capture(recording.directory, Promise.JOURNAL), wanted, state_s=120.0)


@pytest.mark.parametrize(
    ("way", "verdict"),
    [
        ("queue", "SAFE"),
        ("fifo", "SAFE"),
        ("lying-fifo", "LOSSY"),
        ("daemon", "SAFE"),
        ("lying-daemon", "LOSSY"),
        ("complaining", "SAFE"),
        ("lying-complaining", "LOSSY"),
        ("memory", "SAFE"),
        ("unread", "SAFE"),
        ("lying-unread", "LOSSY"),
        ("names", "SAFE"),
        ("lying-names", "LOSSY"),
    ],
)
def test_the_honest_are_safe_and_the_liars_lossy(tmp_path: Path, way: str, verdict: str) -> None:
    recording = recorded(tmp_path, way)
    assert recording.record.status == 0, recording.directory.console.read_text()
    result = judged(recording)
    assert (result.verdict.name, result.acknowledged) == (verdict, OPERATIONS), (
        result.reasons,
        result.explored.findings,
    )
    assert result.control == "LOSSY"


@pytest.mark.parametrize(
    ("refused", "verdict"), [("always", "SAFE"), ("at a loss", "INCONCLUSIVE")]
)
def test_a_check_is_refused_what_it_needs_or_says_so_for_its_own_reasons(
    tmp_path: Path, refused: str, verdict: str
) -> None:
    """One that was not refused where nothing was lost may miss what it could not recover."""
    recording = recorded(tmp_path, "plain")

    def check(state: Path) -> Observation:
        log = state / "log"
        kept = log.read_bytes().count(b"\n") if log.exists() else 0
        lines = f"= 1-{kept}\n".encode() if kept else b""
        if refused == "at a loss" and kept == OPERATIONS:
            return Observation((), lines=lines)
        words = frozenset({"mv: Read-only file system"})
        return Observation((), complete=False, failure="it says", lines=lines, refused=words)

    result = judged_by(check, recording, Promise.JOURNAL, tmp_path / "states", states=60)
    assert result.verdict.name == verdict, result.reasons


@pytest.mark.parametrize(
    ("way", "told"),
    [
        ("inodes", "inode numbers of other files stand in log, and in a state's folder"),
        ("collapsing", "a captured folder, as tmpfs, refuses FALLOC_FL_COLLAPSE_RANGE"),
    ],
)
def test_what_a_captured_folder_has_not_is_told_with_what_to_do(
    tmp_path: Path, way: str, told: str
) -> None:
    result = judged(recorded(tmp_path, way))
    assert result.verdict.name == "INCONCLUSIVE"
    (reason,) = [one for one in result.reasons if one.startswith(told)]
    assert "(powercut record)" in reason


def everything(recording: FolderRecording, promise: Promise, target: Path) -> Path:
    """The state that lacks nothing."""
    target.mkdir()
    space, cut = recording.under(promise).space, recording.record.cut_ns
    state = CrashState(cut, tuple(space.volatile(cut).tolist()))
    build_tree(space, space.tree(state), target)
    return target


def test_pipes_and_sockets_are_in_states_as_they_were(tmp_path: Path) -> None:
    """Those that were there at first, too, under all their names, and no device."""
    folder = tmp_path / "folder"
    folder.mkdir()
    os.mkfifo(folder / "old", 0o600)
    os.link(folder / "old", folder / "older")
    os.mknod(folder / "was", stat.S_IFSOCK | 0o640)
    script = f"""set -e; cd {folder}
        mkfifo -m 604 new; ln new newer; mv older oldest; rm was; mkfifo gone; rm gone
        mknod null c 1 3 2>/dev/null && exit 9; mknod disk b 7 0 2>/dev/null && exit 9
        /usr/bin/python3 -ISc 'import socket; socket.socket(socket.AF_UNIX).bind("at")'"""
    directory = CaptureDir.create(tmp_path / "recording")
    order = CaptureOrder(folder, ("sh", "-c", script), ("check",), 0, 120.0, 4096, 1)
    assert record_folder(order, directory).status == 0, directory.console.read_text()
    recording = open_capture(directory)
    for promise in Promise:
        made = everything(recording, promise, tmp_path / promise.value)
        kinds = {path.name: stat.S_IFMT(path.lstat().st_mode) for path in made.iterdir()}
        pipes = dict.fromkeys(("old", "oldest", "new", "newer"), stat.S_IFIFO)
        assert kinds == pipes | {"at": stat.S_IFSOCK}
        assert (made / "new").samefile(made / "newer")
        assert (made / "old").samefile(made / "oldest")
        assert stat.S_IMODE((made / "new").stat().st_mode) == 0o604
    ops = [one.op for one in recording.folder.requests]
    assert (ops.count(FolderOp.PIPE), ops.count(FolderOp.SOCKET)) == (3, 2)


def test_a_pipe_without_a_sync_of_its_name_may_be_gone(tmp_path: Path) -> None:
    recording = recorded(tmp_path, "fifo")
    space = recording.under(Promise.POSIX).space
    first = recording.start_ns
    made = [row for row in space.rows if row.request.op is FolderOp.PIPE]
    assert [row.request.names for row in made] == [("pipe",)]
    durable_ns = int(space.sets.durable_ns[space.rows.index(made[0])])
    assert made[0].request.completed_ns < durable_ns < first
