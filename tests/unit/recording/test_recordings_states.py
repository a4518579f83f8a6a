# SPDX-License-Identifier: Apache-2.0
"""States by name, and the images that they are."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from recordings_by_hand import RECORD, SIZE, record, three_records

from powercut.crash.applied import Kept
from powercut.crash.states import CrashState
from powercut.model.errors import DamagedRecording, UsageError
from powercut.model.timeline import SurvivingRange
from powercut.model.units import Instant
from powercut.recording import state_ref
from powercut.recording.materialize import materialize
from powercut.recording.state_names import resolve_state, state_text

ACKS = [(1, 50), (2, 150), (3, 250)]


def image_of(recording, name: str, tmp_path: Path) -> bytes:
    path = tmp_path / f"{len(list(tmp_path.iterdir()))}.img"
    materialize(recording, resolve_state(recording, name), path)
    return path.read_bytes()


def records_in(image: bytes) -> list[int]:
    return [lsn for lsn in (1, 2, 3) if image[(lsn - 1) * RECORD : lsn * RECORD] == record(lsn)]


def test_each_name_is_its_image(make_recording, tmp_path: Path) -> None:
    base = bytes(SIZE - 4096) + b"old" * 1000
    recording = make_recording(three_records(flushed=2).timeline(), ACKS, base)
    old = recording.base.read_bytes()[-4096:]
    assert records_in(image_of(recording, "flush:1", tmp_path)) == [1, 2]
    assert records_in(image_of(recording, "ack:1", tmp_path)) == []
    assert records_in(image_of(recording, "ack:3", tmp_path)) == [1, 2]
    assert records_in(image_of(recording, "everything@213", tmp_path)) == [1, 2, 3]
    assert image_of(recording, "durable@500", tmp_path)[-4096:] == old
    assert image_of(recording, "everything@500", tmp_path)[-4096:] == bytes(4096)
    assert records_in(image_of(recording, "durable@0.00000013ms", tmp_path)) == []


def test_the_cut_is_what_was_durable_destaged_and_survived(make_recording, tmp_path: Path) -> None:
    timeline = three_records(flushed=1).timeline(
        cut_at=1000,
        destaged=[SurvivingRange(2, RECORD, RECORD, Instant(500))],
        survived=[SurvivingRange(4, SIZE - 4096, 1024, Instant(1000))],
    )
    recording = make_recording(timeline, ACKS, b"x" * SIZE)
    state = resolve_state(recording, "cut")
    assert state == CrashState(1000, (2, 4), (Kept(4, SIZE - 4096, SIZE - 3072),), policy="cut")
    image = image_of(recording, "cut", tmp_path)
    assert records_in(image) == [1, 2]
    assert image[-4096:] == bytes(1024) + b"x" * 3072
    assert records_in(image_of(recording, "medium@499", tmp_path)) == [1]
    assert records_in(image_of(recording, "medium@501", tmp_path)) == [1, 2]
    assert state_text(recording, state).endswith(
        "1 durable writes, 2 of 3 volatile ones, 1 of them torn"
    )


def test_a_state_by_the_first_digits_of_its_identifier(make_recording, tmp_path: Path) -> None:
    recording = make_recording(three_records().timeline(), ACKS)
    state = CrashState(500, (0, 2), policy="test")
    name = state_ref.save(recording.directory, state)
    assert resolve_state(recording, name) == state
    assert resolve_state(recording, name[:5]) == state
    assert records_in(image_of(recording, name, tmp_path)) == [1, 3]


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("cut", "the power never failed below this disk", "name an instant"),
        ("cutt", "no state kept beside the recording begins with 'cutt'", "nearest: cut"),
        ("flush:2", "there is no flush 2", "this recording has 1 flushes"),
        ("flush:0", "flush:0: '0' is no number from 1", "STATE is cut"),
        ("ack:4", "record 4 was never acknowledged", "records 1 to 3 were"),
        ("durable@soon", "'soon' is no instant", "such as 12.5ms"),
        ("durable@-1", "'-1' is no instant", "such as 12.5ms"),
    ],
)
def test_names_that_mean_nothing(make_recording, name: str, message: str, hint: str) -> None:
    recording = make_recording(three_records(flushed=1).timeline(), ACKS)
    with pytest.raises(UsageError, match=message) as caught:
        resolve_state(recording, name)
    assert hint in caught.value.hint


def test_instants_after_the_cut_do_not_exist(make_recording) -> None:
    recording = make_recording(three_records().timeline(cut_at=1000), ACKS)
    with pytest.raises(UsageError, match="lies after the cut"):
        resolve_state(recording, "everything@1001")


def test_instants_before_power_on_do_not_exist(make_recording) -> None:
    timeline = replace(three_records().timeline(cut_at=1000), start_ns=100)
    recording = make_recording(timeline, ACKS)
    assert resolve_state(recording, "durable@100").instant == 100
    for name in ("durable@99", "everything@-1s", "medium@-99999999999s"):
        with pytest.raises(UsageError, match="lies before power-on") as caught:
            resolve_state(recording, name)
        assert "(100)" in caught.value.hint


@pytest.mark.parametrize("digits", [20, 5000])
def test_a_number_that_is_too_long_is_no_instant(make_recording, digits: int) -> None:
    recording = make_recording(three_records().timeline(cut_at=1000), ACKS)
    for name in ("9" * digits, "-" + "9" * digits + "s"):
        with pytest.raises(UsageError, match="is no instant"):
            resolve_state(recording, f"durable@{name}")


def test_a_state_of_another_recording_is_refused(make_recording) -> None:
    recording = make_recording(three_records().timeline(), ACKS)
    name = state_ref.save(recording.directory, CrashState(20, (0, 3), policy="test"))
    with pytest.raises(DamagedRecording, match="request 3 is no write issued before 20"):
        resolve_state(recording, name)


def test_what_is_there_is_not_overwritten(make_recording, tmp_path: Path) -> None:
    recording = make_recording(three_records().timeline(), ACKS)
    state = resolve_state(recording, "everything@500")
    path = tmp_path / "disk.img"
    path.write_text("precious")
    with pytest.raises(UsageError, match="exists already") as caught:
        materialize(recording, state, path)
    assert "--force" in caught.value.hint
    assert path.read_text() == "precious"
    with pytest.raises(UsageError, match="exists already"):
        materialize(recording, state, tmp_path, force=True)
    made = materialize(recording, state, path, force=True)
    assert made.size == SIZE == path.stat().st_size
    assert made.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["disk.img", "recording"]


def test_holes_stay_holes(make_recording, tmp_path: Path) -> None:
    made = three_records()
    timeline = made.timeline()
    recording = make_recording(timeline, ACKS)
    with recording.base.open("wb") as file:
        file.truncate(SIZE)
    path = tmp_path / "disk.img"
    materialize(recording, resolve_state(recording, "everything@500"), path)
    assert path.stat().st_blocks * 512 <= 8192
    image = np.fromfile(path, dtype=np.uint8)
    assert image[: 3 * RECORD].tobytes() == record(1) + record(2) + record(3)
    assert not image[3 * RECORD :].any()


def test_a_base_image_of_another_size(make_recording, tmp_path: Path) -> None:
    recording = make_recording(three_records().timeline(), ACKS)
    with recording.base.open("ab") as file:
        file.write(b"more")
    with pytest.raises(DamagedRecording, match="the recorded disk has"):
        materialize(recording, resolve_state(recording, "ack:1"), tmp_path / "disk.img")
    assert not (tmp_path / "disk.img").exists()
