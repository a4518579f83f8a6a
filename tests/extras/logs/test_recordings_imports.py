# SPDX-License-Identifier: Apache-2.0
"""Recordings leave as dm-log-writes logs and come back from them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from handmade import Handmade
from recordings_by_hand import RECORD, RUN_ID, SLOTS, record, recording_of, three_records

import powercut
from powercut.cli.commands import cli
from powercut.crash.states import Model
from powercut.explore.request import Budget
from powercut.model.contract import DeviceContract, Honour
from powercut.model.errors import DamagedRecording, UsageError
from powercut.model.timeline import RequestKind
from powercut.model.verdict import LsnRange, Verdict
from powercut.paths import WAL_BINARY
from powercut.recording.materialize import materialize
from powercut.recording.open_recording import find_recording, open_recording
from powercut.recording.state_names import resolve_state
from powercut.witness.minimize import minimize
from powercut_extras.logs.explore import USUAL, explore_import
from powercut_extras.logs.imports import LogLayout, as_kept, import_recording, report_import
from powercut_extras.logs.logs import Dialect, export_log

LAYOUT = LogLayout(run_id=RUN_ID.hex(), layout="raw", record=RECORD, capacity=SLOTS * RECORD)
ACKS = [(1, 50), (2, 150), (3, 250)]


def exported(tmp_path: Path, made, acks=ACKS, *, close: bool = True):
    """A recording and the log of it, flushed at its end if `close`."""
    if close:
        made.flush(at=900, done=950)
    recording = recording_of(tmp_path / "recording", made.timeline(), acks)
    export_log(recording.timeline, recording.history, tmp_path / "log")
    return recording


def bring_in(tmp_path: Path, recording, layout: LogLayout | None = LAYOUT):
    return import_recording(
        tmp_path / "log", base=recording.base, output=tmp_path / "imported", layout=layout
    )


def test_every_flush_has_the_same_image_on_both_sides(tmp_path: Path) -> None:
    made = three_records(flushed=2)
    recording = exported(tmp_path, made)
    imported = open_recording(bring_in(tmp_path, recording).path)
    flushes = int((recording.timeline.requests.kind == RequestKind.FLUSH).sum())
    assert flushes == 2
    for number in range(1, flushes + 1):
        images = []
        for side in (recording, imported):
            path = tmp_path / f"{number}-{side.imported}.img"
            materialize(side, resolve_state(side, f"flush:{number}"), path)
            images.append(path.read_bytes())
        assert images[0] == images[1]
    assert images[0][: 3 * RECORD] == record(1) + record(2) + record(3)


def test_early_acks_are_lossy_and_named(tmp_path: Path) -> None:
    recording = exported(tmp_path, three_records(flushed=2))
    report = report_import(bring_in(tmp_path, recording))
    # Record 1 was acknowledged at 50 and flushed at 130; record 3 at 250, flushed at 950.
    assert report.exposed == (LsnRange(1, 1), LsnRange(3, 3))
    assert report.perhaps == ()
    assert report.verdict is Verdict.LOSSY
    assert (report.flushes, report.writes, report.acked) == (2, 4, 3)


def test_honest_acks_on_a_raw_disk_are_safe(tmp_path: Path) -> None:
    recording = exported(tmp_path, three_records(flushed=3), [(3, 300)])
    report = report_import(bring_in(tmp_path, recording))
    assert (report.exposed, report.perhaps, report.reasons) == ((), (), ())
    assert report.verdict is Verdict.SAFE


def test_with_a_file_system_between_nothing_is_safe_without_recovery(tmp_path: Path) -> None:
    made = three_records(flushed=3)
    made.flush(at=900, done=950)
    base = bytearray(made.disk_size)
    base[1080:1082] = b"\x53\xef"
    recording = recording_of(tmp_path / "recording", made.timeline(), [(3, 300)], bytes(base))
    export_log(recording.timeline, recording.history, tmp_path / "log")
    report = report_import(bring_in(tmp_path, recording))
    assert report.record.filesystem == "ext4"
    assert report.verdict is Verdict.INCONCLUSIVE
    assert "known after recovery only" in report.reasons[0]


def test_the_api_has_its_states_and_no_verdict(tmp_path: Path) -> None:
    recording = exported(tmp_path, three_records(flushed=2))
    opened = powercut.open(bring_in(tmp_path, recording).path)
    assert opened.claims is not None
    assert (opened.exposure().exposed_ns > 0).tolist() == [True, False, True]
    lacks = [opened.missing(one) for one in opened.states(20)]
    assert "record 3" in {opened.name(write) for writes in lacks for write in writes}
    with pytest.raises(UsageError, match="powercut verify"):
        opened.verdict()


@pytest.mark.parametrize(
    ("change", "verdict", "reason"),
    [
        ({"run_id": "ff" * 16}, Verdict.INCONCLUSIVE, "the run id or the layout may be wrong"),
        (None, Verdict.INCONCLUSIVE, "nothing can be judged: import it again with --filesystem"),
    ],
)
def test_what_is_not_known_is_not_judged(tmp_path: Path, change, verdict, reason) -> None:
    recording = exported(tmp_path, three_records(flushed=2))
    layout = None if change is None else LAYOUT.model_copy(update=change)
    report = report_import(bring_in(tmp_path, recording, layout))
    assert report.verdict is verdict
    assert any(reason in line for line in report.reasons)
    assert report.exposed == ()


def test_a_log_that_was_not_closed_is_not_safe(tmp_path: Path) -> None:
    made = three_records(flushed=3)
    recording = recording_of(tmp_path / "recording", made.timeline(), [(3, 300)])
    export_log(recording.timeline, recording.history, tmp_path / "log")
    data = bytearray((tmp_path / "log").read_bytes())
    count = int.from_bytes(data[16:24], "little")
    data[16:24] = (count - 1).to_bytes(8, "little")  # without the mark that ends it
    (tmp_path / "log").write_bytes(data)
    report = report_import(bring_in(tmp_path, recording))
    assert not report.complete
    assert report.verdict is Verdict.INCONCLUSIVE


def test_an_imported_loss_has_a_witness(tmp_path: Path) -> None:
    if not WAL_BINARY.exists():
        pytest.skip(f"{WAL_BINARY} is not built: ./powercut builds it")
    recording = exported(tmp_path, three_records(flushed=2))
    imported = open_recording(bring_in(tmp_path, recording).path)
    witness = minimize(imported, "ack:3", lsn=3)
    assert witness.lost == (LsnRange(3, 3),)
    assert witness.imported
    assert " ms before" not in witness.cause


def test_damage_names_the_entry_and_leaves_no_folder(tmp_path: Path) -> None:
    recording = exported(tmp_path, three_records(flushed=2))
    data = bytearray((tmp_path / "log").read_bytes())
    data[512 + 16] = 0xFF  # the flags of the first entry
    (tmp_path / "log").write_bytes(data)
    with pytest.raises(DamagedRecording, match="entry 0 at byte 512"):
        bring_in(tmp_path, recording)
    assert not (tmp_path / "imported").exists()


def test_the_recording_is_a_copy_and_sealed(tmp_path: Path) -> None:
    recording = exported(tmp_path, three_records(flushed=2))
    directory = bring_in(tmp_path, recording)
    (tmp_path / "log").write_bytes(b"something else")
    open_recording(directory.path)
    with pytest.raises(UsageError, match="exists already"):
        bring_in(tmp_path, recording)
    (directory.path / "log.dmlw").chmod(0o644)
    with (directory.path / "log.dmlw").open("ab") as file:
        file.write(b"x")
    with pytest.raises(DamagedRecording, match=r"log\.dmlw"):
        open_recording(directory.path)


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ({"run_id": "abc"}, "a run id has 32 hexadecimal digits"),
        ({"layout": "pile"}, "layout 'pile': there is none"),
        ({"record": 100}, "record=100"),
        ({"capacity": 0}, "not one slot"),
    ],
)
def test_a_layout_that_cannot_be(tmp_path: Path, layout, message: str) -> None:
    recording = exported(tmp_path, three_records(flushed=2))
    with pytest.raises(UsageError, match=message):
        bring_in(tmp_path, recording, LAYOUT.model_copy(update=layout))
    assert not (tmp_path / "imported").exists()


def test_the_commands(tmp_path: Path) -> None:
    recording = exported(tmp_path, three_records(flushed=2))
    words = ["import", str(tmp_path / "log"), "--base", str(recording.base)]
    words += ["-o", str(tmp_path / "new"), "--run-id", RUN_ID.hex(), "--layout", "raw"]
    words += ["--capacity", str(SLOTS * RECORD), "--dialect", Dialect.KERNEL.value]
    done = CliRunner().invoke(cli, words, standalone_mode=False)
    assert done.exception is None
    assert done.return_value == 1, "as `audit acks` does"
    assert "acknowledged too early, for certain: 1, 3" in done.output
    assert "\nLOSSY\n" in done.output
    again = CliRunner().invoke(cli, ["audit", "acks", str(tmp_path / "new")], standalone_mode=False)
    assert (again.return_value, again.output) == (1, done.output)
    words = ["import", str(tmp_path / "log"), "--base", str(recording.base), "-o"]
    done = CliRunner().invoke(cli, [*words, str(tmp_path / "plain")], standalone_mode=False)
    assert done.return_value == 0, "nothing was to be judged"
    image = tmp_path / "disk.img"
    words = ["export", str(tmp_path / "new"), "flush:1", "--format", "state", "-o", str(image)]
    done = CliRunner().invoke(cli, words, standalone_mode=False)
    assert done.return_value == 0
    assert np.fromfile(image, np.uint8)[: 2 * RECORD].tobytes() == record(1) + record(2)
    words = [
        "export",
        str(tmp_path / "new"),
        "--format",
        "dm-log-writes",
        "-o",
        str(tmp_path / "again"),
    ]
    done = CliRunner().invoke(cli, words, standalone_mode=False)
    assert isinstance(done.exception, UsageError)
    words = ["import", str(tmp_path / "log"), "--base", str(recording.base), "-o", "x"]
    done = CliRunner().invoke(cli, [*words, "--layout", "raw"], standalone_mode=False)
    assert "go together" in str(done.exception)


@pytest.mark.parametrize("as_seen", [False, True])
def test_a_lie_is_exported_as_what_the_disk_kept(tmp_path: Path, as_seen: bool) -> None:
    made = three_records(flushed=2)
    made.flush(at=900, done=950)
    made.contract = DeviceContract(flush=Honour.IGNORED)
    recording = recording_of(tmp_path / "recording", made.timeline(cut_at=2000), [(2, 300)])
    timeline = recording.timeline if as_seen else as_kept(recording.timeline)
    export_log(timeline, recording.history, tmp_path / "log")
    directory = bring_in(tmp_path, recording)
    report = report_import(directory)
    imported = open_recording(directory.path)
    assert report.exposed == (() if as_seen else (LsnRange(1, 2),))
    assert report.verdict is (Verdict.SAFE if as_seen else Verdict.LOSSY)
    assert report.flushes == (2 if as_seen else 0)
    names = [name for _, name in imported.timeline.marks]
    ignored = ["flush 1, ignored by the disk", "flush 2, ignored by the disk"]
    assert [name for name in names if "ignored" in name] == ([] if as_seen else ignored)
    images = []
    for side in (recording, imported):
        path = tmp_path / f"{side.imported}.img"
        materialize(side, resolve_state(side, "ack:2"), path)
        images.append(path.read_bytes())
    assert (images[0] == images[1]) is not as_seen


def test_an_ignored_fua_is_exported_as_a_plain_write(tmp_path: Path) -> None:
    made = Handmade(disk_size=65536, contract=DeviceContract(fua=Honour.IGNORED))
    made.write(0, record(1), at=10, done=20, fua=True)
    made.write(512, record(2), at=30, done=40)
    made.flush(at=50, done=60)
    recording = recording_of(tmp_path / "recording", made.timeline(), [(1, 25), (2, 70)])
    export_log(as_kept(recording.timeline), recording.history, tmp_path / "log")
    report = report_import(bring_in(tmp_path, recording))
    assert (report.fua_writes, report.flushes) == (0, 1)
    assert report.exposed == (LsnRange(1, 1),)


def test_states_under_both_readings(tmp_path: Path) -> None:
    if not WAL_BINARY.exists():
        pytest.skip(f"{WAL_BINARY} is not built: ./powercut builds it")
    recording = exported(tmp_path, three_records(flushed=3), [(3, 300)])
    found = explore_import(bring_in(tmp_path, recording))
    both = found.certain, found.cautious
    assert ([one.coverage.lossy for one in both], found.reasons) == ([0, 0], ())
    assert found.verdict is Verdict.SAFE
    assert found.cautious.coverage.exhausted
    two = replace(USUAL, budget=Budget(states=2))
    limited = explore_import(find_recording(tmp_path / "imported"), two)
    assert limited.verdict is Verdict.INCONCLUSIVE
    assert "not every state was checked" in limited.reasons
    with pytest.raises(UsageError, match="model exact is not meaningful"):
        explore_import(find_recording(tmp_path / "imported"), replace(USUAL, model=Model.EXACT))


@pytest.mark.parametrize("model", [Model.EPOCH, Model.PREFIX])
def test_an_early_ack_is_found_by_states_and_by_analysis(tmp_path: Path, model: Model) -> None:
    if not WAL_BINARY.exists():
        pytest.skip(f"{WAL_BINARY} is not built: ./powercut builds it")
    recording = exported(tmp_path, three_records(flushed=2))
    directory = bring_in(tmp_path, recording)
    found = explore_import(directory, replace(USUAL, model=model))
    assert (found.verdict, found.cautious) == (Verdict.LOSSY, None)
    (finding,) = found.certain.findings
    assert finding.lsns == report_import(directory).exposed
    state = resolve_state(open_recording(directory.path), finding.examples[0].id)
    assert state.policy == model.value


def test_imports_at_the_command_line(tmp_path: Path) -> None:
    if not WAL_BINARY.exists():
        pytest.skip(f"{WAL_BINARY} is not built: ./powercut builds it")
    recording = exported(tmp_path, three_records(flushed=2))
    folder = str(bring_in(tmp_path, recording).path)
    done = CliRunner().invoke(cli, ["explore", folder], standalone_mode=False)
    assert done.return_value == 1, done.output
    assert "LOSSY in the epoch model" in done.output
    done = CliRunner().invoke(cli, ["audit", "acks", folder], standalone_mode=False)
    assert done.return_value == 1
    assert "for certain: 1, 3" in done.output
