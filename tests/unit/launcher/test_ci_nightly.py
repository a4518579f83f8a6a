# SPDX-License-Identifier: Apache-2.0
"""What CI runs each night: the nightly tests, then mutants, and a failure of either fails it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from powercut.paths import ROOT

NOTES = '#!/bin/sh\nprintf "%s\\n" "${0##*/} $*" >>"$CALLS"\nexit "${STATUS:-0}"\n'


def nightly(folder: Path, **statuses: str) -> tuple[int, list[str]]:
    """How it ends where powercut and the Python of .venv end so, and what it called."""
    (folder / ".venv/bin").mkdir(parents=True)
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/nightly", folder / ".ci")
    for name, status in (
        ("powercut", "TESTS"),
        (".venv/bin/pip", "PIP"),
        (".venv/bin/python", "MUTANTS"),
    ):
        (folder / name).write_text(NOTES.replace("STATUS", status))
        (folder / name).chmod(0o755)
    environment = {"PATH": os.environ["PATH"], "CALLS": str(folder / "calls"), **statuses}
    done = subprocess.run(["sh", folder / ".ci/nightly"], env=environment, timeout=60, check=False)
    return done.returncode, (folder / "calls").read_text().splitlines()


def test_it_runs_both(tmp_path):
    status, (tests, pip, mutants) = nightly(tmp_path)
    assert (status, tests) == (0, "powercut test -m nightly")
    assert "mutants" in pip
    assert mutants.startswith("python -m pytest -m campaign")


@pytest.mark.parametrize(("statuses", "status"), [({"TESTS": "1"}, 1), ({"MUTANTS": "1"}, 1)])
def test_a_failure_of_either_is_one(tmp_path, statuses, status):
    ended, calls = nightly(tmp_path, **statuses)
    assert (ended, len(calls)) == (status, 3)


def test_where_the_tests_cannot_run_nothing_follows(tmp_path):
    assert nightly(tmp_path, TESTS="3") == (3, ["powercut test -m nightly"])
