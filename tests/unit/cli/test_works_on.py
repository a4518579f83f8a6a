# SPDX-License-Identifier: Apache-2.0
"""Each verb works on a recording, or refuses with the reason that the documentation has."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from command_line import COMMANDS

from powercut.cli.commands import cli
from powercut.cli.lookup import Evidence
from powercut.cli.works_on import REFUSED, page, require_works_on
from powercut.model.errors import UsageError
from powercut.paths import ROOT

PAGE = ROOT / "docs" / "what-works-on-what.md"
AGAIN = (
    "from pathlib import Path; from powercut.cli.works_on import page; "
    f"Path({str(PAGE)!r}).write_text(page())"
)
CASES = [
    (verb, kind)
    for verb, refused in REFUSED.items()
    for kind in refused
    if verb.split()[0] in COMMANDS
]
FILE = {Evidence.CAPTURE: "capture.json", Evidence.IMPORT: "import.json"}


def recording(tmp_path: Path, kind: Evidence, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is one by its name: no verb that refuses reads more."""
    if kind is Evidence.BUNDLE:
        path = tmp_path / "finding.pcb"
        path.write_bytes(b"")
        monkeypatch.setattr("powercut.cli.lookup.is_bundle", path.__eq__)
        return path
    folder = tmp_path / "recording"
    folder.mkdir()
    if kind is not Evidence.RESULT:  # what has none of these files
        (folder / FILE[kind]).write_text("{}")
    return folder


def test_the_page_is_that_of_the_table() -> None:
    assert PAGE.read_text() == page(), f"write it anew: .venv/bin/python -c {AGAIN!r}"


@pytest.mark.parametrize(("verb", "kind"), CASES, ids=[f"{v}, {k.name}" for v, k in CASES])
def test_what_does_not_work_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, kind: Evidence
) -> None:
    path = recording(tmp_path, kind, monkeypatch)
    argv = [*verb.split(), str(path)]
    if verb == "reproduce":
        argv += ["-o", str(tmp_path / "out")]
    if verb.startswith("export"):
        argv += ["-o", str(tmp_path / "out"), *(["cut"] if "state" in verb else [])]
    if verb == "shell":
        argv += ["cut", "--no-terminal"]
    done = CliRunner().invoke(cli, argv, standalone_mode=False)
    assert isinstance(done.exception, UsageError), done.output
    assert REFUSED[verb][kind] in str(done.exception)


@pytest.mark.parametrize("verb", REFUSED)
def test_what_works_is_not_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    for number, kind in enumerate((*FILE, Evidence.BUNDLE)):
        below = tmp_path / str(number)
        below.mkdir()
        if kind not in REFUSED[verb]:
            require_works_on(verb, recording(below, kind, monkeypatch))
