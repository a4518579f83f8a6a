# SPDX-License-Identifier: Apache-2.0
"""`powercut init`: the first files of a project that cuts the power under its software."""

from __future__ import annotations

from pathlib import Path

import click

from powercut.cli.options import FILE
from powercut.cli.output import echo
from powercut.model.errors import HostError
from powercut.paths import INSTALLED, ROOT, SCENARIOS, command

STARTER = Path(__file__).parent / "starter"
FILES = {
    "scenarios/first-light.yaml": SCENARIOS / "first-light.yaml",
    "test_power_cuts.py": STARTER / "test_power_cuts.py.in",
    ".github/workflows/power-cuts.yml": STARTER / "github.yml.in",
    "powercut.gitlab-ci.yml": STARTER / "gitlab.yml.in",
    "Containerfile": STARTER / "Containerfile.in",
}
"""What is written, and what it is copied from."""

SCHEMA = "scenarios/scenario.schema.json"
"""Made of the settings themselves."""

VENDOR = "vendor"
"""Folder of the wheel that the recipes install."""

_EDITORS = "# yaml-language-server: $schema=scenario.schema.json\n"
"""What editors complete a scenario from."""


@click.command()
@click.argument("folder", type=FILE, default=Path(), metavar="[FOLDER]")
def init(folder: Path) -> int:
    """Writes a first scenario, a pytest file, CI recipes and a Containerfile into FOLDER.

    With them goes the wheel of this powercut, which the recipes install.  A file that is there is
    left alone.
    """
    from powercut.report.reference import published

    _write(folder / SCHEMA, published()["schema/scenario.schema.json"])
    for name, source in FILES.items():
        text = source.read_text(encoding="utf-8")
        if name.endswith("first-light.yaml"):
            text = _EDITORS + text
        _write(folder / name, text)
    _write_wheel(folder / VENDOR)
    _ignore_results(folder / ".gitignore")
    echo(f"now:  {command()} run            the first scenario: three cells, about a minute")
    tests = f"{command()} test" if INSTALLED else str(ROOT / ".venv/bin/pytest")
    echo(f"      {tests}           the same and test_power_cuts.py, in pytest")
    return 0


def _write(path: Path, text: str) -> None:
    if path.exists():
        echo(f"  there already  {path}")
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    echo(f"  written        {path}")


def _write_wheel(folder: Path) -> None:
    """The powercut that the recipes install: no package index has it."""
    from powercut.cluster.wheels import own_wheel

    there = sorted(folder.glob("powercut-*.whl"))
    if there:
        echo(f"  there already  {there[-1]}")
        return
    try:
        echo(f"  written        {own_wheel(folder)}")
    except HostError as error:
        echo(f"  missing        {folder}/powercut-*.whl, which the recipes install: {error}")
        echo(f"                 {error.hint}")


def _ignore_results(path: Path) -> None:
    """Recordings are megabytes: git is told to leave them out."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    if {"results", "results/", "/results", "/results/"} & set(lines):
        return
    path.write_text("\n".join([*lines, "/results/", ""]), encoding="utf-8")
    echo(f"  written        {path}: /results/")
