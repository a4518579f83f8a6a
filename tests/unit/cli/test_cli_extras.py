# SPDX-License-Identifier: Apache-2.0
"""Extras by entry points: one that somebody else has written, one that is broken, none at all."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from powercut.paths import ROOT

POWERCUT = (sys.executable, "-m", "powercut.cli.main")
TIMEOUT_S = 120.0

GREET = '''
import click

@click.command()
def greet() -> int:
    """Says hello to whoever calls, and nothing else."""
    click.echo("hello")
    return 0

@click.command()
def run() -> int:
    """Would be taken for the core's."""
    click.echo("not the core's")
    return 0
'''
POINTS = """[powercut.commands]
greet = greeting:greet
run = greeting:run
grumble = grumbling:grumble

[powercut.certificates]
bad = grumbling:certificates

[powercut.importers]
bad = grumbling:logs

[powercut.schemas]
bad = grumbling:Model
"""


@pytest.fixture
def others(tmp_path) -> Path:
    """A folder with an extra that works, and one that cannot be imported."""
    (tmp_path / "greeting.py").write_text(GREET)
    (tmp_path / "grumbling.py").write_text("import no_such_module\n")
    about = tmp_path / "greeting-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(POINTS)
    return tmp_path


def powercut(*argv: str, path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*POWERCUT, *argv],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env={**os.environ, "PYTHONPATH": str(path), "COLUMNS": "100"},
        check=False,
    )


def test_a_command_of_an_extra_is_one_of_powercut(others):
    done = powercut("greet", path=others)
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello\n", "")
    listed = powercut("--help", path=others).stdout.partition("More:")[2]
    lines = [" ".join(line.split()) for line in listed.splitlines()]
    assert "greet Says hello to whoever calls, and nothing else." in lines
    assert "grumble Cannot be used: `powercut doctor` says why" in lines
    assert "Did you mean greet, grumble?" in powercut("gret", path=others).stderr


def test_no_extra_takes_the_name_of_a_command_of_the_core(others):
    assert "Runs scenarios" in powercut("run", "--help", path=others).stdout


def test_one_that_is_broken_is_a_line_of_doctor_and_stops_nothing_else(others, tmp_path):
    done = powercut("grumble", path=others)
    assert done.returncode == 3
    assert done.stderr.splitlines() == [
        "powercut: grumbling: this extra cannot be used: ModuleNotFoundError: No module named "
        "'no_such_module'",
        "hint: install it again, or uninstall it: everything else works without it",
    ]
    assert powercut("list", "presets", path=others).returncode == 0
    told = powercut("doctor", "--json", "-", path=others)
    assert told.stdout.count("this extra cannot be used") == 1
    for words in (["verify", "--help"], ["import", "--help"], ["init", str(tmp_path / "new")]):
        assert powercut(*words, path=others).returncode == 0, words
    assert told.returncode == powercut("doctor", "--json", "-", path=others.parent).returncode


def test_those_of_this_project_are_registered_once_and_work():
    """A broken one would be missing, and nothing else would say so."""
    from importlib.metadata import entry_points

    from powercut.doctor.host import _broken
    from powercut.model.extras import registered

    written = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    for group, mine in written.items():
        assert dict(registered(group)).items() >= mine.items()
        found = [one.name for one in entry_points(group=group) if one.name in mine]
        assert len(found) == len(set(found))
    assert list(_broken()) == []
