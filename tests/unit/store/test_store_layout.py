# SPDX-License-Identifier: Apache-2.0
"""Results on disk: sealed, checked, found again; and what a full or closed folder says."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from powercut.model.errors import DamagedRecording, HostError, UsageError
from powercut.model.observation import Extent, Observation
from powercut.paths import as_word
from powercut.recording.sealed import SealedTrial
from powercut.scenario.load import expand, parse_scenario
from powercut.store import files, manifest
from powercut.store.layout import ResultDir, folder_name, reproduce_command
from powercut.store.trial_dir import (
    TrialDir,
    TrialRecord,
    observation_from_json,
    observation_to_json,
)
from powercut.wal.layout import SlotState

NOW = datetime(2026, 11, 21, 10, 15, 2, tzinfo=UTC)
SCENARIO = parse_scenario("powercut: 1\nname: s\nworkload: {think: 5us}\n", Path("s.yaml"))
CELL = expand(SCENARIO, seed=3).cells[0]
OBSERVATION = Observation(
    (Extent(0, 3, SlotState.INTACT, 1), Extent(3, 1, SlotState.CORRUPT, 4, 77)),
    complete=False,
    failure="reader died",
)


@pytest.fixture
def result(tmp_path: Path) -> ResultDir:
    directory = ResultDir.create(tmp_path / "results", "s", 3, now=NOW)
    directory.write_scenario(SCENARIO.text)
    return directory


@pytest.fixture
def trial(result: ResultDir, tmp_path: Path) -> TrialDir:
    """A trial with something in every kind of file."""
    made = result.trial(CELL.name, 1)
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(1 << 20)
        file.seek(300_000)
        file.write(b"x" * 5000)
    made.adopt_base(image)
    made.write_record(
        TrialRecord(
            powercut="0",
            scenario="s",
            cell=CELL.name,
            parameters=CELL.parameters,
            trial=CELL.trials[0],
            run_id="ab" * 16,
            cut_ns=12345,
            guest_facts={"fua": "0"},
        )
    )
    made.write_observation(OBSERVATION)
    made.disk_log.with_suffix(".log").write_bytes(b"log" * 100)
    made.disk_log.with_suffix(".data").write_bytes(b"")
    made.write_text("console.txt", "bad \udce4 byte")
    made.seal_recording()
    return made


def test_names(result, trial):
    assert result.path.name == "20261121T101502Z-3"
    assert trial.relative == "cells/s/0001"
    assert (result.path.parent / "latest").readlink() == Path(result.path.name)
    assert result.trial("no-sync", 2, control=True).relative == "controls/no-sync/0002"
    second = ResultDir.create(result.path.parents[1], "s", 3, now=NOW)
    assert second.path.name == "20261121T101502Z-3.2"
    assert (result.path.parent / "latest").resolve() == second.path
    long = "x" * 200
    assert len(folder_name(long)) == 120
    assert folder_name(long) != folder_name(long + "y")


def test_a_result_is_found_by_whatever_names_it(result, trial, tmp_path):
    for path in (result.path, trial.path, trial.base_image, result.path.parent / "latest"):
        assert ResultDir.open(path).path == result.path
    assert ResultDir.open(result.path.parent).path == result.path  # its newest
    assert [found.path for found in result.trials()] == [trial.path]
    with pytest.raises(UsageError, match="no scenario"):
        ResultDir.open(tmp_path)
    with pytest.raises(UsageError, match="No such file"):
        ResultDir.open(tmp_path / "nothing")


def test_what_is_written_reads_the_same(trial):
    record = trial.read_record()
    assert record.parameters == CELL.parameters
    assert record.trial == CELL.trials[0]
    assert (record.run_id, record.cut_ns) == ("ab" * 16, 12345)
    assert SealedTrial(trial).observation == OBSERVATION


def test_the_seal_covers_all_evidence_and_no_judgement(trial):
    names = ("base.img", "console.txt", "disk.data", "disk.log", "observation.json", "trial.json")
    assert trial.check_seal() == names
    (trial.path / "verdict.json").write_text("{}")
    assert trial.check_seal() == names


def test_a_seal_is_renewed_when_evidence_is_added(trial):
    trial.recovery_log.with_suffix(".log").write_bytes(b"more")
    assert "recovery.log" not in trial.check_seal()
    trial.seal_recording()
    assert "recovery.log" in trial.check_seal()


@pytest.mark.parametrize("name", ["base.img", "disk.log", "observation.json", "trial.json"])
def test_one_changed_byte_is_found_and_the_file_is_named(trial, name):
    path = trial.path / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    # A base image may be shared with the cache: replace, do not modify.
    path.unlink()
    path.write_bytes(data)
    with pytest.raises(DamagedRecording, match=rf"{name}: its contents changed") as caught:
        trial.check_seal()
    assert caught.value.exit_status == 3


def test_a_changed_base_image_is_found_even_though_digests_are_remembered(trial):
    trial.check_seal()
    trial.base_image.chmod(0o644)
    with trial.base_image.open("r+b") as file:
        file.seek(300_000)
        file.write(b"y")
    trial.base_image.chmod(0o444)
    os.utime(trial.base_image, ns=(1, 1))
    with pytest.raises(DamagedRecording, match=r"base\.img: its contents changed"):
        trial.check_seal()


def test_missing_cut_and_surplus_are_told_apart(trial):
    trial.disk_log.with_suffix(".log").write_bytes(b"log" * 99)
    (trial.path / "console.txt").unlink()
    with pytest.raises(DamagedRecording) as caught:
        trial.check_seal()
    assert str(caught.value).splitlines() == [
        f"{trial.path}/console.txt: No such file or directory",
        f"{trial.path}/disk.log: has 297 bytes, and had 300 when it was sealed",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "never sealed"),
        ("{", "not a manifest"),
        ('{"format": "powercut-manifest/1"}', "not a manifest"),
        ('{"format": "powercut-manifest/9", "files": []}', "this powercut reads"),
        (
            '{"format": "powercut-manifest/1", "files": '
            '[{"name": "../x", "size": 1, "sha256": ""}]}',
            "outside",
        ),
    ],
)
def test_a_bad_manifest(trial, text, message):
    path = trial.path / manifest.MANIFEST
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(DamagedRecording, match=message):
        trial.check_seal()


def test_a_base_image_is_linked_or_copied_with_its_holes(trial, tmp_path, monkeypatch):
    image = tmp_path / "image"
    assert trial.base_image.stat().st_ino == image.stat().st_ino

    def refuse(self: Path, target: Path) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    copy = tmp_path / "copy"
    files.link_or_copy(image, copy)
    assert copy.read_bytes() == image.read_bytes()
    assert copy.stat().st_blocks <= image.stat().st_blocks
    assert copy.stat().st_mode & 0o777 == 0o444


def test_observations_of_another_version_or_shape_are_refused():
    good = observation_to_json(OBSERVATION)
    assert observation_from_json(json.loads(json.dumps(good))) == OBSERVATION
    for change in (
        {"format": "powercut-observation/2"},
        {"complete": 1},
        {"recovered": None},
        {"extents": [[0, 1, "fine", 1, 0]]},
        {"extents": [[0, 1]]},
    ):
        with pytest.raises(ValueError, match=r"."):
            observation_from_json({**good, **change})
    with pytest.raises(ValueError, match="not an observation"):
        observation_from_json([])


def test_damaged_json_names_the_file_and_the_place(trial):
    (trial.path / "observation.json").write_text("{")
    with pytest.raises(DamagedRecording, match=r"observation\.json: "):
        _ = SealedTrial(trial).observation
    (trial.path / "trial.json").write_text('{"format": 3}')
    with pytest.raises(DamagedRecording, match=r"trial\.json: format: "):
        trial.read_record()
    with pytest.raises(DamagedRecording, match=r"trial\.json: does not say whose"):
        _ = SealedTrial(trial).observation
    with pytest.raises(DamagedRecording, match=r"verdict\.json: No such file"):
        trial.read_verdict()


def test_the_command_that_repeats_a_run(result, tmp_path):
    command = result.write_reproduce(3)
    assert command == f"./powercut run {as_word(result.scenario_copy)} --seed 3"
    assert (
        reproduce_command(Path("a b.yaml"), 3, CELL)
        == "./powercut run 'a b.yaml' --seed 3 --only s"
    )
    done = subprocess.run(
        [result.path / "reproduce.sh", "--only", "s"],
        env={**os.environ, "POWERCUT": "echo"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"run {result.path}/scenario.yaml --seed 3 --only s\n"


def test_a_folder_that_is_a_file_says_what_to_do(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(HostError, match="cannot write results") as caught:
        ResultDir.create(tmp_path / "file", "s", 1)
    assert "--results" in caught.value.hint


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
def test_a_full_or_closed_disk_is_the_hosts_trouble_and_leaves_the_old_file(
    tmp_path, monkeypatch, code
):
    path = tmp_path / "verdict.json"
    files.write_atomic(path, b"old")

    def fail(handle: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(HostError, match=os.strerror(code)) as caught:
        files.write_atomic(path, b"new")
    assert "--results" in caught.value.hint
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["verdict.json"]
