# SPDX-License-Identifier: Apache-2.0
"""What CI makes of failures: a few are heard again, alone; nothing else turns red into green."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from powercut.paths import ROOT

LAUNCHER = """#!/bin/sh
# The n-th call ends with the n-th status of `statuses`, and notes its arguments.
here=$(dirname -- "$0")
printf '%s\\n' "$*" >>"$here/calls"
exit "$(sed -n "$(wc -l <"$here/calls")p" "$here/statuses")"
"""
FIRST = "test --timeout=900 -x"
SECOND = "test -n 0 --timeout=900 -p no:cacheprovider -o tmp_path_retention_count=9 "


def ci_run(
    folder: Path, statuses: list[int], failed: list[str] | None, tests: int = 2000
) -> tuple[int, list[str]]:
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", folder / ".ci/run")
    (folder / "statuses").write_text("".join(f"{status}\n" for status in statuses))
    (folder / "powercut").write_text(LAUNCHER)
    (folder / "powercut").chmod(0o755)
    if failed is not None:
        cache = folder / ".pytest_cache/v"
        for name, kept in (
            ("cache/lastfailed", dict.fromkeys(failed, True)),
            ("powercut/tests", tests),
        ):
            (cache / name).parent.mkdir(parents=True)
            (cache / name).write_text(json.dumps(kept, indent=2))  # as pytest writes it
    done = subprocess.run(["sh", folder / ".ci/run", "-x"], timeout=60, check=False)
    return done.returncode, (folder / "calls").read_text().splitlines()


@pytest.mark.parametrize("status", [0, 2, 3, 130])
def test_what_is_no_failed_test_is_heard_once(tmp_path, status):
    assert ci_run(tmp_path, [status], ["tests/a.py::b"]) == (status, [FIRST])


def test_a_failure_that_passes_three_times_alone_is_unsteady(tmp_path):
    ids = ["tests/a.py::b[x y]", "tests/c.py::d"]
    assert ci_run(tmp_path, [1, 0, 0, 0], ids) == (0, [FIRST, *[SECOND + " ".join(ids)] * 3])


def test_one_that_fails_again_fails_the_run(tmp_path):
    calls = [FIRST, *[SECOND + "tests/a.py::b"] * 3]
    assert ci_run(tmp_path, [1, 0, 0, 1], ["tests/a.py::b"]) == (1, calls)


@pytest.mark.parametrize("failed", [None, [], [f"tests/a.py::t{n}" for n in range(3)]])
def test_many_failures_and_unknown_ones_are_not_heard_again(tmp_path, failed):
    assert ci_run(tmp_path, [1], failed) == (1, [FIRST])


def test_of_less_than_a_thousand_tests_none_is_heard_again(tmp_path):
    assert ci_run(tmp_path, [1], ["tests/a.py::b"], tests=999) == (1, [FIRST])
