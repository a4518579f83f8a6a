# SPDX-License-Identifier: Apache-2.0
"""The script beside a page of docs/findings: written out, and run with its twin."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from powercut.cli.output import Speaker, write_json_object
from powercut.model.errors import HostError, UsageError
from powercut.paths import ROOT
from powercut.recover.uml.boot import xstate_library
from powercut.recover.uml.kernel import host_kernel

FINDINGS: Final = ROOT / "docs" / "findings"
TIMEOUT_S: Final = 900
_PRESENT: Final = 1
_ABSENT: Final = 0
_MISSING: Final = 77
_IN_UML: Final = "in-uml.sh"
_RUNNERS: Final = {".py": "python3", ".sh": "sh"}


def scripts() -> dict[str, Path]:
    """The findings that have a script, by name."""
    beside = (path.with_suffix(end) for path in FINDINGS.glob("*.md") for end in _RUNNERS)
    return {path.stem: path for path in sorted(beside) if path.is_file()}


def files_of(script: Path) -> list[Path]:
    """The script, its page, and the helpers beside it that it names, or that these name."""
    found, helpers = [script], [path for path in FINDINGS.iterdir() if path.suffix != ".md"]
    for file in found:
        text = file.read_text()
        found += [
            path for path in helpers
            if path not in found and (path.name in text or f"from {path.stem} import" in text)
        ]  # fmt: skip
    return [*found, script.with_suffix(".md")]


def reproduce_finding(name: str, output: Path | None, json_file: Path | None) -> int:
    """Runs the script of the page of that name, in `output` if that is given."""
    script = _script(name)
    if output is not None:
        output.mkdir(parents=True)
        for path in files_of(script):
            shutil.copy2(path, output)
        script = output.resolve() / script.name
    with tempfile.TemporaryDirectory() as folder:
        status, said = _ran(script, Path(folder))
    say = Speaker(json_file)
    say(said.rstrip())
    if status not in (_ABSENT, _PRESENT):
        why = "something is missing" if status == _MISSING else f"exit status {status}"
        raise HostError(f"{script.name} could not show the finding: {why}", hint=_hint(name))
    there = status == _PRESENT
    say(f"{name}: the fault is {'there' if there else 'not there'}")
    found = {"finding": name, "there": there, "script": str(script)}
    write_json_object("reproduce", found, json_file)
    return 0 if there else 1


def _script(name: str) -> Path:
    known = scripts()
    if name in known:
        return known[name]
    if "/" not in name and (FINDINGS / f"{name}.md").is_file():
        raise UsageError(
            f"{name} has no script; its page says how to see it",
            hint=str(FINDINGS / f"{name}.md"),
        )
    raise UsageError(
        f"{name}: no such recording, and no finding of that name has a script",
        hint=f"findings: {', '.join(known)}",
    )


def _hint(name: str) -> str:
    return f"{FINDINGS / name}.md says what it needs"


def _user_mode_linux() -> dict[str, str]:
    """What in-uml.sh is told of it: the one that powercut has, and what lets it run on every
    processor."""
    kernel = host_kernel()
    return {
        "UML": str(kernel.program),
        "UML_MODULES": str(kernel.modules),
        "UML_LIBRARIES": kernel.libraries,
        "UML_PRELOAD": str(xstate_library()),
    }


def _ran(script: Path, folder: Path) -> tuple[int, str]:
    runner, told = [_RUNNERS[script.suffix], str(script)], dict[str, str]()
    if _IN_UML in script.read_text():  # it needs root, which User-Mode Linux gives it
        runner, told = ["sh", str(script.parent / _IN_UML), str(script)], _user_mode_linux()
    try:
        done = subprocess.run(
            runner, cwd=folder, env={**told, **os.environ}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=TIMEOUT_S,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise HostError(
            f"{runner[0]} is not installed", hint="install it, and try again"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise HostError(f"{script.name} ran for {TIMEOUT_S} s", hint=_hint(script.stem)) from error
    return done.returncode, done.stdout.decode(errors="replace")
