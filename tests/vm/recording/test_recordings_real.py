# SPDX-License-Identifier: Apache-2.0
"""What a person does with real recordings of real guests."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import zstandard
from bundles import verify_bundle
from click.testing import CliRunner
from surviving import surviving_image

from powercut.campaign.bundle import make_bundle, unpack
from powercut.cli.commands import cli
from powercut.crash.legality import why_illegal
from powercut.explore.state_judge import open_judge
from powercut.model.errors import DamagedRecording, UsageError
from powercut.model.timeline import Timeline
from powercut.model.verdict import Verdict
from powercut.recording.disk import cut_state
from powercut.recording.materialize import materialize
from powercut.recording.open_recording import open_recording
from powercut.recording.state_names import resolve_state
from powercut.store.layout import ResultDir
from powercut.witness.minimize import minimize

CELLS = ("xfs", "xfs-lying", "ext4-lying", "ext4-random", "raw-lying")
LOSSY = CELLS[1:]


@pytest.mark.parametrize("cell", CELLS)
def test_the_cut_as_an_image_is_what_the_live_cut_was(cell, recorded, trial_of, tmp_path) -> None:
    """Same bytes as the other replay of the log; same losses as the live recovery found."""
    recording = open_recording(trial_of(cell))
    state = cut_state(recording.space)
    materialize(recording, state, tmp_path / "cut.img")
    image = (tmp_path / "cut.img").read_bytes()
    assert image == surviving_image(recording.timeline, recording.base).tobytes()
    (live,) = [each.trials[0] for each in recorded.cells if each.cell == cell]
    with open_judge(recording) as judge:
        found = judge.judge(state)
    assert found.lost == live.lost_lsns
    assert (found.verdict is Verdict.LOSSY) == (live.commits_lost > 0)


@pytest.mark.parametrize("cell", LOSSY)
def test_a_witness_is_minimal_by_a_second_look(cell, trial_of) -> None:
    """With any single one of its writes back, the record is back; without it, it is gone."""
    recording = open_recording(trial_of(cell))
    witness = minimize(recording, confirm=True)
    assert (witness.minimal, witness.confirmed, witness.confirmation) == (True, "yes", "")
    assert witness.lost
    assert 1 <= len(witness.dropped) <= 3
    lost = {n for span in witness.lost for n in range(span.first, span.last + 1)}
    state = resolve_state(recording, witness.state)
    assert why_illegal(recording.space, state) == []
    missing = {write.request for write in witness.dropped}
    kept = set(state.survivors)
    with open_judge(recording) as judge:
        assert judge.judge(state).lsns == lost
        for write in missing:
            survivors = tuple(sorted(kept | {write}))
            torn = tuple(part for part in state.torn if part.write != write)
            back = judge.judge(type(state)(state.instant, survivors, torn))
            assert not back.lsns & lost
    assert all(write.why.startswith("the disk ignored the") for write in witness.dropped)
    assert all(part.what for write in witness.dropped for part in write.parts)


def test_a_witness_on_a_raw_disk_is_the_sector_of_the_record(trial_of) -> None:
    """In each write that has the record: the next commit may have written the page again by then,
    as each later one does."""
    recording = open_recording(trial_of("raw-lying"))
    sector = (4 * 512, 5 * 512)
    witness = minimize(recording, "ack:5", lsn=5)
    carrying = [
        int(write)
        for write in recording.space.volatile(witness.instant_ns)
        if bytes_at(recording.timeline, write, sector).any()
    ]
    assert [write.request for write in witness.dropped] == carrying != []
    for write in witness.dropped:
        assert [part.what for part in write.parts] == ["record 5"]
        assert write.dropped == (sector,)
    assert [(span.first, span.last) for span in witness.lost] == [(5, 5)]


def bytes_at(timeline: Timeline, write: int, place: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """What a write has for the bytes from `place[0]` to `place[1]` of the disk."""
    at = int(timeline.requests.offset[write])
    return timeline.payload(write)[max(place[0] - at, 0) : max(place[1] - at, 0)]


def test_a_witness_on_a_file_system_names_its_metadata(trial_of) -> None:
    """Without its journal the file is not found: one sector of metadata loses it all.

    ext4 marks its superblock when it is mounted; without the mark nothing is replayed.
    """
    names = {}
    for cell in ("xfs-lying", "ext4-lying"):
        witness = minimize(open_recording(trial_of(cell)))
        names[cell] = {part.what.split(" (")[0] for w in witness.dropped for part in w.parts}
    assert names == {"xfs-lying": {"journal"}, "ext4-lying": {"superblock"}}


@pytest.mark.parametrize("cell", ["xfs-lying", "raw-lying"])
def test_a_bundle_reproduces_its_finding(cell, recorded, trial_of, tmp_path) -> None:
    trial = trial_of(cell)
    done = CliRunner().invoke(cli, ["minimize", str(trial)], standalone_mode=False)
    assert done.return_value == 0, done.output
    assert "What is lost:" in done.output
    bundle = tmp_path / "finding.powercut"
    made = make_bundle(trial, bundle)
    assert made.verdict == "LOSSY"
    assert made.state is not None
    assert made.state.verdict == "LOSSY"
    again = verify_bundle(bundle)
    assert (again.differences, again.untried) == ((), ())
    assert [cell.cell for cell in again.run.cells] == [cell]
    assert [each.behaved for each in again.run.controls] == [True]
    assert again.state == made.state
    assert again.exit_status == 0
    with pytest.raises(UsageError, match="exists already"):
        make_bundle(trial, bundle)
    before = bundle.read_bytes()
    make_bundle(trial, bundle, force=True)
    assert bundle.read_bytes() == before  # the same finding is the same file


def test_a_safe_recording_takes_its_controls_along(trial_of, tmp_path) -> None:
    made = make_bundle(trial_of("xfs"), tmp_path / "b")
    files = (Path(each.path) for each in made.files if "/states/" not in each.path)
    folders = {file.parent.as_posix() for file in files} - {"."}
    assert len(folders) == 3  # itself, the lying disk, and the workload without sync
    again = verify_bundle(tmp_path / "b")
    assert [each.verdict for each in again.run.cells] == [Verdict.SAFE]
    assert again.exit_status == 0


def test_an_unpacked_bundle_is_a_result_like_any_other(trial_of, tmp_path) -> None:
    make_bundle(trial_of("raw-lying"), tmp_path / "b", state="cut")
    manifest = unpack(tmp_path / "b", tmp_path / "result")
    folder = tmp_path / "result" / manifest.recording
    assert ResultDir.open(folder).path == tmp_path / "result"
    base = folder / "base.img"
    assert base.stat().st_blocks * 512 < base.stat().st_size // 4  # holes stayed holes
    recording = open_recording(folder)
    assert recording.title.startswith("recordings, raw-lying")
    materialize(recording, resolve_state(recording, "cut"), tmp_path / "disk.img")


def test_a_bundle_that_was_touched_is_refused(trial_of, tmp_path) -> None:
    bundle = tmp_path / "b"
    make_bundle(trial_of("raw-lying"), bundle)
    whole = bundle.read_bytes()
    for length in (len(whole) // 3, len(whole) - 9):
        bundle.write_bytes(whole[:length])
        with pytest.raises(DamagedRecording, match="cut off"):
            verify_bundle(bundle)
    for place in (len(whole) // 2, len(whole) - 40):
        bundle.write_bytes(spoilt(whole, place))
        with pytest.raises(DamagedRecording):
            verify_bundle(bundle)


def spoilt(whole: bytes, place: int) -> bytes:
    """One bit changed, at `place` or behind it: some bits of a compressed file have no meaning."""
    for at in range(place, len(whole)):
        changed = whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :]
        if unpacked(changed) != unpacked(whole):
            return changed
    raise AssertionError("no bit has a meaning")


def unpacked(packed: bytes) -> bytes | None:
    """What it holds; None if it is damaged."""
    try:
        return zstandard.ZstdDecompressor().stream_reader(io.BytesIO(packed)).read()
    except zstandard.ZstdError:
        return None


def test_a_bundle_whose_claim_is_false_differs(trial_of, tmp_path) -> None:
    """A manifest that promises another verdict than the evidence gives is found out."""
    import tarfile

    (lost,) = make_bundle(trial_of("raw-lying"), tmp_path / "true").lost
    plain = io.BytesIO(unpacked((tmp_path / "true").read_bytes()) or b"")
    out = io.BytesIO()
    with (
        tarfile.open(fileobj=plain) as old,
        tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in old:
            data = old.extractfile(member).read()
            if member.name == "bundle.json":
                claim = json.loads(data)
                claim |= {"verdict": "SAFE", "lost": []}
                data = json.dumps(claim).encode()
                member.size = len(data)
            new.addfile(member, io.BytesIO(data))
    (tmp_path / "false").write_bytes(zstandard.ZstdCompressor().compress(out.getvalue()))
    again = verify_bundle(tmp_path / "false")
    assert again.differences == (
        "the recording was SAFE and is LOSSY",
        f"the recording had lost nothing and loses {lost}",
    )
    assert again.exit_status == 1


def test_exported_logs_hold_the_same_images(trial_of, tmp_path) -> None:
    """At every flush of an exported log the image is the one of the recording itself."""
    from powercut_extras.logs.imports import import_recording

    recording = open_recording(trial_of("xfs"))
    log = tmp_path / "log"
    words = ["export", str(recording.directory.path), "--format", "dm-log-writes", "-o", str(log)]
    assert CliRunner().invoke(cli, words, standalone_mode=False).return_value == 0
    directory = import_recording(log, base=recording.base, output=tmp_path / "imported")
    imported = open_recording(directory.path)
    for flush in (1, 2, 5, 10):
        images = []
        for side in (recording, imported):
            path = tmp_path / f"{flush}-{side.imported}"
            materialize(side, resolve_state(side, f"flush:{flush}"), path)
            images.append(path.read_bytes())
        assert images[0] == images[1]


def test_a_materialised_state_mounts_elsewhere(trial_of, tmp_path) -> None:
    """The image is a file system to its own tools, once its journal is replayed."""
    debugfs = shutil.which("e2fsck", path="/sbin:/usr/sbin")
    if debugfs is None:
        pytest.skip("e2fsck is not installed")
    recording = open_recording(trial_of("ext4-lying"))
    state = resolve_state(recording, "everything@1ms")
    materialize(recording, state, tmp_path / "disk.img")
    done = subprocess.run([debugfs, "-p", tmp_path / "disk.img"], capture_output=True, check=False)
    assert done.returncode in (0, 1), done.stdout  # clean, or clean after the replay
