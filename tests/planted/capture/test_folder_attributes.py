# SPDX-License-Identifier: Apache-2.0
"""Attributes in crash states of captured folders: kept as fsync promises, lost without it."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from folders_judged import judged_by

from powercut.campaign.folder import CaptureOrder, record_folder
from powercut.crash.folder_rows import Promise
from powercut.crash.states import CrashState
from powercut.model.observation import Observation
from powercut.recording.folder import FolderRecording, build_tree, open_capture, remove_tree
from powercut.store.folder import CaptureDir

pytestmark = pytest.mark.fuse

# Each operation is a file that is made private, written, made readable, and moved into its place.
KEEPER = """if True:
    import os, sys
    way, folder = sys.argv[1:]
    lines, directory = int(os.environ["POWERCUT_FD"]), os.open(folder, os.O_RDONLY)
    os.write(lines, b"ready\\n")
    for n in range(1, 13):
        os.write(lines, b"? %d\\n" % n)
        new = os.open(folder + "/new", os.O_WRONLY | os.O_CREAT, 0o600)
        os.write(new, b"%d" % n)
        if way == "mode-late":
            os.fsync(new)
        os.fchmod(new, 0o640)
        os.setxattr(new, "user.number", b"%d" % n)
        os.utime(new, ns=(n * 10**9, n * 10**9))
        if way == "honest":
            os.fsync(new)
        if way != "mode-last":
            os.rename(folder + "/new", folder + "/%d" % n)
        os.fsync(directory)
        if way == "mode-last":
            os.rename(folder + "/new", folder + "/%d" % n)
            os.fsync(directory)
            os.fchmod(new, 0o644)
        os.write(lines, b"+ %d\\n" % n)
"""


def recorded(tmp_path: Path, *command: str) -> FolderRecording:
    folder = tmp_path / "folder"
    folder.mkdir(exist_ok=True)
    directory = CaptureDir.create(tmp_path / "recording")
    order = CaptureOrder(folder, (*command, str(folder)), ("check",), 0, 120.0, 4096, 1)
    assert record_folder(order, directory).status == 0, directory.console.read_text()
    return open_capture(directory)


def found(state: Path, mode: int) -> Observation:
    """The numbers whose file is whole, has its mode, its attribute and its time."""
    kept = []
    for path in state.glob("[0-9]*"):
        has, xattrs = path.stat(), dict.fromkeys(os.listxattr(path))
        whole = path.read_bytes() == path.name.encode()
        whole = whole and "user.number" in xattrs and has.st_mode & 0o7777 == mode
        if whole and has.st_mtime_ns == int(path.name) * 10**9:
            kept.append(path.name)
    return Observation((), lines="".join(f"= {name}\n" for name in kept).encode())


@pytest.mark.parametrize(
    ("way", "mode", "journal", "posix"),
    [
        ("honest", 0o640, "SAFE", "SAFE"),
        # A journal keeps attributes and names in their order, and the folder is synced.
        ("mode-late", 0o640, "SAFE", "LOSSY"),
        ("mode-last", 0o644, "LOSSY", "LOSSY"),
    ],
)
def test_attributes_are_as_durable_as_promised(
    tmp_path: Path, way: str, mode: int, journal: str, posix: str
) -> None:
    recording = recorded(tmp_path, sys.executable, "-I", "-S", "-c", KEEPER, way)
    for promise, verdict in ((Promise.JOURNAL, journal), (Promise.POSIX, posix)):
        scratch = tmp_path / promise.value
        result = judged_by(
            lambda state: found(state, mode), recording, promise, scratch, states=200
        )
        assert (result.verdict.name, result.control) == (verdict, "LOSSY"), promise


def listed(folder: Path) -> dict[str, object]:
    """Each path with all that a person could see of it, but for the size of folders."""
    seen: dict[str, object] = {}
    for path in (folder, *sorted(folder.rglob("*"))):
        has = path.lstat()
        names = os.listxattr(path, follow_symlinks=False)
        value = (
            (oct(has.st_mode), has.st_uid, has.st_gid),
            {name: os.getxattr(path, name, follow_symlinks=False) for name in names},
            has.st_mtime_ns if path.name.startswith("timed") else 0,
            str(path.readlink()) if path.is_symlink() else "",
        )
        seen[str(path.relative_to(folder))] = value
    return seen


def access_list(user: int, group: int) -> bytes:
    """A list of access control that names a user and a group (linux/posix_acl_xattr.h)."""
    entries = [(1, 7, -1), (2, 6, user), (4, 5, -1), (8, 4, group), (16, 7, -1), (32, 0, -1)]
    packed = [struct.pack("<HHi", *entry) for entry in entries]
    return struct.pack("<I", 2) + b"".join(packed)


SCRIPT = f"""if True:
    import os, sys
    os.write(int(os.environ["POWERCUT_FD"]), b"ready\\n")
    os.umask(0o027)
    os.chdir(sys.argv[1])
    os.setxattr("shared", "system.posix_acl_default", {access_list(5, 6)})
    open("shared/inherits", "w").write("a")
    os.mkdir("shared/sub")
    open("mine", "w").write("b")
    os.symlink("mine", "link")
    os.chown("mine", 33, 44)
    os.chown("link", 33, 44, follow_symlinks=False)
    os.chmod("mine", 0o4711)
    os.setxattr("mine", "system.posix_acl_access", {access_list(7, 8)})
    os.removexattr("shared/sub", "system.posix_acl_default")
    open("timed-new", "w").close()
    os.utime("timed-new", ns=(3, 10**18 + 5))
    os.utime("link", ns=(5, 5), follow_symlinks=False)
    os.removexattr("timed-old", "user.was")
    os.setxattr("timed-old", "user.is", b"there\\0now")
    os.chmod(".", 0o700)
"""


@pytest.mark.root  # an ordinary user's namespace has no other users to name
def test_all_attributes_come_out_in_the_state_with_everything(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "shared").mkdir(parents=True)
    (folder / "shared").chmod(0o2775)
    (folder / "timed-old").write_text("old")
    os.utime(folder / "timed-old", ns=(1, 2 * 10**18))
    os.setxattr(folder / "timed-old", "user.was", b"there\0before")
    recording = recorded(tmp_path, sys.executable, "-I", "-S", "-c", SCRIPT)
    live = listed(folder)
    assert "system.posix_acl_access" in live["shared/inherits"][1]  # type: ignore[index]  # a pair
    assert live["timed-old"][1:3] == ({"user.is": b"there\0now"}, 2 * 10**18)  # type: ignore[index]
    cut = recording.record.cut_ns
    for promise in Promise:
        space = recording.under(promise).space
        target = tmp_path / promise.value
        target.mkdir()
        state = CrashState(cut, tuple(space.volatile(cut).tolist()))
        build_tree(space, space.tree(state), target)
        assert listed(target) == live


@pytest.mark.root
def test_a_file_belongs_to_who_made_it() -> None:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        place.chmod(0o755)
        (place / "folder").mkdir()
        (place / "folder").chmod(0o777)
        become = """if True:
            import os, sys
            os.setgid(5), os.setuid(7)
            os.mkdir(sys.argv[1] + "/d")
            open(sys.argv[1] + "/d/f", "w").write("x")
            open(sys.argv[1] + "/d/f", "a").write("y")"""
        recording = recorded(place, sys.executable, "-I", "-S", "-c", become)
        space, cut = recording.under(Promise.JOURNAL).space, recording.record.cut_ns
        tree = space.tree(CrashState(cut, tuple(space.volatile(cut).tolist())))
        assert dict(tree.files)["d/f"].attributes.owner == (7, 5)
        assert dict(tree.folders)["d"].owner == (7, 5)
        assert dict(tree.files)["d/f"].size == 2


def test_a_folder_that_forbids_changes_is_removed(tmp_path: Path) -> None:
    closed = tmp_path / "state" / "closed"
    closed.mkdir(parents=True)
    (closed / "file").write_text("x")
    closed.chmod(0)
    remove_tree(tmp_path / "state")
    assert not (tmp_path / "state").exists()
    assert subprocess.run(["ls", tmp_path], capture_output=True, check=True).stdout == b""
