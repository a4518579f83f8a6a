# SPDX-License-Identifier: Apache-2.0
"""What `powercut init --program` writes for each language: an example that runs as it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from powercut.paths import EXAMPLES

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


def recipe(text: str, *, packages: str, build: str) -> str:
    """A CI recipe that installs those packages and builds the program; a line for nothing goes."""
    lines = []
    for line in text.splitlines(keepends=True):
        if "@BUILD@" in line and not build:
            continue
        lines.append(line.replace("@BUILD@", build).replace(" @PACKAGES@", f" {packages}".rstrip()))
    return "".join(lines)


def _go_module(path: Path) -> str | None:
    """The name of the module that a project has already."""
    text = path.read_text("utf-8", errors="replace") if path.is_file() else ""
    found = re.search(r"^module\s+(\S+)", text, re.MULTILINE)
    return None if found is None else found[1]
