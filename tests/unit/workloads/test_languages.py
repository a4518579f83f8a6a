# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests in other languages: what they make of a test is a program of the contract.

powercut itself is replaced by one that calls the three verbs and ends as it is told.  A language
that is not installed has no tests here.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from powercut.paths import BUILD, EXAMPLES

TIMEOUT_S = 600.0
POWERCUT = """\
#!{python}
import json, os, subprocess, sys

def call(verb, lines=None):
    reader, writer = os.pipe()
    environment = dict(os.environ, POWERCUT_FD=str(writer))
    with subprocess.Popen([*command, verb, data], pass_fds=[writer], env=environment) as process:
        os.close(writer)
        with os.fdopen(reader) as file:
            said = [line for line, _ in zip(file, range(lines or 10**6))]
        if lines:
            process.kill()
    return [process.returncode, said]

separator = sys.argv.index("--")
options, command = sys.argv[1:separator], sys.argv[separator + 1:]
data = os.path.join({folder!r}, "data")
os.makedirs(data, exist_ok=True)
made = [call("setup"), call("run", 7), call("check"), call("nothing")]
with open(os.path.join({folder!r}, "calls"), "w") as file:
    json.dump([options, command, made], file)
print("LOSSY: the cause")
sys.exit({status})
"""
GO = [tool] if (tool := shutil.which("go")) else []
NODE = [tool] if (tool := shutil.which("node")) else []


@dataclass(frozen=True)
class Ended:
    """What came of a test of another language, and what powercut was asked."""

    status: int
    told: str
    calls: list


def ended(folder: Path, argv: list[str], cwd: Path, *, status: int) -> Ended:
    """Runs `argv`, which finds a powercut that ends with `status`."""
    powercut = folder / "powercut"
    powercut.write_text(POWERCUT.format(python=sys.executable, folder=str(folder), status=status))
    powercut.chmod(0o755)
    done = subprocess.run(
        argv,
        cwd=cwd,
        env=dict(os.environ, POWERCUT=str(powercut)),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    return Ended(
        done.returncode, done.stdout + done.stderr, json.loads((folder / "calls").read_text())
    )


def assert_contract(found: Ended, name: str) -> None:
    """The three verbs, and an end with an error for a fourth."""
    options, command, (setup, run, check, nothing) = found.calls
    assert options == ["try", "--acks=40", "--budget=32"]
    assert name in command[-1]
    assert setup == [0, []]
    assert run[1] == ["ready\n", "? 1\n", "+ 1\n", "? 2\n", "+ 2\n", "? 3\n", "+ 3\n"]
    assert check[0] == 0
    assert check[1][:3] == ["= 1\n", "= 2\n", "= 3\n"]
    assert nothing == [1, []]


@pytest.fixture(scope="module")
def go_test(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The example's test binary."""
    binary = str(tmp_path_factory.mktemp("go") / "notes.test")
    environment = dict(
        os.environ,
        GOCACHE=str(BUILD / "go"),
        GOTOOLCHAIN="local",
        CGO_ENABLED="0",
    )
    subprocess.run(
        [*GO, "test", "-c", "-o", binary],
        cwd=EXAMPLES / "go",
        env=environment,
        check=True,
        timeout=TIMEOUT_S,
    )
    return binary


@pytest.mark.parametrize("status", [0, 1, 3] if GO else [])
def test_a_test_in_go_is_a_program(tmp_path, go_test, status):
    found = ended(tmp_path, [go_test, "-test.v"], tmp_path, status=status)
    assert_contract(found, "-test.run=^TestNotesSurviveAPowerCut$")
    assert (found.status != 0) == (status != 0)
    assert "LOSSY: the cause" in found.told


@pytest.mark.parametrize("status", [0, 1, 3] if NODE else [])
def test_a_test_in_node_is_a_program(tmp_path, status):
    found = ended(tmp_path, [*NODE, "--test"], EXAMPLES / "node", status=status)
    assert_contract(found, "notes survive a power cut")
    assert (found.status != 0) == (status != 0)
    assert ("LOSSY: the cause" in found.told) == (status != 0)


NEVER = """
import { powerCut } from %s;
powerCut("never", import.meta.url, { check: () => new Promise(() => {}) });
"""


@pytest.mark.parametrize("node", NODE)
def test_a_check_in_node_that_never_ends_has_not_looked_at_everything(tmp_path, node):
    test = tmp_path / "never.mjs"
    test.write_text(NEVER % json.dumps(str(EXAMPLES / "node" / "powercut.mjs")))
    argv = [node, test, "never", "check", tmp_path]
    environment = dict(os.environ, POWERCUT_FD="2")
    done = subprocess.run(argv, check=False, env=environment, timeout=TIMEOUT_S)
    assert done.returncode == 1
