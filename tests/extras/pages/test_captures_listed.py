# SPDX-License-Identifier: Apache-2.0
"""Captured folders among the results: in the browser's index, and over time."""

from __future__ import annotations

from pathlib import Path

import pytest
from captured_result import RESULT
from click.testing import CliRunner

from powercut.cli.commands import cli
from powercut.model.errors import UsageError
from powercut.model.verdict import Verdict
from powercut.store.folder import SEALED, CaptureDir, CaptureRecord
from powercut_extras.pages.browse import answer
from powercut_extras.pages.history_reader import read_history

RECORD = CaptureRecord(
    powercut="1",
    folder="/data",
    where="/",
    command=("prog", "run", "/data dir"),
    share="9p,cache=none",
    atomic_unit=4096,
    seed=7,
    cut_ns=1,
)


def make(root: Path, name: str, verdict: str | None) -> CaptureDir:
    directory = CaptureDir.create(root / "capture" / name)
    for file in SEALED[1:]:
        (directory.path / file).write_bytes(b"")
    directory.write_record(RECORD)
    if verdict is not None:
        directory.write_result(RESULT.model_copy(update={"verdict": Verdict[verdict]}))
    return directory


def index(root: Path) -> str:
    found = answer(root, "/")
    assert found is not None
    return found[1].decode()


def test_the_index_has_them_with_their_verdict_and_no_expectation(tmp_path: Path) -> None:
    assert "Captured folders" not in index(tmp_path)
    make(tmp_path, "20260101T000000000000Z", "LOSSY")
    make(tmp_path, "by-name", None)
    listed = index(tmp_path)
    assert 'href="capture/20260101T000000000000Z/report.html"' in listed
    assert "prog run &#39;/data dir&#39;" in listed
    assert "2026-01-01 00:00:00" in listed
    assert "20 operations acknowledged; a loss in 31 of 32 states" in listed
    assert "as expected" not in listed
    assert "not judged yet" in listed


def test_what_changed_from_one_to_the_next(tmp_path: Path) -> None:
    make(tmp_path, "20260101T000000000000Z", "SAFE")
    make(tmp_path, "20260102T000000000000Z", "LOSSY")
    make(tmp_path, "20260103T000000000000Z", None)
    (series,) = read_history(tmp_path, profile="capture").series
    assert series.profile == "prog run '/data dir'"
    assert [night.started for night in series.nights] == [
        "2026-01-01T00:00:00",
        "2026-01-02T00:00:00",
    ]
    assert series.changes is not None
    (change,) = series.changes.verdicts
    assert (change.name, change.before, change.after) == (
        ("/data", "journal"),
        Verdict.SAFE,
        Verdict.LOSSY,
    )
    said = CliRunner().invoke(cli, ["history", str(tmp_path)], standalone_mode=False).output
    assert "prog run '/data dir'" in said
    assert "SAFE" in said
    assert "LOSSY" in said


def test_one_that_is_damaged_is_said_and_hides_nothing_else(tmp_path: Path) -> None:
    make(tmp_path, "20260101T000000000000Z", "SAFE")
    other = make(tmp_path, "20260102T000000000000Z", "LOSSY")
    (other.path / "capture.json").write_text("{}")
    assert "not readable: " in index(tmp_path)
    found = read_history(tmp_path)
    assert [len(series.nights) for series in found.series] == [1]
    assert [path.parent for path, _ in found.damaged] == [other.path]
    with pytest.raises(UsageError, match="no certificate, run or captured folder called other"):
        read_history(tmp_path, profile="other")
