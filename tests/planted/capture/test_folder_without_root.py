# SPDX-License-Identifier: Apache-2.0
"""A folder is captured without root: in user namespaces, also where another group owns it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "support" / "folder_program.py"
CHECK = PROGRAM.with_name("folder_check.py")
LOSSY, OF_ANOTHER = 1, 12345
ALONE = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
"""In there this process's user is called 1000 and has no rights of root."""

TIMEOUT_S = 300


def capture(tmp_path: Path, folder: Path, way: str) -> int:
    """The exit status of `powercut capture` for a program that keeps numbers in this way."""
    python = [sys.executable, "-I", "-S"]
    argv = [*ALONE, sys.executable, "-m", "powercut.cli.main", "capture", str(folder)]
    argv += ["--budget", "40", "--results", str(tmp_path / "results")]
    argv += ["--check", shlex.join([*python, str(CHECK), str(folder)])]
    argv += ["--", *python, str(PROGRAM), way, str(folder)]
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, timeout=TIMEOUT_S, cwd=tmp_path
    )
    assert "control" in done.stdout, done.stdout + done.stderr
    (folder / "log").unlink()
    return done.returncode


@pytest.mark.fuse
@pytest.mark.userns
def test_a_program_without_syncs_loses_without_root(tmp_path: Path) -> None:
    """Its twin, which syncs, loses nothing."""
    folder = tmp_path / "folder"
    folder.mkdir()
    if not os.geteuid():
        os.chown(folder, -1, OF_ANOTHER)
    statuses = [capture(tmp_path, folder, way) for way in ("append", "append-unsynced")]
    assert statuses == [0, LOSSY]
