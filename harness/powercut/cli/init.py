# SPDX-License-Identifier: Apache-2.0
"""`powercut init`: the first files of a project that cuts the power under its software."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from powercut.cli.languages import GITHUB, GITLAB, LANGUAGES, STARTER, Language, detected, recipe
from powercut.cli.options import FILE
from powercut.cli.output import echo
from powercut.model.errors import HostError, UsageError
from powercut.paths import INSTALLED, ROOT, SCENARIOS, command

FILES = {
    "scenarios/first-light.yaml": SCENARIOS / "first-light.yaml",
    "test_power_cuts.py": STARTER / "test_power_cuts.py.in",
    GITHUB: STARTER / "github.yml.in",
    GITLAB: STARTER / "gitlab.yml.in",
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
@click.option(
    "--program",
    is_flag=True,
    help="Start with a program of your own, instead of a scenario for powercut's own workload.",
)
@click.option(
    "--language",
    type=click.Choice(list(LANGUAGES)),
    help="That program's language; without this what FOLDER has decides (go.mod, Cargo.toml, "
    "pom.xml, build.gradle, package.json), else it is Python.",
)
def init(folder: Path, program: bool, language: str | None) -> int:
    """Writes a first scenario, a pytest file, CI recipes and a Containerfile into FOLDER.

    With --program: a program whose power is cut, the helper that it uses, its scenario, and CI
    recipes. All run as they are. With them goes the wheel of this powercut, which the recipes
    install. A file that is there is left alone.
    """
    if program:
        return _init_program(folder, LANGUAGES[language or detected(folder)])
    if language is not None:
        raise UsageError("--language says nothing without --program")
    made = {
        name: _EDITORS + text if name.endswith("first-light.yaml") else text
        for name, text in ((name, source.read_text("utf-8")) for name, source in FILES.items())
    }
    for name in (GITHUB, GITLAB):
        made[name] = recipe(made[name], packages="", build="")
    _write_all(folder, made)
    echo(f"now:  {command()} run            the first scenario: three cells, about a minute")
    tests = f"{command()} test" if INSTALLED else str(ROOT / ".venv/bin/pytest")
    echo(f"      {tests}           the same and test_power_cuts.py, in pytest")
    return 0


def _init_program(folder: Path, language: Language) -> int:
    """What `--program` writes, and what to call next."""
    texts = language.texts(folder)
    scenario = (STARTER / "program.yaml.in").read_text("utf-8")
    scenario = scenario.replace("@PROGRAM@", f"../{language.program}")
    scenario = scenario.replace("@TITLE@", language.title)
    texts["scenarios/program.yaml"] = _EDITORS + recipe(scenario, packages="", build=language.build)
    for name, source in ((GITHUB, "github.yml.in"), (GITLAB, "gitlab.yml.in")):
        text = (STARTER / source).read_text("utf-8")
        texts[name] = recipe(text, packages=language.packages, build=language.build)
    _write_all(folder, texts, programs=(language.program, language.source))
    inside = "" if folder == Path() else f"cd {shlex.quote(str(folder))}"
    tests = f"{command()} test" if INSTALLED else f"{ROOT}/.venv/bin/pytest scenarios"
    lines = [
        (inside, ""),
        (language.build, ""),
        (f"{command()} try -- ./{language.program}", "one answer, with its cause"),
        (tests, "the scenario, as the CI recipes run it"),
    ]
    head = "now:"
    for line, what in lines:
        if line:
            echo(f"{head:5} {line}" + (f"    # {what}" if what else ""))
            head = ""
    echo(
        f"The store is in {language.source}. Replace it by yours. Leave out its sync to see LOSSY."
    )
    return 0


def _write_all(folder: Path, texts: dict[str, str], programs: tuple[str, ...] = ()) -> None:
    """Writes all of them with what each project gets; `programs` may be executed."""
    from powercut.report.reference import published

    _write(folder / SCHEMA, published()["schema/scenario.schema.json"])
    for name, text in texts.items():
        _write(folder / name, text, executable=name in programs and text.startswith("#!"))
    _write_wheel(folder / VENDOR)
    _ignore_results(folder / ".gitignore")


def _write(path: Path, text: str, *, executable: bool = False) -> None:
    if path.exists():
        echo(f"  there already  {path}")
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    if executable:
        path.chmod(0o755)
    echo(f"  written        {path}")


def _write_wheel(folder: Path) -> None:
    """The powercut that the recipes install: no package index has it."""
    from powercut.wheel import own_wheel

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
