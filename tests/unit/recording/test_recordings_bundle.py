# SPDX-License-Identifier: Apache-2.0
"""What a bundle may not do to whoever unpacks it."""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import tarfile
from pathlib import Path

import pytest
import zstandard
from hostile import SLICES, bounded, fuzz, survives
from hypothesis import strategies as st
from read_here import archives_read_here

from powercut.campaign.bundle_file import is_bundle, unpack
from powercut.model.errors import DamagedRecording, HostError, UsageError
from powercut.recording.consent import (
    NotRepeated,
    foreign_commands,
    require_consent,
    run_checks,
)
from powercut.scenario.plan import Trial, Trigger, TriggerKind
from powercut.scenario.settings import MachineSettings, Parameters, ProgramSettings
from powercut.store.own import MARK
from powercut.store.trial_dir import TrialDir, TrialRecord

CONTENT = b"content" * 100
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def bundle_of(path: Path, manifest: object, blobs: dict[str, bytes], *, link: str = "") -> Path:
    """A bundle with the given manifest and members, well-formed or not."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        text = json.dumps(manifest).encode()
        for name, data in {"bundle.json": text, **blobs}.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
        if link:
            member = tarfile.TarInfo(link)
            member.type, member.linkname = tarfile.SYMTYPE, "/etc"
            tar.addfile(member)
    path.write_bytes(zstandard.ZstdCompressor().compress(out.getvalue()))
    return path


def manifest(*paths: str, **changes: object) -> dict[str, object]:
    """A manifest of files that all have the same content."""
    files = [{"path": name, "size": len(CONTENT), "sha256": DIGEST} for name in paths]
    return {
        "format": "powercut-bundle/1", "powercut": "0", "scenario": "s", "cell": "c", "trial": 1,
        "recording": "cells/c/0001", "verdict": "SAFE", "lost": [], "files": files, **changes,
    }  # fmt: skip


def test_files_of_equal_content_come_from_one_blob(tmp_path: Path) -> None:
    blobs = {f"blobs/{DIGEST}": CONTENT}
    bundle = bundle_of(tmp_path / "b", manifest("a/base.img", "b/base.img"), blobs)
    assert is_bundle(bundle)
    unpack(bundle, tmp_path / "out")
    one, two = tmp_path / "out/a/base.img", tmp_path / "out/b/base.img"
    assert one.read_bytes() == two.read_bytes() == CONTENT
    assert one.stat().st_ino == two.stat().st_ino
    with pytest.raises(UsageError, match="exists already"):
        unpack(bundle, tmp_path / "out")


def test_names_that_lie_too_deep_are_refused(tmp_path: Path) -> None:
    """Folders are made and removed by recursion."""
    for depth in (64, 1500):
        bundle = bundle_of(tmp_path / "b", manifest("a/" * depth + "b"), {})
        with pytest.raises(DamagedRecording, match="is more than 64 folders deep"):
            unpack(bundle, tmp_path / "out")
        assert [each.name for each in tmp_path.iterdir()] == ["b"]


@pytest.mark.parametrize("name", ["../out2", "/tmp/x", "a/../../x", "", "a\\..\\x", "."])
def test_paths_that_lead_out_are_refused(tmp_path: Path, name: str) -> None:
    blobs = {f"blobs/{DIGEST}": CONTENT}
    bundle = bundle_of(tmp_path / "b", manifest(name), blobs)
    with pytest.raises(DamagedRecording, match="names a file outside of it"):
        unpack(bundle, tmp_path / "out")
    assert [each.name for each in tmp_path.iterdir()] == ["b"]
    bundle = bundle_of(tmp_path / "b", manifest("a", recording=name), blobs)
    with pytest.raises(DamagedRecording, match="names a file outside of it"):
        unpack(bundle, tmp_path / "out")


@pytest.mark.parametrize(
    ("blobs", "message"),
    [
        ({f"blobs/{DIGEST}": CONTENT[:-1] + b"x"}, "is not what was bundled"),
        ({f"blobs/{DIGEST}": CONTENT + b"x"}, "which its manifest does not"),
        ({"blobs/other": CONTENT}, "which its manifest does not"),
        ({}, "cut off: a is not in it"),
    ],
)
def test_content_that_the_manifest_does_not_promise(tmp_path: Path, blobs, message: str) -> None:
    bundle = bundle_of(tmp_path / "b", manifest("a"), blobs)
    with pytest.raises(DamagedRecording, match=message):
        unpack(bundle, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_links_are_refused(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path / "b", manifest("a"), {}, link=f"blobs/{DIGEST}")
    with pytest.raises(DamagedRecording, match="which its manifest does not"):
        unpack(bundle, tmp_path / "out")


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (manifest("a", format="powercut-bundle/9"), DamagedRecording, "'powercut-bundle/9'"),
        (
            manifest(
                "a",
                state={
                    "name": "/etc/x",
                    "verdict": "SAFE",
                    "lost": [],
                    "message": "",
                    "engine": "raw",
                },
            ),
            DamagedRecording,
            "'/etc/x' is no name of a state",
        ),
        ([], DamagedRecording, "makes no sense"),
        ({"format": "powercut-bundle/1"}, DamagedRecording, "makes no sense"),
    ],
)
def test_manifests_that_make_no_sense(tmp_path: Path, value, error, message: str) -> None:
    bundle = bundle_of(tmp_path / "b", value, {})
    with pytest.raises(error, match=message):
        unpack(bundle, tmp_path / "out")


def test_what_is_no_bundle(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("something else")
    assert not is_bundle(tmp_path / "x")
    assert not is_bundle(tmp_path)
    assert not is_bundle(tmp_path / "missing")
    with pytest.raises(UsageError, match="is no bundle"):
        unpack(tmp_path / "x", tmp_path / "out")
    (tmp_path / "y").write_bytes(zstandard.ZstdCompressor().compress(b"no archive" * 100))
    with pytest.raises((UsageError, DamagedRecording)):
        unpack(tmp_path / "y", tmp_path / "out")


def test_a_name_that_no_system_takes_is_refused(tmp_path: Path) -> None:
    for name in ("a\0b", "a\nb", "a\x1b[2J"):
        bundle = bundle_of(tmp_path / "b", manifest(name), {f"blobs/{DIGEST}": CONTENT})
        with pytest.raises(DamagedRecording, match="names a file outside of it"):
            unpack(bundle, tmp_path / "out")


def test_a_bundle_that_would_fill_the_disk_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    value = manifest("a")
    value["files"] = [
        {"path": f"f{number}", "size": 1 << 40, "sha256": f"{number:064x}"} for number in range(64)
    ]
    bundle = bundle_of(tmp_path / "b", value, {})
    with pytest.raises(HostError, match="has room for") as caught:
        unpack(bundle, tmp_path / "out")
    assert "TMPDIR" in caught.value.hint
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("size", [-1, (1 << 40) + 1, 1 << 64])
def test_sizes_that_no_file_has(tmp_path: Path, size: int) -> None:
    value = manifest("a")
    value["files"] = [{"path": "a", "size": size, "sha256": DIGEST}]
    bundle = bundle_of(tmp_path / "b", value, {})
    with pytest.raises(DamagedRecording, match="makes no sense"):
        unpack(bundle, tmp_path / "out")


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_that_asks_for_all_memory_is_refused(tmp_path: Path, kind: bytes) -> None:
    member = tarfile.TarInfo("bomb")
    member.type, member.size = kind, 6 << 30
    path = tmp_path / "b"
    with path.open("wb") as file, zstandard.ZstdCompressor().stream_writer(file) as out:
        out.write(member.tobuf(tarfile.GNU_FORMAT))
        for _ in range(1024):
            out.write(bytes(1 << 20))
    assert path.stat().st_size < 1 << 20
    with bounded(), pytest.raises(DamagedRecording, match="a header of"):
        unpack(path, tmp_path / "out")


def test_a_manifest_of_brackets_is_refused(tmp_path: Path) -> None:
    out = io.BytesIO()
    text = b"[" * 200_000
    with tarfile.open(fileobj=out, mode="w") as tar:
        member = tarfile.TarInfo("bundle.json")
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text))
    path = tmp_path / "b"
    path.write_bytes(zstandard.ZstdCompressor().compress(out.getvalue()))
    with pytest.raises(DamagedRecording, match="makes no sense"):
        unpack(path, tmp_path / "out")


@pytest.mark.parametrize("examples", SLICES)
def test_any_archive_is_unpacked_or_refused(tmp_path: Path, examples: int) -> None:
    honest = bundle_of(tmp_path / "b", manifest("a/base.img"), {f"blobs/{DIGEST}": CONTENT})
    plain = zstandard.ZstdDecompressor().decompress(honest.read_bytes())
    out = tmp_path / "out"

    def check(changes: list[tuple[int, bytes]]) -> None:
        damaged = bytearray(plain)
        for at, data in changes:
            damaged[at % len(plain) : at % len(plain) + len(data)] = data
        honest.write_bytes(zstandard.ZstdCompressor().compress(bytes(damaged)))
        survives(lambda: unpack(honest, out))
        shutil.rmtree(out, ignore_errors=True)
        assert [each.name for each in tmp_path.iterdir()] == ["b"]

    words = st.sampled_from(
        [b"7777777", b"x", b"g", b"L", b"2", b"../", b"\0", b'"', b"-1", b"9e9"]
    )
    changes = st.tuples(st.integers(0, 2048), st.one_of(words, st.binary(min_size=1, max_size=8)))
    with archives_read_here():
        fuzz(st.lists(changes, min_size=1, max_size=3), check, examples)


@pytest.mark.parametrize("key", ["qemu", "qemu_after_move", "kernel", "program"])
def test_a_recording_from_elsewhere_runs_no_program_of_the_host(tmp_path: Path, key: str) -> None:
    folder = tmp_path / "cells/c/0001"
    folder.mkdir(parents=True)
    if key == "program":
        workload = ProgramSettings(kind="program", command=("/usr/bin/touch", "/etc/x"))
        parameters, command = Parameters(workload=workload), "/usr/bin/touch /etc/x check"
    else:
        parameters = Parameters(machine=MachineSettings.model_validate({key: "/usr/bin/touch"}))
        command = f"/usr/bin/touch (machine.{key})"
    trial = Trial(1, 1, 1, Trigger(TriggerKind.ACKS, 1))
    record = TrialRecord(
        powercut="0", scenario="s", cell="c", parameters=parameters, trial=trial, run_id="0" * 32
    )
    directory = TrialDir(folder, tmp_path)
    directory.write_record(record)
    directory.seal_recording()
    require_consent(directory, parameters)  # who made it may
    assert foreign_commands([directory]) == ()
    (folder / MARK).unlink()  # as a bundle leaves it
    with pytest.raises(NotRepeated, match=re.escape(f"not recorded here: {command}")):
        require_consent(directory, parameters)
    assert foreign_commands([directory]) == (command,)
    with run_checks():
        require_consent(directory, parameters)
    with pytest.raises(NotRepeated):
        require_consent(directory, parameters)
