# SPDX-License-Identifier: Apache-2.0
"""The core without any extra: it installs, runs, tries and verifies, and its tests pass.

A campaign: it installs a checkout of its own and runs its tests, in some 8 minutes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from powercut.paths import ROOT

pytestmark = pytest.mark.campaign

FORGETS = """#!/bin/sh
say() { echo "$@" >&"$POWERCUT_FD"; }
case $1 in
run)
    say ready; n=1
    while [ "$n" -le 20 ]; do say "? $n"; echo "$n" >"$2/$n"; say "+ $n"; n=$((n + 1)); done ;;
check) cd "$2" && for f in *; do if [ "$(cat "$f")" ]; then say "= $f"; fi; done ;;
esac
"""


OF_ALL = ("tests/unit/test_linters.py", "tests/unit/test_house.py", "tests/unit/packaging")
"""They see to the whole checkout, its pages and extras included."""


@pytest.fixture(scope="module")
def core(tmp_path_factory) -> Path:
    """A clone with no extra in it."""
    made = tmp_path_factory.mktemp("core") / "powercut"
    subprocess.run(["git", "clone", "-q", ROOT, made], check=True)
    for extra in (made / "harness/powercut_extras").iterdir():
        if extra.is_dir():
            shutil.rmtree(extra)
    shutil.rmtree(made / "tests/extras")
    project = made / "pyproject.toml"
    text, count = re.subn(
        r'(?ms)^\[project\.entry-points\."powercut\..*?(?=^\[)', "", project.read_text()
    )
    assert count
    project.write_text(text)
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", "-C", made, *who, "commit", "-qam", "without extras"], check=True)
    return made


def powercut(core: Path, *argv: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["./powercut", *argv],
        cwd=core,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env={name: value for name, value in os.environ.items() if name != "CI"},
        check=False,
    )


def test_it_runs_tries_and_verifies(core):
    done = powercut(core, "run", "first-light", "--seed", "1", timeout_s=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert powercut(core, "probe", ".", timeout_s=60).returncode == 2
    assert powercut(core, "verify", "results/first-light/latest", timeout_s=300).returncode == 0
    program = core / "forgets"
    program.write_text(FORGETS)
    program.chmod(0o755)
    tried = powercut(core, "try", "./forgets", timeout_s=600)
    assert tried.returncode == 1, tried.stdout + tried.stderr
    assert "LOSSY" in tried.stdout


def test_its_tests_pass(core):
    tests = ("tests/unit", "tests/property", "tests/conformance")
    argv = ("test", *tests, "-q", "--tb=line", "-n", "2")
    argv += ("-m", "not vm and not nightly and not campaign")
    argv += tuple(f"--ignore={one}" for one in OF_ALL)
    done = powercut(core, *argv, timeout_s=1200)
    assert done.returncode == 0, done.stdout[-6000:]
