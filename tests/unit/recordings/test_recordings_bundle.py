# SPDX-License-Identifier: Apache-2.0
"""What a bundle may not do to whoever unpacks it."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest
import zstandard

from powercut.campaign.bundle import is_bundle, unpack
from powercut.model.errors import DamagedRecording, UsageError

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
