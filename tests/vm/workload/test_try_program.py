# SPDX-License-Identifier: Apache-2.0
"""`powercut try`: one program on a disk and on captured files at once, one verdict, one cause."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from powercut.campaign.program_try import (
    TryOrder,
    require_contract,
    tried_json,
    try_program,
)
from powercut.console import PlainConsole
from powercut.model.errors import HostError, UsageError
from powercut.model.verdict import Verdict
from powercut.recover.uml.boot import unavailable
from powercut.report.terminal.program_try import print_tried
from powercut.scenario.program_text import RecordOptions
from powercut.scenario.settings import ProgramSettings
from powercut.store.program_tried import FilesTried, ProgramTried
from powercut.store.results import CampaignOutcome, RunResult

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable())),
    pytest.mark.fuse,
]

ACKS = 30

STORE = """\
#!/usr/bin/env python3
# A store that is one file, replaced by rename.  {left_out} is what it forgets.
import os, sys
verb, folder = sys.argv[1:3]
def say(text):
    os.write(int(os.environ["POWERCUT_FD"]), (text + "\\n").encode())
def sync(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
if verb == "setup":
    os.makedirs(folder, exist_ok=True)
elif verb == "run":
    if os.fork():
        os._exit(0)  # as the parent of a daemon does
    say("ready")
    for number in range(1, 1_000_000):
        say(f"? {{number}}")
        with open(f"{{folder}}/new", "w") as file:
            file.write("".join(f"{{each}}\\n" for each in range(1, number + 1)))
        sync(f"{{folder}}/new")
        os.rename(f"{{folder}}/new", f"{{folder}}/store")
        for path in {synced}:
            sync(path)
        say(f"+ {{number}}")
elif os.path.exists(f"{{folder}}/store"):
    for line in open(f"{{folder}}/store"):
        say(f"= {{int(line)}}")
"""


def tried(folder: Path, synced: str, *, portable: bool = False) -> ProgramTried:
    """What comes of a store that syncs these paths after its rename."""
    program = folder / "store"
    program.write_text(STORE.format(synced=synced, left_out="something"))
    program.chmod(0o755)
    order = TryOrder(
        program=ProgramSettings(kind="program", command=("./store",), folder=str(folder)),
        options=RecordOptions("ext4", "64MiB", 4096, (), "", ACKS, 10.0, "32", 60.0, 120.0),
        seed=5,
        results=folder / "results",
        stamp="now",
        portable=portable,
    )
    require_contract(order)
    return try_program(order)


@pytest.fixture(autouse=True)
def few_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the captured files, a fifth of the states of a default."""
    monkeypatch.setattr("powercut.campaign.program_try.AUTO_STATES_OF_PROGRAM", 64)


@pytest.fixture(scope="module")
def disk_of_another(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    """What the disk of a store comes to that forgets nothing; none of these tests is about it."""
    folder = tmp_path_factory.mktemp("another")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("powercut.rig.folder.RECORDER", folder / "no-recorder")
        return tried(folder, "[folder]").disk


@pytest.fixture
def with_that_disk(disk_of_another: RunResult, monkeypatch: pytest.MonkeyPatch) -> None:
    """No disk is recorded: it has come to that."""
    monkeypatch.setattr(
        "powercut.campaign.program_try.run_scenarios",
        lambda *_, **__: CampaignOutcome(runs=(disk_of_another,)),
    )


def told(found: ProgramTried, capsys: pytest.CaptureFixture[str]) -> str:
    print_tried(PlainConsole(width=100), found, ("./store",))
    return " ".join(capsys.readouterr().out.split())


def verdicts(found: ProgramTried) -> tuple[Verdict, Verdict | None, Verdict | None]:
    (cell,) = found.disk.cells
    files = found.files
    return (
        cell.verdict,
        files.journal and files.journal.verdict,
        files.posix and files.posix.verdict,
    )


def test_a_store_that_its_file_system_saves_is_safe_there_and_its_missing_sync_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = tried(tmp_path, '[f"{folder}/store"]')
    assert verdicts(found) == (Verdict.SAFE, Verdict.SAFE, Verdict.LOSSY), told(found, capsys)
    assert (found.verdict, found.beyond) == (Verdict.SAFE, True)
    text = told(found, capsys)
    assert "No acknowledged operation is lost on ext4, nor where names keep their order." in text
    assert "POSIX alone allows a loss: Operation" in text
    assert "the renaming of new to store" in text
    assert "no sync of the folder came after it" in text
    (trial,) = found.disk.cells[0].trials
    assert trial.reached is not None
    assert (trial.reached.operations, trial.reached.size > 0) == (trial.commits_acked, True)
    assert trial.reached.files is not None
    assert trial.reached.files.looks > 1
    assert trial.reached.words in text
    assert found.files.journal is not None
    reached = found.files.journal.reached
    assert reached.operations == found.files.journal.acknowledged >= ACKS
    assert reached.files is not None
    assert (reached.files.renamed, reached.files.removed) >= (ACKS, 0)
    assert f"as files {reached.words}" in text
    data = json.loads(tried_json(found))
    assert data["files"]["journal"]["reached"]["operations"] == reached.operations
    assert (data["verdict"], data["files"]["posix"]["verdict"]) == ("safe", "lossy")
    portable = ProgramTried(found.disk, found.files, portable=True)
    assert (portable.verdict, portable.beyond) == (Verdict.LOSSY, False)


def test_a_store_that_forgets_the_rename_is_lossy_everywhere_for_one_cause(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = tried(tmp_path, "[]")
    assert verdicts(found) == (Verdict.LOSSY, Verdict.LOSSY, Verdict.LOSSY)
    cause = found.files.cause
    assert "the renaming of new to store" in cause
    assert "could be lost" in cause
    assert told(found, capsys).count(" ".join(cause.split())) == 1


def test_a_store_that_forgets_nothing_is_safe_by_posix_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], with_that_disk: None
) -> None:
    found = tried(tmp_path, "[folder]")
    assert verdicts(found) == (Verdict.SAFE, Verdict.SAFE, Verdict.SAFE)
    assert found.files.cause == ""
    assert "Nor by what POSIX alone promises." in told(found, capsys)


def test_the_half_that_loses_alone_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], with_that_disk: None
) -> None:
    found = tried(tmp_path, "[]")
    assert verdicts(found) == (Verdict.SAFE, Verdict.LOSSY, Verdict.LOSSY)
    assert (found.verdict, found.alone) == (Verdict.LOSSY, "files")
    assert json.loads(tried_json(found))["alone"] == "files"
    assert "The disk lost nothing in" in told(found, capsys)
    (cell,) = found.disk.cells
    assert found.files.journal is not None
    other = ProgramTried(
        found.disk.model_copy(
            update={"cells": (cell.model_copy(update={"verdict": Verdict.LOSSY}),)}
        ),
        FilesTried(found.files.journal.model_copy(update={"verdict": Verdict.SAFE})),
        portable=False,
    )
    assert (other.verdict, other.alone) == (Verdict.LOSSY, "disk")
    assert "The files lost nothing: ext4 keeps less" in told(other, capsys)


def test_a_program_that_does_not_keep_the_contract_is_told_before_anything_is_cut(
    tmp_path: Path,
) -> None:
    with pytest.raises(UsageError, match="run acknowledged nothing") as refused:
        tried(tmp_path, "[exit()]")
    assert "nothing was cut yet" in refused.value.hint
    assert not (tmp_path / "results").exists()


def test_files_that_cannot_be_recorded_are_named_and_the_disk_decides(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    with_that_disk: None,
) -> None:
    monkeypatch.setattr("powercut.rig.folder.RECORDER", tmp_path / "no-recorder")
    found = tried(tmp_path, "[folder]")
    assert verdicts(found) == (Verdict.SAFE, None, None)
    text = told(found, capsys)
    assert "captured files were not tried: the captured folder is not built" in text
    assert "names keep their order" not in text
    assert ProgramTried(found.disk, found.files, portable=True).verdict is Verdict.INCONCLUSIVE


def test_a_cause_that_cannot_be_found_takes_no_verdict_away(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    with_that_disk: None,
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise HostError("no room for the search")

    monkeypatch.setattr("powercut.campaign.program_try.minimize_capture", fails)
    found = tried(tmp_path, '[f"{folder}/store"]', portable=True)
    assert verdicts(found) == (Verdict.SAFE, Verdict.SAFE, Verdict.LOSSY)
    assert found.verdict is Verdict.LOSSY
    text = told(found, capsys)
    assert "not all is known of the captured files: no room for the search" in text
