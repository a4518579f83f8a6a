# SPDX-License-Identifier: Apache-2.0
"""A root file system out of layers: what it holds in the end, and what it refuses."""

import hashlib
import io
import json
import os
import stat
import tarfile
from pathlib import Path

import pytest

from powercut.disk import root_image
from powercut.disk.root_image import SKELETON, RootTree
from powercut.model.errors import UsageError


def member(name, data=None, *, link=None, hard=None, kind=None, mode=0o755):
    info = tarfile.TarInfo(name)
    info.mode = mode
    if data is not None:
        info.size = len(data)
    elif link is not None:
        info.type, info.linkname = tarfile.SYMTYPE, link
    elif hard is not None:
        info.type, info.linkname = tarfile.LNKTYPE, hard
    else:
        info.type = kind or tarfile.DIRTYPE
    return info, data


def tar_of(path: Path, *members) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for info, data in members:
            tar.addfile(info, None if data is None else io.BytesIO(data))
    return path


def made(*roots: Path) -> dict[str, tuple[str, bytes | str]]:
    """What the tar holds, but for the folders: kind, and bytes or target."""
    with RootTree() as tree:
        for root in roots:
            tree.add(root)
        file = io.BytesIO()
        digest = tree.write(file)
    assert digest == hashlib.sha256(file.getvalue()).hexdigest()
    file.seek(0)
    found: dict[str, tuple[str, bytes | str]] = {}
    with tarfile.open(fileobj=file) as tar:
        names = tar.getnames()
        assert set(SKELETON) <= set(names)
        assert names == sorted(names)  # folders before what is in them
        for info in tar:
            if info.issym():
                found[info.name] = ("link", info.linkname)
            elif not info.isdir():
                assert info.isreg()
                found[info.name] = ("file", tar.extractfile(info).read())
    return found


def layout(folder: Path, *layers: Path) -> Path:
    """An OCI image layout of `layers`, the lowest first, behind a nested index."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def blob(data: bytes) -> dict[str, object]:
        name = hashlib.sha256(data).hexdigest()
        (blobs / name).write_bytes(data)
        return {"digest": f"sha256:{name}", "size": len(data)}

    manifest = blob(json.dumps({"layers": [blob(p.read_bytes()) for p in layers]}).encode())
    other = {"digest": "sha256:" + "0" * 64, "platform": {"os": "linux", "architecture": "arm64"}}
    ours = {**manifest, "platform": {"os": "linux", "architecture": "amd64"}}
    index = blob(json.dumps({"manifests": [other, ours]}).encode())
    (folder / "index.json").write_text(json.dumps({"manifests": [index]}))
    return folder


def test_whiteouts_take_away_what_lower_layers_have(tmp_path):
    lower = tar_of(
        tmp_path / "1", member("etc"), member("etc/gone", b"1"), member("etc/stays", b"1"),
        member("data"), member("data/old", b"1"), member("data/deep"), member("data/deep/old", b""),
        member("tree"), member("tree/leaf", b"1"),
    )  # fmt: skip
    upper = tar_of(
        tmp_path / "2", member("etc/.wh.gone", b""), member("data/new", b"2"),
        member("data/.wh..wh..opq", b""), member(".wh.tree", b""), member("etc/stays", b"2"),
    )  # fmt: skip
    assert made(layout(tmp_path / "oci", lower, upper)) == {
        "etc/stays": ("file", b"2"),
        "data/new": ("file", b"2"),  # of the same layer as the opaque mark, though it came first
    }


def test_a_name_that_was_removed_may_come_back_as_something_else(tmp_path):
    lower = tar_of(tmp_path / "1", member("a"), member("a/b", b"1"), member("c", b"1"))
    upper = tar_of(tmp_path / "2", member("a", b"2"), member("c"), member("c/d", b"2"))
    assert made(layout(tmp_path / "oci", lower, upper)) == {
        "a": ("file", b"2"), "c/d": ("file", b"2"),
    }  # fmt: skip


def test_links_lead_to_what_they_mean_inside(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    lower = tar_of(
        tmp_path / "1", member("usr/bin"), member("bin", link="usr/bin"),
        member("away", link=str(outside)), member("up", link="../../.."),
    )  # fmt: skip
    upper = tar_of(
        tmp_path / "2", member("bin"), member("bin/sh", b"sh"), member("away/x", b"x"),
        member("up/y", b"y"), member("usr/bin/bash", hard="bin/sh"),
    )  # fmt: skip
    found = made(layout(tmp_path / "oci", lower, upper))
    assert found["bin"] == ("link", "usr/bin")
    assert found["usr/bin/sh"] == found["usr/bin/bash"] == ("file", b"sh")
    assert found[f"{outside}/x".lstrip("/")] == ("file", b"x")
    assert found["y"] == ("file", b"y")
    assert list(outside.iterdir()) == []


def test_a_folder_is_taken_without_following_its_links(tmp_path):
    (tmp_path / "secret").write_text("secret")
    folder = tmp_path / "root"
    (folder / "bin" / "__pycache__").mkdir(parents=True)
    (folder / "bin" / "__pycache__" / "x.pyc").write_bytes(b"")
    (folder / "bin" / "tool").write_bytes(b"tool")
    (folder / "bin" / "tool").chmod(0o711)
    (folder / "link").symlink_to("../secret")
    assert made(folder) == {"bin/tool": ("file", b"tool"), "link": ("link", "../secret")}


def test_devices_are_left_out_and_modes_stay(tmp_path):
    tar = tar_of(
        tmp_path / "1", member("dev/sda", kind=tarfile.BLKTYPE),
        member("pipe", kind=tarfile.FIFOTYPE), member("x", b"", mode=0o4111),
    )  # fmt: skip
    assert made(tar) == {"x": ("file", b"")}
    with RootTree() as tree:
        tree.add(tar)
        file = io.BytesIO()
        tree.write(file)
    file.seek(0)
    with tarfile.open(fileobj=file) as written:
        assert stat.S_IMODE(written.getmember("x").mode) == 0o4511  # and its packer may read it


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ([member("../x", b"")], "leads out of the root"),
        ([member("a/../../x", b"")], "leads out of the root"),
        ([member("x", hard="../../etc/passwd")], "leads out of the root"),
        ([member("x", hard="etc/passwd")], "which is not there"),
        ([member("a", link="b"), member("b", link="a"), member("a/x", b"")], "too many links"),
    ],
)
def test_what_leads_elsewhere_is_refused(tmp_path, members, told):
    with pytest.raises(UsageError, match=told):
        made(tar_of(tmp_path / "1", *members))


def test_a_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(root_image, "_BYTES_MAX", 10)
    with pytest.raises(UsageError, match="more than 10 bytes in its members"):
        made(tar_of(tmp_path / "1", member("a", b"123456"), member("b", b"123456")))


def test_a_blob_that_was_changed_is_refused(tmp_path):
    oci = layout(tmp_path / "oci", tar_of(tmp_path / "1", member("a", b"1")))
    for blob in (oci / "blobs" / "sha256").iterdir():
        blob.write_bytes(blob.read_bytes() + b" ")
    with pytest.raises(UsageError, match="not what its digest says"):
        made(oci)


@pytest.mark.parametrize(
    "index", ["[]", "{}", '{"manifests": []}', '{"manifests": [{"digest": "md5:0"}]}', "x"]
)
def test_an_index_that_is_none_is_refused(tmp_path, index):
    (tmp_path / "index.json").write_text(index)
    with pytest.raises(UsageError, match="OCI image layout"):
        made(tmp_path)


def test_what_is_no_root_is_refused(tmp_path):
    (tmp_path / "x").write_bytes(b"neither a tar nor an image")
    with pytest.raises(UsageError, match="no root file system"):
        made(tmp_path / "x")


@pytest.mark.parametrize("name", ["pipe", "index.json"])
def test_a_pipe_is_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with (
        RootTree(tmp_path) as tree,
        pytest.raises(UsageError, match="no root file system can be read there: a pipe, and no"),
    ):
        tree.add(tmp_path / name)


def test_an_image_is_made_once_for_the_same_files(tmp_path):
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    (root / "bin/tool").write_text("one")
    cache = tmp_path / "cache"
    first = root_image.ensure_root_image(root, cache)
    root_image.ensure_root_image.cache_clear()
    again = root_image.ensure_root_image(root, cache)
    assert again == first
    assert root_image.is_image(first.path)
    assert [path.name for path in (cache / "roots").iterdir()] == [first.path.name]
    (root / "bin/tool").write_text("changed")
    root_image.ensure_root_image.cache_clear()
    other = root_image.ensure_root_image(root, cache)
    assert other.sha256 != first.sha256
    taken = root_image.ensure_root_image(first.path, cache)  # an image is taken as it is
    assert taken.path == first.path
