# SPDX-License-Identifier: Apache-2.0
"""Files as arrays: what they hold, and that a hole costs nothing where there is no room."""

from __future__ import annotations

import errno
import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sparse_file import sparse

from powercut import mapped as module
from powercut.mapped import mapped, stretches
from powercut.model.extras import registered

MIB = 1 << 20
HOLE = 8 * MIB
ROOM = MIB

FULL = 'mount -t tmpfs -o "size=$1" none "$2" && shift && cd "$1" && shift && exec "$@"'
"""In a mount namespace, which goes with the last process in it."""

READ = """
import os, sys
from pathlib import Path
import numpy as np
path = Path("file")
with path.open("wb") as file:
    file.write(bytes([1]) * 4096)
    file.truncate(int(sys.argv[1]))
other = Path("other")
os.link(path, other)
with open("ballast", "wb", buffering=0) as file:
    try:
        while True:
            file.write(bytes(4096))
    except OSError as error:
        print(error.strerror, flush=True)
exec(sys.argv[2])
print("read")
"""

READERS = {
    "np.memmap": "np.memmap(path, dtype=np.uint8, mode='r').sum()",  # the host is such a one
    "pclog": "from powercut.disk.pclog_format import map_file; map_file(path).sum()",
    "packed": "from powercut.store.packed import evidence_bytes; evidence_bytes(path).sum()",
    "origin": "from powercut.recover.uml.origin import Origin; o = Origin(path)\n"
    "o._image.sum(); o._base.sum(); o._image[9] = 1",
    "difference": "from powercut.rig.image_open import changed_parts\nchanged_parts(path, other)",
}
if "import.json" in registered("powercut.recordings"):
    READERS["logwrites"] = "from powercut_extras.logs.read import _map; _map(path).sum()"


WRITTEN = [
    {},
    {0: b"first"},
    {HOLE - 3: b"end"},
    {MIB + 5: b"middle", 3 * MIB: bytes(range(256)) * 64, HOLE: b"beyond"},
    dict.fromkeys(range(0, HOLE, 64 << 10), b"many"),
]


@pytest.mark.parametrize("most", [0, 2, 4096])
@pytest.mark.parametrize("written", WRITTEN)
def test_it_is_what_the_file_holds(written, most, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_PIECES_MAX", most)
    path = sparse(tmp_path / "file", written, HOLE)
    content = mapped(path)
    assert content.tobytes() == path.read_bytes()
    assert not content.flags.writeable


def test_what_is_changed_in_it_is_not_changed_in_the_file(tmp_path):
    path = sparse(tmp_path / "file", {0: b"data"}, HOLE)
    content = mapped(path, writable=True)
    content[[0, MIB]] = 7
    assert content.sum() == sum(b"ata") + 14
    assert path.read_bytes() == b"data" + bytes(HOLE - 4)


def test_a_file_without_a_byte_and_one_that_is_not_there(tmp_path):
    assert len(mapped(sparse(tmp_path / "file", {}, 0))) == 0
    with pytest.raises(FileNotFoundError):
        mapped(tmp_path / "none")


def test_a_device_has_no_holes(tmp_path, monkeypatch):
    path = sparse(tmp_path / "file", {MIB: b"data"}, HOLE)

    def lseek(fd: int, at: int, how: int) -> int:
        raise OSError(errno.EINVAL, "")

    with path.open("rb") as file:
        assert list(stretches(file.fileno(), HOLE)) == [(MIB, MIB + mmap.PAGESIZE)]
        monkeypatch.setattr(os, "lseek", lseek)
        assert list(stretches(file.fileno(), HOLE)) == [(0, HOLE)]


def test_its_memory_is_given_back(tmp_path):
    path = sparse(tmp_path / "file", {MIB: b"data"}, HOLE)
    for _ in range(3):
        content = mapped(path)
        part = content[MIB : MIB + 4]
        del content
        assert part.tobytes() == b"data"
        assert str(path) in Path("/proc/self/maps").read_text()
        del part
        assert str(path) not in Path("/proc/self/maps").read_text()


@pytest.mark.namespaces
@pytest.mark.parametrize("reader", READERS)
def test_a_hole_on_a_full_disk_is_read(reader, tmp_path):
    alone = ["unshare", "--mount", *(["--map-root-user"] if os.geteuid() else [])]
    shell = [*alone, "sh", "-c", FULL, "sh", str(ROOM), str(tmp_path)]
    argv = [*shell, sys.executable, "-c", READ, str(HOLE), READERS[reader]]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    said = done.stdout.splitlines()
    if reader == "np.memmap":
        assert (done.returncode, said) == (-7, [os.strerror(errno.ENOSPC)])
    else:
        assert (done.returncode, said) == (0, [os.strerror(errno.ENOSPC), "read"]), done.stderr


def test_a_file_that_is_truncated_while_it_is_read_ends_the_command_with_a_word(tmp_path):
    path = sparse(tmp_path / "file", {0: bytes([1]) * MIB}, MIB)
    script = "import faulthandler, os, sys\nfrom pathlib import Path\n"
    script += "import powercut.cli.process as process\nfrom powercut.cli.main import main\n"
    script += "from powercut.mapped import mapped\n"
    script += "content = mapped(Path(sys.argv[1])); os.truncate(sys.argv[1], 0)\n"
    script += "process.run = lambda *_: content.sum()\nmain()\n"
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == -7
    assert "Bus error" in done.stderr
