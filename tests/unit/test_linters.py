# SPDX-License-Identifier: Apache-2.0
"""Lint, format and types are tests like any other."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from powercut.paths import BUILD, ROOT

TOOLS = Path(sys.executable).parent
SHELL = (
    *("powercut", ".ci/run", ".ci/nightly", ".ci/weekly", "harness/make-part", "tests/odd-hosts"),
    "workloads/examples/append.sh",
)


@pytest.mark.parametrize(
    "command",
    [
        ["ruff", "check", "harness", "tests", "workloads"],
        ["ruff", "format", "--check", "harness", "tests", "workloads"],
        ["mypy"],
    ],
    ids=["lint", "format", "types"],
)
def test_python_is_clean(command):
    program, *arguments = command
    caches = {"RUFF_CACHE_DIR": str(BUILD / "ruff"), "MYPY_CACHE_DIR": str(BUILD / "mypy")}
    done = subprocess.run(
        [TOOLS / program, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | caches,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_shell_is_clean():
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed: apt-get install shellcheck")
    done = subprocess.run(
        ["shellcheck", "--severity=warning", *sorted((ROOT / "docs/findings").glob("*.sh"))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    done = subprocess.run(
        ["shellcheck", *SHELL],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_the_containerfile_is_clean():
    hadolint = TOOLS / "hadolint"
    if not hadolint.exists():
        pytest.skip("hadolint is not installed: pip install -e '.[dev]'")
    file = ROOT / "harness/powercut/cli/starter/Containerfile.in"
    done = subprocess.run([hadolint, file], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
