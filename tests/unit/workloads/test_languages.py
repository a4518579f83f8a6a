# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests in other languages: what they make of a test is a program of the contract.

And so is what `powercut init --program` writes in each language.

powercut itself is replaced by one that calls the three verbs and ends as it is told.  A language
that is not installed has no tests here.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from command_line import powercut
from host_needs import NEEDS
from python_script import write_script

from powercut.cli import init as init_module
from powercut.cli.init import LANGUAGES
from powercut.paths import BUILD, EXAMPLES
from powercut.scenario.load import load_scenario

TIMEOUT_S = 600.0
POWERCUT = """\
import json, os, subprocess, sys

def call(verb, lines=None):
    reader, writer = os.pipe()
    given = dict(one[6:].split("=", 1) for one in options if one.startswith("--env="))
    environment = dict(os.environ, **given, POWERCUT_FD=str(writer))
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
GO_ENVIRONMENT = {"GOCACHE": str(BUILD / "go"), "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
NEEDED = {name: [getattr(pytest.mark, name)] if name in NEEDS else [] for name in LANGUAGES}
"""What a language needs of the host (support/host_needs.py)."""


RUN = ["ready\n", "? 1\n", "+ 1\n", "? 2\n", "+ 2\n", "? 3\n", "+ 3\n"]
"""What a program says first."""


@dataclass(frozen=True)
class Ended:
    """What came of a test of another language, and what powercut was asked."""

    status: int
    told: str
    calls: list


def ended(folder: Path, argv: list[str], cwd: Path, *, status: int) -> Ended:
    """Runs `argv`, which finds a powercut that ends with `status`."""
    fake = folder / "powercut-fake"
    write_script(fake, POWERCUT.format(folder=str(folder), status=status))
    done = subprocess.run(
        argv,
        cwd=cwd,
        env=dict(os.environ, POWERCUT=str(fake)),
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
    assert run[1] == RUN
    assert check[0] == 0
    assert check[1][:3] == ["= 1\n", "= 2\n", "= 3\n"]
    assert nothing == [1, []]


@pytest.fixture(scope="module")
def go_test(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The example's test binary."""
    binary = str(tmp_path_factory.mktemp("go") / "notes.test")
    environment = dict(os.environ, **GO_ENVIRONMENT)
    subprocess.run(
        ["go", "test", "-c", "-o", binary],
        cwd=EXAMPLES / "go",
        env=environment,
        check=True,
        timeout=TIMEOUT_S,
    )
    return binary


@pytest.mark.go
@pytest.mark.parametrize("status", [0, 1, 3])
def test_a_test_in_go_is_a_program(tmp_path, go_test, status):
    found = ended(tmp_path, [go_test, "-test.v"], tmp_path, status=status)
    assert_contract(found, "-test.run=^TestNotesSurviveAPowerCut$")
    assert (found.status != 0) == (status != 0)
    assert "LOSSY: the cause" in found.told


@pytest.mark.node
@pytest.mark.parametrize("status", [0, 1, 3])
def test_a_test_in_node_is_a_program(tmp_path, status):
    found = ended(tmp_path, ["node", "--test"], EXAMPLES / "node", status=status)
    assert_contract(found, "notes survive a power cut")
    assert (found.status != 0) == (status != 0)
    assert ("LOSSY: the cause" in found.told) == (status != 0)


@pytest.fixture(scope="module")
def cargo_test(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The example's test binary."""
    target = tmp_path_factory.mktemp("rust")
    argv = [
        "cargo",
        "test",
        "--offline",
        "--no-run",
        "--message-format=json",
        "--target-dir",
        target,
    ]
    environment = dict(os.environ, CARGO_INCREMENTAL="0")
    environment |= {} if "HOME" in os.environ else {"CARGO_HOME": str(target / "home")}
    source = shutil.copytree(EXAMPLES / "rust", target / "source")  # cargo writes Cargo.lock
    done = subprocess.run(
        argv, cwd=source, env=environment, check=True, capture_output=True, timeout=TIMEOUT_S
    )
    made = [json.loads(line) for line in done.stdout.splitlines()]
    (binary,) = [one["executable"] for one in made if one.get("target", {}).get("kind") == ["test"]]
    return str(binary)


@pytest.mark.rust
@pytest.mark.parametrize("status", [0, 1, 3])
def test_a_test_in_rust_is_a_program(tmp_path, cargo_test, status):
    found = ended(tmp_path, [cargo_test, "--nocapture"], tmp_path, status=status)
    assert_contract(found, "notes_survive_a_power_cut")
    assert (found.status != 0) == (status != 0)
    assert "LOSSY: the cause" in found.told


STARTER = """
class Starter {
    public static void main(String[] words) throws Exception {
        PowerCut.cut(NotesTest.Notes.class, "--acks=40", "--budget=32");
    }
}
"""
ANNOTATION = "package org.junit.jupiter.api; public @interface Test {}"


@pytest.fixture(scope="module")
def java_classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's classes; that of JUnit which it names does nothing here."""
    made = tmp_path_factory.mktemp("java")
    (made / "Starter.java").write_text(STARTER)
    (made / "Test.java").write_text(ANNOTATION)
    sources = [*made.glob("*.java"), *(EXAMPLES / "java").glob("*.java")]
    subprocess.run(["javac", "-d", made, *sources], check=True, timeout=TIMEOUT_S)
    return made


@pytest.mark.java
@pytest.mark.parametrize("status", [0, 1, 3])
def test_a_test_in_java_is_a_program(tmp_path, java_classes, status):
    argv = ["java", "-XX:TieredStopAtLevel=1", "-cp", str(java_classes), "Starter"]
    found = ended(tmp_path, argv, tmp_path, status=status)
    class_path = found.calls[0].pop(3)
    assert class_path == f"--env=CLASSPATH={java_classes}"
    assert_contract(found, "NotesTest$Notes")
    assert (found.status != 0) == (status != 0)
    assert "LOSSY: the cause" in found.told


NEVER = """
import { powerCut } from %s;
powerCut("never", import.meta.url, { check: () => new Promise(() => {}) });
"""


@pytest.mark.node
def test_a_check_in_node_that_never_ends_has_not_looked_at_everything(tmp_path):
    test = tmp_path / "never.mjs"
    test.write_text(NEVER % json.dumps(str(EXAMPLES / "node" / "powercut.mjs")))
    argv = ["node", test, "never", "check", tmp_path]
    environment = dict(os.environ, POWERCUT_FD="2")
    done = subprocess.run(argv, check=False, env=environment, timeout=TIMEOUT_S)
    assert done.returncode == 1


def build(folder: Path, language: str) -> None:
    """What the recipe does; JUnit, which the Java example names, may not be there."""
    command = LANGUAGES[language].build
    if language == "java" and not Path("/usr/share/java/junit-jupiter-api.jar").exists():
        stub = "package org.junit.jupiter.api; public @interface Test {}"
        (folder / "Test.java").write_text(stub)
        command += " Test.java"
    environment = dict(os.environ, **GO_ENVIRONMENT)
    argv = ["sh", "-ec", command]
    subprocess.run(argv, cwd=folder, env=environment, check=True, timeout=TIMEOUT_S)


@pytest.mark.parametrize(
    "language", [pytest.param(name, marks=marks) for name, marks in NEEDED.items()]
)
def test_what_it_writes_keeps_the_contract(tmp_path, monkeypatch, language):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(init_module, "_write_wheel", lambda folder: None)  # it takes a second
    said = powercut("init", "--program", "--language", language)
    assert said.returncode == 0
    build(tmp_path, language)
    program = LANGUAGES[language].program
    assert f"try -- ./{program}" in said.stdout
    argv = ["sh", "-ec", f'"$POWERCUT" try -- ./{program}']
    _, (setup, run, check, _) = ended(tmp_path, argv, tmp_path, status=0).calls[1:]
    assert setup == [0, []]
    assert run[1] == RUN
    assert check[0] == 0
    assert check[1][0].startswith("= 1")
    scenario = load_scenario(tmp_path / "scenarios/program.yaml")
    (command,) = [scenario.settings.workload.command]
    assert (tmp_path / "scenarios" / command[0]).resolve() == tmp_path / program
