# SPDX-License-Identifier: Apache-2.0
"""`powercut init`: the first files of a project that cuts the power under its software."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click

from powercut.cli.options import FILE
from powercut.cli.output import echo
from powercut.model.errors import HostError, UsageError
from powercut.paths import EXAMPLES, INSTALLED, ROOT, SCENARIOS, command

# What `powercut init --program` writes for each language: an example that runs as it is.

STARTER: Final = Path(__file__).parent / "starter"
GITHUB: Final = ".github/workflows/power-cuts.yml"
GITLAB: Final = "powercut.gitlab-ci.yml"

_MODULE: Final = "example.org/notes"
"""The Go example's module, which a project's own go.mod replaces."""


@dataclass(frozen=True)
class Language:
    """A program in that language.

    `files`: what is written, and from which file of workloads/examples.  A user replaces the store
    in `source`; `program` is the executable with the three verbs, made of it by `build`, or a
    script that is `start`.  `packages` are Debian's, for CI.
    """

    title: str
    files: Mapping[str, str]
    source: str
    program: str = "program"
    build: str = ""
    start: str = ""
    packages: str = ""
    marks: tuple[str, ...] = field(default=())
    """Files of a project in that language."""

    def texts(self, folder: Path) -> dict[str, str]:
        """The text of each file; the names in them are those of the project in `folder`."""
        texts = {
            name: (EXAMPLES / source).read_text("utf-8") for name, source in self.files.items()
        }
        if self.start:
            texts[self.program] = _SCRIPT.format(self.start)
        own = _go_module(folder / "go.mod") if "go.mod" in texts else None
        return {name: text.replace(_MODULE, own or _MODULE) for name, text in texts.items()}


_SCRIPT: Final = """\
#!/bin/sh
# The test as a program of powercut's: setup DIR, run DIR, check DIR.
cd "$(dirname "$0")" || exit 1
exec {} "$@"
"""

LANGUAGES: Final = {
    "python": Language(
        "Python",
        {"notes.py": "notes.py", "powercut_program.py": "powercut_program.py"},
        source="notes.py",
        program="notes.py",
    ),
    "c": Language(
        "C",
        {"counter.c": "counter.c", "powercut_program.h": "powercut_program.h"},
        source="counter.c",
        program="counter",
        build="cc -O2 -o counter counter.c",
        packages="gcc libc6-dev",
    ),
    "go": Language(
        "Go",
        {
            "go.mod": "go/go.mod",
            "notes_test.go": "go/notes_test.go",
            "powercut/powercut.go": "go/powercut/powercut.go",
        },
        source="notes_test.go",
        build="go test -c -o notes.test .",
        start="./notes.test '-test.run=^TestNotesSurviveAPowerCut$'",
        packages="golang-go",
        marks=("go.mod",),
    ),
    "rust": Language(
        "Rust",
        {
            "Cargo.toml": "rust/Cargo.toml",
            "src/lib.rs": "rust/src/lib.rs",
            "tests/power_cuts.rs": "rust/tests/power_cuts.rs",
            "tests/powercut/mod.rs": "rust/tests/powercut/mod.rs",
        },
        source="src/lib.rs",
        build="cargo test --no-run --test power_cuts",
        start='"$(ls -t target/debug/deps/power_cuts-???????????????? | head -n 1)" '
        "--nocapture --exact notes_survive_a_power_cut",
        packages="cargo",
        marks=("Cargo.toml",),
    ),
    "node": Language(
        "Node.js",
        {"notes.test.mjs": "node/notes.test.mjs", "powercut.mjs": "node/powercut.mjs"},
        source="notes.test.mjs",
        start="node notes.test.mjs 'notes survive a power cut'",
        packages="nodejs",
        marks=("package.json",),
    ),
    "java": Language(
        "Java",
        {"NotesTest.java": "java/NotesTest.java", "PowerCut.java": "java/PowerCut.java"},
        source="NotesTest.java",
        build="javac -cp '/usr/share/java/*' -d classes NotesTest.java PowerCut.java",
        start="java -cp classes -XX:+UseSerialGC -XX:TieredStopAtLevel=1 "
        "--add-opens=java.base/java.io=ALL-UNNAMED PowerCut 'NotesTest$Notes'",
        packages="default-jdk-headless junit5",
        marks=("pom.xml", "build.gradle", "build.gradle.kts"),
    ),
    "shell": Language("shell", {"append.sh": "append.sh"}, source="append.sh", program="append.sh"),
}


def detected(folder: Path) -> str:
    """The language of the project in `folder`, as far as its files tell; else Python."""
    for name, language in LANGUAGES.items():
        if any((folder / mark).exists() for mark in language.marks):
            return name
    return "python"


_TESTS = "test --junitxml=power-cuts.xml"


def recipe(text: str, *, packages: str, build: str, run: str = _TESTS) -> str:
    """A CI recipe that installs those packages and builds the program; a line for nothing goes."""
    lines, text = [], text.replace("@RUN@", run)
    for line in text.splitlines(keepends=True):
        if "@BUILD@" in line and not build:
            continue
        lines.append(line.replace("@BUILD@", build).replace(" @PACKAGES@", f" {packages}".rstrip()))
    return "".join(lines)


def _go_module(path: Path) -> str | None:
    text = path.read_text("utf-8", errors="replace") if path.is_file() else ""
    found = re.search(r"^module\s+(\S+)", text, re.MULTILINE)
    return None if found is None else found[1]


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
    texts = language.texts(folder)
    scenario = (STARTER / "program.yaml.in").read_text("utf-8")
    scenario = scenario.replace("@PROGRAM@", f"../{language.program}")
    scenario = scenario.replace("@TITLE@", language.title)
    texts["scenarios/program.yaml"] = _EDITORS + recipe(scenario, packages="", build=language.build)
    run = f"try --junit power-cuts.xml -- ./{language.program}"
    for name, source in ((GITHUB, "github.yml.in"), (GITLAB, "gitlab.yml.in")):
        text = (STARTER / source).read_text("utf-8")
        texts[name] = recipe(text, packages=language.packages, build=language.build, run=run)
    _write_all(folder, texts, programs=(language.program, language.source))
    inside = "" if folder == Path() else f"cd {shlex.quote(str(folder))}"
    tests = f"{command()} test" if INSTALLED else f"{ROOT}/.venv/bin/pytest scenarios"
    lines = [
        (inside, ""),
        (language.build, ""),
        (
            f"{command()} try -- ./{language.program}",
            "one answer, with its cause, as in CI",
        ),
        (tests, "the scenario, of which you may have more"),
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
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    if {"results", "results/", "/results", "/results/"} & set(lines):
        return
    path.write_text("\n".join([*lines, "/results/", ""]), encoding="utf-8")
    echo(f"  written        {path}: /results/")
