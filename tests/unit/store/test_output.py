# SPDX-License-Identifier: Apache-2.0
"""What is written where the user said: to a file in one step, to a device or a pipe as it is."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from powercut.model.errors import HostError, UsageError
from powercut.store.files import write_output

DATA = b"{}\n"


def test_a_device_stays_a_device(tmp_path: Path):
    null, full = tmp_path / "null", tmp_path / "full"
    try:
        os.mknod(null, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        os.mknod(full, 0o666 | stat.S_IFCHR, os.makedev(1, 7))
    except PermissionError:
        null, full = Path("/dev/null"), Path("/dev/full")  # an ordinary user could not replace them
    write_output(null, DATA)
    with pytest.raises(HostError, match="full: cannot be written: No space left on device"):
        write_output(full, DATA)
    assert [stat.S_ISCHR(path.stat().st_mode) for path in (null, full)] == [True, True]


def test_the_command_line_leaves_a_device_too(tmp_path: Path):
    null = tmp_path / "null"
    try:
        os.mknod(null, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        null = Path("/dev/null")
    argv = [sys.executable, "-m", "powercut.cli.main", "list", "presets", "--json"]
    subprocess.run([*argv, null], stdout=subprocess.DEVNULL, check=True, timeout=60)
    assert null.is_char_device()
    done = subprocess.run([*argv, tmp_path], capture_output=True, text=True, check=False)
    assert (done.returncode, "is a directory" in done.stderr) == (2, True)


def test_a_device_behind_a_link_stays_one(tmp_path: Path):
    link = tmp_path / "link"
    link.symlink_to("/dev/null")
    write_output(link, DATA)
    assert link.is_symlink()
    assert Path("/dev/null").is_char_device()


def test_a_pipe_is_written_to(tmp_path: Path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(fifo.read_bytes()))
    reader.start()
    write_output(fifo, DATA)
    reader.join(10)
    assert got == [DATA]
    assert fifo.is_fifo()


def test_a_descriptor_of_ours_is_written_to_where_it_stands(tmp_path: Path):
    """A shell's `>>` together with /dev/stdout: what was in the file stays there."""
    log = tmp_path / "log"
    log.write_bytes(b"before\n")
    script = (
        "from pathlib import Path; from powercut.store.files import write_output; "
        "write_output(Path('/dev/stdout'), b'{}\\n')"
    )
    with log.open("ab") as out:
        subprocess.run([sys.executable, "-c", script], stdout=out, check=True, timeout=60)
    assert log.read_bytes() == b"before\n" + DATA
    done = subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, check=True, timeout=60
    )
    assert done.stdout == DATA


def test_a_link_leads_to_the_file_that_is_replaced(tmp_path: Path):
    (tmp_path / "there").mkdir()
    target, link, dangling = tmp_path / "there" / "file", tmp_path / "link", tmp_path / "dangling"
    target.write_bytes(b"old")
    link.symlink_to("there/file")
    dangling.symlink_to("there/new")
    inode = target.stat().st_ino
    write_output(link, DATA)
    write_output(dangling, DATA)
    assert (link.is_symlink(), dangling.is_symlink()) == (True, True)
    assert (target.read_bytes(), (tmp_path / "there/new").read_bytes()) == (DATA, DATA)
    assert target.stat().st_ino != inode
    assert sorted(path.name for path in (tmp_path / "there").iterdir()) == ["file", "new"]


def test_what_is_no_file_is_refused(tmp_path: Path):
    circle = tmp_path / "circle"
    circle.symlink_to("circle")
    with pytest.raises(UsageError, match="is a folder"):
        write_output(tmp_path, DATA)
    with pytest.raises(HostError, match="circle: cannot be written: Too many levels"):
        write_output(circle, DATA)
    with pytest.raises(HostError, match="none/file: cannot be written: No such file"):
        write_output(tmp_path / "none" / "file", DATA)


def test_a_half_written_file_leaves_the_old_one(tmp_path: Path):
    target = tmp_path / "file"
    target.write_bytes(b"old")
    with pytest.raises(TypeError):
        write_output(target, None)  # type: ignore[arg-type]
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_link_laid_at_the_temporary_name_leads_nowhere(tmp_path: Path):
    """In a folder that others may write to: the name was foreseeable, and its link followed."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    (tmp_path / f".file.{os.getpid()}.tmp").symlink_to(victim)
    write_output(tmp_path / "file", DATA)
    assert victim.read_bytes() == b"mine"
