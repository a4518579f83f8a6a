# SPDX-License-Identifier: Apache-2.0
"""Captured folders of this host, by the commands that a user gives."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from click.testing import CliRunner, Result

from powercut.cli.commands import cli
from powercut.model.errors import PowercutError
from powercut.store.folder import CaptureDir

SUPPORT = Path(__file__).parent
PYTHON = [sys.executable, "-I", "-S"]
CHECK = """
import os, sys
log = os.path.join(sys.argv[1], "log")
lines = open(log, errors="replace").read().split("\\n") if os.path.exists(log) else []
kept = [n for n, line in enumerate(lines, 1) if line == f"{n:3}"]
os.write(int(os.environ["POWERCUT_FD"]), "".join(f"= {n}\\n" for n in kept).encode())
"""


def called(*words: object, typed: str = "") -> Result:
    argv = [str(word) for word in words]
    return CliRunner().invoke(cli, argv, input=typed, standalone_mode=False)


def status(*words: object, typed: str = "") -> int:
    """The exit status of a command that is not refused."""
    done = called(*words, typed=typed)
    assert done.exception is None, done.exception
    assert isinstance(done.return_value, int)
    return done.return_value


def refused(kind: type[PowercutError], *words: object) -> str:
    """What powercut says when it refuses."""
    error = called(*words).exception
    assert isinstance(error, kind), error
    return f"{error} {error.hint}"


def captured(tmp_path: Path, check: list[str], command: list[str], *options: str) -> CaptureDir:
    folder = tmp_path / "folder"
    folder.mkdir()
    words = ["capture", folder, "--results", tmp_path, *options]
    done = called(*words, "--check", shlex.join([*PYTHON, *check]), "--", *PYTHON, *command)
    assert done.exception is None, done.exception
    (directory,) = (tmp_path / "capture").iterdir()
    return CaptureDir(directory)


def two_files(tmp_path: Path, way: str) -> CaptureDir:
    program, folder = str(SUPPORT / "two_files.py"), str(tmp_path / "folder")
    budget = "40" if way == "honest" else "6"  # SAFE needs 32 states
    command = [program, "run", folder, way]
    return captured(tmp_path, [program, "check", folder], command, "--budget", budget)


def one_file(tmp_path: Path, way: str, promise: str) -> CaptureDir:
    check = tmp_path / "check.py"
    check.write_text(CHECK)
    folder = str(tmp_path / "folder")
    command = [str(SUPPORT / "folder_program.py"), way, folder]
    options = ["--promise", promise, "--budget", "6"]
    return captured(tmp_path, [str(check), folder], command, *options)
