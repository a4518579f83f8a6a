# SPDX-License-Identifier: Apache-2.0
"""`powercut reproduce`: a planted loss as a program that shows it without powercut; its twin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from captured_here import called, captured, refused, status, two_files

from powercut.crash.folder_rows import Promise
from powercut.model.errors import HostError, UsageError
from powercut.recording.folder import build_tree, open_capture
from powercut.recording.state_names import resolve_state
from powercut.store.folder import CaptureDir
from powercut_extras.reproduce.program import write_reproduction

pytestmark = pytest.mark.fuse

RENAMES = """
import os, sys
lines, folder, way = int(os.environ["POWERCUT_FD"]), sys.argv[1], sys.argv[2]
say = lambda text: os.write(lines, text.encode())
opened = os.open(folder, os.O_RDONLY)
os.mkdir(folder + "/kept")
os.symlink("kept", folder + "/link")
os.fsync(opened)
say("ready\\n")
for n in range(1, 13):
    say(f"? {n}\\n")
    new = os.open(folder + "/new", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o640)
    os.write(new, b"x" * 5000 + b"%d" % n)
    os.ftruncate(new, 4000)
    os.pwrite(new, b"%d" % n, 6000)
    os.fsync(new)
    os.rename(folder + "/new", folder + f"/kept/{n}")
    if way == "honest":
        os.fsync(os.open(folder + "/kept", os.O_RDONLY)); os.fsync(opened)
    say(f"+ {n}\\n")
"""
KEPT = """
import os, sys
folder = sys.argv[1] + "/link"
for name in os.listdir(folder) if os.path.exists(folder) else ():
    wanted = b"x" * 4000 + bytes(2000) + name.encode()
    word = "=" if open(f"{folder}/{name}", "rb").read() == wanted else "x"
    os.write(int(os.environ["POWERCUT_FD"]), f"{word} {name} of the folder\\n".encode()
             if word == "x" else f"= {name}\\n".encode())
"""


def run_alone(program: Path, tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """As a maintainer does: Python, and nothing of powercut or of its environment."""
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)}
    return subprocess.run(
        ["python3", str(program), *words], env=environment, cwd="/", check=False, text=True,
        capture_output=True, timeout=120,
    )  # fmt: skip


def renames(tmp_path: Path, way: str, promise: str) -> CaptureDir:
    tmp_path.mkdir(exist_ok=True)
    (run := tmp_path / "run.py").write_text(RENAMES)
    (check := tmp_path / "check.py").write_text(KEPT)
    folder = str(tmp_path / "folder")
    command, options = [str(run), folder, way], ("--promise", promise, "--budget", "40")
    return captured(tmp_path, [str(check), folder], command, *options)


@pytest.fixture(scope="module")
def forgets(tmp_path_factory: pytest.TempPathFactory) -> CaptureDir:
    return two_files(tmp_path_factory.mktemp("forgets"), "forgets")


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> CaptureDir:
    return two_files(tmp_path_factory.mktemp("honest"), "honest")


def test_the_program_shows_the_loss_and_its_twin_does_not(
    tmp_path: Path, forgets: CaptureDir, honest: CaptureDir
) -> None:
    written = tmp_path / "out"
    words = ["--twin", honest.path, "--promised", "What run acknowledges is durable."]
    assert status("reproduce", forgets.path, "-o", written, *words) == 0
    lost = run_alone(written / "reproduce.py", tmp_path)
    assert lost.returncode == 1, lost.stdout + lost.stderr
    assert "LOST write of bytes 44 to 47 of index" in lost.stdout
    assert lost.stdout.index("operation 12 is acknowledged") < lost.stdout.index("cut here")
    assert run_alone(written / "reproduce.py", tmp_path, "--all").returncode == 0
    kept = run_alone(written / "twin" / "reproduce.py", tmp_path)
    assert kept.returncode == 0, kept.stdout + kept.stderr
    report = (written / "REPORT.md").read_text()
    assert "What run acknowledges is durable." in report
    assert "no sync of index came after it" in report


def test_the_calls_are_those_of_the_last_operations_alone(
    tmp_path: Path, forgets: CaptureDir
) -> None:
    """What was there before the first lost call is in files, not in calls."""
    assert status("reproduce", forgets.path, "-o", tmp_path / "out") == 0
    lines = [json.loads(line) for line in (tmp_path / "out" / "calls").read_text().splitlines()]
    shown = [line[-1] for line in lines if line[-1]]
    assert len(shown) < 8
    assert [line[-1] for line in lines if line[0]] == ["write of bytes 44 to 47 of index"]


@pytest.mark.parametrize("promise", ["journal", "posix"])
def test_what_it_makes_is_the_crash_state(tmp_path: Path, promise: str) -> None:
    """Names, sizes, holes and contents: as powercut itself makes the folder."""
    directory = renames(tmp_path, "lax", promise)
    recording = open_capture(directory, Promise(promise))
    space = recording.space
    found = [path.stem for path in (directory.path / "states").glob("*.json")]
    for name in [*found[:4], "ack:7", "everything@cut", "durable@cut"]:
        made = write_reproduction(recording, name, 1, tmp_path / "made" / name.replace(":", ""))
        ours = tmp_path / "ours" / name
        ours.mkdir(parents=True)
        build_tree(space, space.tree(resolve_state(recording, name)), ours)
        theirs = tmp_path / "theirs" / name
        theirs.parent.mkdir(exist_ok=True)
        subprocess.run(
            [sys.executable, str(made.program)], env={"DIR": str(theirs)}, check=False,
            capture_output=True, timeout=120,
        )  # fmt: skip
        assert contents(theirs) == contents(ours), name


def contents(folder: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = str(path.readlink())
        else:
            found[name] = path.read_bytes() if path.is_file() else None
    return found


def test_a_rename_that_no_sync_covers_is_reproduced(tmp_path: Path) -> None:
    directory = renames(tmp_path / "lax", "lax", "posix")
    twin = renames(tmp_path / "honest", "honest", "posix")
    out = tmp_path / "out"
    assert status("reproduce", directory.path, "-o", out, "--twin", twin.path) == 0
    assert "LOST" in (said := run_alone(out / "reproduce.py", tmp_path).stdout), said
    assert "the new name kept/" in said


def test_a_safe_recording_is_refused(tmp_path: Path, honest: CaptureDir) -> None:
    said = refused(UsageError, "reproduce", honest.path, "-o", tmp_path / "out")
    assert "no loss is known" in said


def test_a_twin_that_loses_it_too_is_refused(tmp_path: Path, forgets: CaptureDir) -> None:
    words = ["reproduce", forgets.path, "-o", tmp_path / "out", "--twin", forgets.path]
    assert "exit status 1, where 0 was expected" in refused(HostError, *words)


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path, forgets: CaptureDir) -> None:
    (tmp_path / "mine").write_text("mine")
    assert "exists already" in refused(UsageError, "reproduce", forgets.path, "-o", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert called("reproduce", "--help").exit_code == 0
