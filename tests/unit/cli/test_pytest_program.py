# SPDX-License-Identifier: Apache-2.0
"""A class in a test file as a program: what pytest makes of it, and what starts it.

`powercut try` is replaced by one that says what it was asked; tests/vm has the real one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from own_pytest import run_pytest

from powercut.paths import EXAMPLES

LOADER = EXAMPLES / "powercut_program.py"

CONFTEST = """
import os, sys
import click
from powercut.cli import program_options
from powercut.cli.try_ import try_

def asked(options, portable, env, command, results, seed, **_rest):
    print("progress")
    name = command[-1].partition(":")[2]
    verdict = {"TestHonest": "SAFE", "TestLoser": "LOSSY"}.get(name, "INCONCLUSIVE")
    mark = {"SAFE": "✓", "LOSSY": "✗"}.get(verdict, "?")
    print(f"{mark} {verdict}  {command[-1]}")
    print(f"    the cause; {options.filesystem}, {options.acks} acks, {portable=}, {seed=}")
    print(f"    {[one for one in env if not one.startswith('PYTHONPATH=')]}")
    return {"SAFE": 0, "LOSSY": 1}.get(verdict, 3)

try_.callback = program_options.recording_options(asked)
"""

TESTS = """
import powercut_program
import pytest

class Verbs:
    def setup(self, folder): ...
    def run(self, folder, session): ...
    def check(self, folder, session): ...

@powercut_program.program(filesystem="xfs", acks=30, portable=True, env={"A": "1", "B": "2"})
class TestHonest(Verbs): ...

@powercut_program.program()
class TestLoser(Verbs): ...

@powercut_program.program()
class Unknown(Verbs): ...

@pytest.mark.xfail(strict=True)
@powercut_program.program()
class TestLoserKnown(Verbs): ...

class TestOfPytest:
    def test_it(self): ...
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_store.py").write_text(TESTS)
    return tmp_path


def test_a_class_below_the_decorator_is_one_test(folder):
    done = run_pytest(folder, "--collect-only", "-q")
    names = ["TestHonest", "TestLoser", "Unknown", "TestLoserKnown", "TestOfPytest::test_it"]
    assert done.stdout.splitlines()[:5] == [f"test_store.py::{name}" for name in names]


def test_it_passes_if_it_is_safe_and_nothing_else_is(folder):
    done = run_pytest(folder, "--powercut-seed", "5", "-rfP")
    assert "2 failed, 2 passed, 1 xfailed" in done.stdout, done.stdout
    assert "FAILED test_store.py::TestLoser - ✗ LOSSY  test_store:TestLoser" in done.stdout
    assert "FAILED test_store.py::Unknown - ? INCONCLUSIVE  test_store:Unknown" in done.stdout
    assert "the cause; ext4, 500 acks, portable=False, seed=5" in done.stdout
    assert "the cause; xfs, 30 acks, portable=True, seed=5\n    ['A=1', 'B=2']" in done.stdout
    assert "progress" not in done.stdout
    assert "Traceback" not in done.stdout


MISTAKES = {
    "filesystm='xfs'": "filesystm is no option of a test\nhint: these are: acks, ",
    "filesystem='vfat'": "'vfat' is not one of 'ext4', 'xfs', 'btrfs', 'f2fs'",
    "dry_run=True": "dry_run is no option of a test",
    "results='x'": "results is no option of a test",
    "dry=True": "dry is no option of a test",
}


def test_a_mistake_in_the_options_fails_without_a_traceback(folder):
    marked = [
        f"\n@powercut_program.program({options})\nclass Mistaken{number}(Verbs): ...\n"
        for number, options in enumerate(MISTAKES)
    ]
    (folder / "test_store.py").write_text(TESTS + "".join(marked))
    done = run_pytest(folder, "-k", "Mistaken")
    assert f" {len(MISTAKES)} failed" in done.stdout, done.stdout
    assert [said for said in MISTAKES.values() if said not in done.stdout] == []
    assert "Traceback" not in done.stdout


def test_a_class_that_lacks_a_verb_is_an_error_of_collection(folder):
    (folder / "test_store.py").write_text(TESTS.replace("def check", "def chekc"))
    done = run_pytest(folder)
    assert (done.returncode, "TestHonest: it has no method check" in done.stdout) == (2, True)


def test_a_class_that_is_imported_is_a_test_of_its_own_file_alone(folder):
    (folder / "test_other.py").write_text("from test_store import TestHonest\n")
    assert "test_other" not in run_pytest(folder, "--collect-only", "-q").stdout


STORE = """
import json
from . import beside
import powercut_program

@powercut_program.program()
class TestStore:
    class Inner:
        def setup(self, folder):
            open(f"{folder}/store", "w").write(beside.TEXT)
    def setup(self, folder):
        self.Inner().setup(folder)
    def run(self, folder, session):
        session.ready()
        session.trying(1)
        session.durable(1)
    def check(self, folder, session: powercut_program.Session):
        assert isinstance(session, powercut_program.Session)
        session.present(len(open(f"{folder}/store").read()))
"""


def test_the_class_is_a_program_that_keeps_the_contract(tmp_path):
    tests, data = tmp_path / "tests", tmp_path / "data"
    tests.mkdir()
    data.mkdir()
    (tests / "__init__.py").touch()
    (tests / "beside.py").write_text("TEXT = '1234567'")
    (tests / "test_store.py").write_text(STORE)
    command = [sys.executable, LOADER, "tests/test_store.py", "tests.test_store:TestStore"]
    said = []
    for verb in ("setup", "run", "check"):
        reader, writer = os.pipe()
        environment = {"POWERCUT_FD": str(writer), "PYTHONPATH": str(tmp_path)}
        try:
            subprocess.run(
                [*command, verb, data],
                cwd=tmp_path, pass_fds=[writer], env=environment, check=True, timeout=60,
            )  # fmt: skip
        finally:
            os.close(writer)
        with os.fdopen(reader) as lines:
            said.append(lines.read())
    assert said == ["", "ready\n? 1\n+ 1\n", "= 7\n"]


ASK = """
import json, os
def test_it():
    from powercut.api import import_path
    print("PATH", json.dumps(import_path().split(os.pathsep)))
"""


def test_the_program_finds_what_the_tests_find(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = src\n")
    (tmp_path / "src").mkdir()
    (tmp_path / "test_it.py").write_text(ASK)
    done = run_pytest(tmp_path, "-s")
    (line,) = (line for line in done.stdout.splitlines() if "PATH [" in line)
    path = json.loads(line.partition("PATH ")[2])
    assert {str(tmp_path), str(tmp_path / "src")} <= set(path)
    assert not [one for one in path if one.endswith(("site-packages", "lib-dynload"))]
