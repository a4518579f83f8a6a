# SPDX-License-Identifier: Apache-2.0
"""What `powercut test` has pytest collect in a project."""

from __future__ import annotations

import subprocess

import pytest
from click.testing import CliRunner

from powercut.cli import test as testing
from powercut.model.errors import UsageError


@pytest.fixture
def collected(tmp_path, monkeypatch):
    """What pytest is given in a folder with some files."""
    monkeypatch.setattr(testing, "INSTALLED", True)
    monkeypatch.chdir(tmp_path)
    given = []
    monkeypatch.setattr(subprocess, "call", lambda argv, **_: given.append(argv[3:]) or 0)

    def ask(*arguments, files=()):
        for name in files:
            (tmp_path / name).touch()
        done = CliRunner().invoke(testing.test, list(arguments), standalone_mode=False)
        if done.exception is not None:
            raise done.exception
        return given[-1]

    return ask


def test_what_init_made_is_collected_and_nothing_else(collected):
    made = ["test_power_cuts.py", "test_broken.py"]
    assert collected("-q", files=made) == ["-q", "test_power_cuts.py"]


def test_what_is_named_is_collected_alone(collected):
    made = ["test_power_cuts.py", "test_mine.py"]
    assert collected("test_mine.py::test_one", files=made) == ["test_mine.py::test_one"]


def test_where_there_is_nothing_it_says_what_makes_it(collected):
    with pytest.raises(UsageError, match="neither scenarios nor") as refused:
        collected()
    assert "powercut init" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("arguments", "apart"),
    [
        ((), True),
        (("-x", "--durations=5"), True),
        (("-m", "not vm"), True),
        (("-m", "nightly", "-x"), True),
        (("-m", "campaign"), False),
        (("-m", "not vm", "tests/unit/crash"), False),
        (("tests/unit/crash",), False),
        (("-k", "folder"), False),
        (("-n", "0"), False),
    ],
)
def test_in_a_checkout_four_processes_take_what_no_argument_picks(monkeypatch, arguments, apart):
    given = []
    monkeypatch.setattr(testing, "INSTALLED", False)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr("os.access", lambda *_: True)
    monkeypatch.setattr(subprocess, "call", lambda argv, **_: given.extend(argv[3:]) or 0)
    CliRunner().invoke(testing.test, list(arguments), standalone_mode=False)
    assert given == [*(testing.WORKERS if apart else ()), *arguments]
