# SPDX-License-Identifier: Apache-2.0
"""Archives that are small and mean much: refused within a second, or read in time."""

from __future__ import annotations

import gzip
import io
import os
import re
import resource
import socket
import struct
import subprocess
import sys
import tarfile
import time
import tracemalloc
from pathlib import Path

import pytest
from hostile import bounded

from powercut.model.errors import HostError
from powercut.paths import ROOT
from powercut.sandbox import archive, archive_inside, confined
from powercut.sandbox.archive import Archive, ArchiveLimits, open_archive
from powercut.sandbox.archive_inside import open_tar
from powercut.sandbox.confined import Sandboxes, sandboxes
from powercut.sandbox.landlock import abi_version

BOMBS = ROOT / "tests" / "support" / "bombs.py"
LIMITS = ArchiveLimits(members=10_000, size=1 << 20)


def header(name: str, size: int = 0, kind: bytes = b"0", **fields: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    for field, value in fields.items():
        setattr(info, field, value)
    return info.tobuf(tarfile.GNU_FORMAT)


def pax(**records: str) -> bytes:
    """A pax header with these records (POSIX.1-2017, pax)."""
    body = b""
    for key, value in records.items():
        rest = f" {key.replace('_', '.')}={value}\n".encode()
        length = len(rest) + len(str(len(rest) + 2))
        body += f"{length}".encode() + rest
    return header("x", len(body), tarfile.XHDTYPE) + body + bytes(-len(body) % 512)


def members(data: bytes, limits: ArchiveLimits = LIMITS, *, stream: bool = False) -> list[str]:
    with bounded(), open_tar(io.BytesIO(data), limits, stream=stream) as tar:
        return [member.name for member in tar]


class Endless(io.RawIOBase):
    """A stream without end."""

    def __init__(self, first: bytes, then: bytes) -> None:
        super().__init__()
        self._first, self._then = first, then

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        data = (self._first + self._then * (len(buffer) // max(len(self._then), 1) + 1))[
            : len(buffer)
        ]
        self._first = self._first[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)


END = bytes(1024)
REFUSED = {
    "a pax header of 3 GiB": (header("x", 3 << 30, tarfile.XHDTYPE), "a header of 3221225472"),
    "a long name of 3 GiB": (header("x", 3 << 30, tarfile.GNUTYPE_LONGNAME), "a header of"),
    "global headers without end": (pax(a="b").replace(b"x", b"g", 1) * 9 + END, None),
    "headers about headers": (pax(a="b") * 2000 + header("x") + END, "headers for one member"),
    "an old sparse file": (header("x", 512, tarfile.GNUTYPE_SPARSE) + END, "a sparse file"),
    "a sparse file of 0.1": (pax(GNU_sparse_map="0,1") + header("x") + END, "a sparse file"),
    "a sparse file of 1.0": (
        pax(GNU_sparse_major="1", GNU_sparse_minor="0") + header("x", 512) + END,
        "a sparse file",
    ),
    "a size below zero": (header("x", -512) + END, "a member of -512 bytes"),
    "a size below zero by pax": (pax(size="-1024") + header("x") + END, "bytes in its members"),
    "a size beyond all disks": (header("x", 1 << 60), "bytes in its members"),
    "a time without end": (pax(mtime="inf") + header("x") + END, "was changed at inf"),
    "a time that is none": (pax(mtime="nan") + header("x") + END, "was changed at nan"),
    "an owner below zero": (header("x", uid=-2) + END, "belongs to -2:0"),
    "folders within folders": (pax(path="a/" * 1500) + header("x") + END, "folders within folders"),
    "a link of 60 kB": (pax(linkpath="a" * 60_000) + header("x", 0, b"2") + END, "is no name"),
    "too many members": (header("x") * 10_001 + END, "more than 10,000 members"),
    "too many bytes": (header("x", 1 << 19) * 3, None),
}


@pytest.mark.parametrize("stream", [False, True], ids=["seekable", "stream"])
@pytest.mark.parametrize("name", REFUSED)
def test_small_and_endless_archives_are_refused(name: str, stream: bool):
    data, says = REFUSED[name]
    with pytest.raises(tarfile.ReadError, match=says):
        members(data, stream=stream)


def test_a_stream_of_headers_that_never_ends_is_refused():
    endless = Endless(b"", header("x"))
    with bounded(), pytest.raises(tarfile.ReadError, match="more than 10,000 members"):  # noqa: SIM117
        with open_tar(endless, LIMITS, stream=True) as tar:  # type: ignore[arg-type]
            list(tar)


def test_headers_that_cost_too_much_time_are_refused():
    with pytest.raises(tarfile.ReadError, match="its headers take more than"):
        members(header("x") * 9000 + END, ArchiveLimits(10_000, 1 << 20, header_s=0.01))


def test_what_members_are_called_takes_bounded_memory():
    """Records that no reader wants are not kept: 9,000 of 60 kB."""
    one = pax(comment="a" * 60_000) + header("x")
    tracemalloc.start()
    try:
        assert len(members(one * 300 + END)) == 300
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("level", [1, 9])
def test_a_compressed_bomb_is_refused(tmp_path: Path, level: int):
    path = tmp_path / "bomb.tar.gz"
    with gzip.open(path, "wb", compresslevel=level) as file:
        file.write(header("x", 1 << 40))
        for _ in range(96):
            file.write(bytes(1 << 20))
    with (
        bounded(),
        pytest.raises(tarfile.ReadError, match="more than 1,048,576 bytes"),
        open_archive(path, LIMITS, tmp_path) as tar,
    ):
        list(tar)
    assert [one.name for one in tmp_path.iterdir()] == ["bomb.tar.gz"]


def test_damage_behind_the_last_member_is_damage(tmp_path: Path):
    """The checksum of a compressed file comes last."""
    packed = bytearray(gzip.compress(header("x") + END + bytes(1 << 21)))
    packed[-5] ^= 1
    path = tmp_path / "x.tar.gz"
    path.write_bytes(packed)
    with (
        pytest.raises(
            tarfile.ReadError, match=r"its compression is damaged: (CRC|Incorrect length)"
        ),
        open_archive(path, ArchiveLimits(10, 4 << 20), tmp_path),
    ):
        pass


def test_members_of_a_compressed_archive_are_read_in_any_order_in_one_pass(tmp_path: Path):
    """tarfile begins anew for each that lies before: 400 of 64 KiB took 26 MB times 200."""
    path = tmp_path / "some.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for number in range(400):
            info = tarfile.TarInfo(f"{400 - number:03}")
            info.size = 1 << 16
            tar.addfile(info, io.BytesIO(struct.pack("<I", number) * (1 << 14)))
    begin = time.process_time()
    with open_archive(path, ArchiveLimits(1000, 1 << 30), tmp_path) as archive:
        for info in sorted(archive, key=lambda one: one.name):
            file = archive.open(info)
            assert file is not None
            assert file.read(4) == struct.pack("<I", 400 - int(info.name))
    assert time.process_time() - begin < 5


@pytest.mark.parametrize(
    ("bomb", "says"),
    [
        ("nested", "refused: .*more than 256 folders within folders"),
        ("nested_much", "read: 1758"),
        ("whiteouts", "read: 9"),
        ("pax_header", "refused: .*a header of 3221225472 bytes"),
        ("members", "refused: more than 40,000 members"),
        ("sparse", "refused: .*a sparse file"),
        ("endless_line", "read: "),
    ],
)
def test_what_a_bomb_costs_is_bounded(tmp_path: Path, bomb: str, says: str):
    """Measured in the process that reads it: processor seconds, and memory beyond its start's."""
    done = subprocess.run(
        [sys.executable, str(BOMBS), bomb, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (60, 60)),
    )
    seconds, megabytes, said = done.stdout.split(maxsplit=2)
    assert re.match(says, said), said
    assert float(seconds) < 20  # of old processors: 3 at most on one of 2020
    assert int(megabytes) < 256


def test_an_ordinary_archive_is_read(tmp_path: Path):
    path = tmp_path / "plain.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for name in ("a" * 150 + "/ö", "b"):
            info = tarfile.TarInfo(name)
            info.size, info.mtime = 3, 12.5
            tar.addfile(info, io.BytesIO(b"abc"))
        link = tarfile.TarInfo("l")
        link.type, link.linkname = tarfile.SYMTYPE, "x" * 200
        tar.addfile(link)
    with open_archive(path, LIMITS, tmp_path) as archive:
        found = {info.name: archive.open(info) for info in archive}
        assert {name: file.read() if file else None for name, file in found.items()} == {
            "a" * 150 + "/ö": b"abc",
            "b": b"abc",
            "l": None,
        }


TAKEN_OVER = """
import os, pathlib, socket, sys
archive, plain, index = sys.argv[1:4]

def fork():
    if os.fork() == 0:
        os.execv("/bin/sh", ["sh", "-c", "echo gone > {folder}/victim"])
    os.wait()

def connect():
    socket.create_connection(("127.0.0.1", {port}), 5)

tries = {{
    "write": lambda: pathlib.Path("{folder}/victim").write_text("gone"),
    "make": lambda: pathlib.Path("{folder}/new").write_text("new"),
    "archive": lambda: pathlib.Path(archive).write_text("gone"),
    "read": lambda: pathlib.Path("{folder}/victim").read_text(),
    "program": lambda: pathlib.Path(sys.argv[0]).write_text("gone"),
    "fork": fork,
    "connect": connect,
    "unix": lambda: socket.socket(socket.AF_UNIX).connect("{folder}/socket"),
    "kill": lambda: os.kill({parent}, 0),
    "grow": lambda: bytearray(2 << 30),
}}
done = []
for name, one in tries.items():
    try:
        one()
        done.append(name)
    except (OSError, MemoryError):
        pass
with open(index, "w") as file:
    file.write({row!r})
print(*done, file=open(plain, "w"))
"""


def taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: str = "", port: int = 1
) -> Path:
    """A compressed archive without members, whose reader does what it likes and says `row`."""
    planted, packed = tmp_path / "reader.py", tmp_path / "x.tar.gz"
    words = {"folder": tmp_path, "row": row, "port": port, "parent": os.getpid()}
    planted.write_text(TAKEN_OVER.format(**words))
    packed.write_bytes(gzip.compress(END))
    monkeypatch.setattr(archive_inside, "__file__", str(planted))
    return packed


@pytest.mark.parametrize("kind", ["bubblewrap", "landlock"])
def test_a_reader_that_is_taken_over_reaches_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
):
    """In each sandbox by itself; on a host that has one only, in that one."""
    works = sandboxes()
    only = {one: "" if one == kind else "not asked" for one in ("bubblewrap", "landlock")}
    if not getattr(works, kind):
        monkeypatch.setattr(confined, "sandboxes", lambda: Sandboxes(**only))
    (tmp_path / "victim").write_text("precious")
    row = '["x", "file", 420, 0, 0, 3, 0, "", 0]'
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
        local.bind(str(tmp_path / "socket"))
        local.listen()
        packed = taken_over(tmp_path, monkeypatch, row, server.getsockname()[1])
        before = {path.name: path.read_bytes() for path in tmp_path.glob("[!s]*")}
        with open_archive(packed, LIMITS, tmp_path) as tar:
            assert [member.name for member in tar] == ["x"]
            reached = set(tar._data.read().decode().split())
    assert {path.name: path.read_bytes() for path in tmp_path.glob("[!s]*")} == before
    # What a child does is as confined; bubblewrap's /tmp is empty, and gone with the reader.
    beyond = {"fork", "write", "make"}
    if confined.sandboxes().bubblewrap:  # docs/security.md: what which version of it forbids
        forbids = abi_version()
        beyond = {"fork", "unix", *["connect"] * (forbids < 4), *["kill"] * (forbids < 6)}
    assert reached <= beyond


LIES = {
    "no row": "nothing",
    "brackets": "[" * 60_000,
    "no end": '"' + "a" * 200_000,
    "another kind": '["x", "device", 420, 0, 0, 3, 0, "", 0]',
    "no number": '["x", "file", 420, 0, 0, "3", 0, "", 0]',
    "a truth": '["x", "file", 420, 0, 0, true, 0, "", 0]',
    "a mode": '["x", "file", 1000000, 0, 0, 3, 0, "", 0]',
    "below zero": '["x", "file", 420, 0, 0, -3, 0, "", 0]',
    "before the file": '["x", "file", 420, 0, 0, 3, 0, "", -1]',
    "beyond the file": '["x", "file", 420, 0, 0, 3, 0, "", 1022]',
    "too large": '["x", "file", 420, 0, 0, 1048577, 0, "", 0]',
    "too deep": f'["{"a/" * 300}", "file", 420, 0, 0, 3, 0, "", 0]',
    "no owner": '["x", "file", 420, -1, 0, 3, 0, "", 0]',
    "never": '["x", "file", 420, 0, 0, 3, Infinity, "", 0]',
}


@pytest.mark.parametrize("lie", LIES)
def test_nothing_that_a_reader_says_is_believed(lie: str):
    index = io.BytesIO(LIES[lie].encode() + b"\n")
    with bounded(), pytest.raises(tarfile.ReadError):
        list(Archive(index, io.BytesIO(END), LIMITS))


def test_an_index_of_too_many_members_is_refused():
    index = io.BytesIO(b'["x", "folder", 493, 0, 0, 0, 0, "", 0]\n' * 10_001)
    with bounded(), pytest.raises(tarfile.ReadError, match="more than 10,000 members"):
        list(Archive(index, io.BytesIO(END), LIMITS))


def test_without_a_sandbox_only_what_apt_has_checked_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(confined, "sandboxes", lambda: Sandboxes("not installed", "not known"))
    path = tmp_path / "x.tar.gz"
    path.write_bytes(gzip.compress(header("x") + END))
    with pytest.raises(HostError, match=r"x.tar.gz: there is no sandbox to read an archive in"):  # noqa: SIM117
        with open_archive(path, LIMITS, tmp_path):
            pass
    with open_archive(path, LIMITS, tmp_path, from_outside=False) as tar:
        assert [member.name for member in tar] == ["x"]


@pytest.mark.parametrize(
    ("script", "error", "says"),
    [
        ("while True: pass", tarfile.ReadError, "more than 2 s of processor time"),
        ("import os; os.abort()", tarfile.ReadError, "was ended by signal 6"),
        ("while True: print('x' * 65536)", HostError, "printed more than"),
        ("raise SystemExit(7)", HostError, "x.tar: the reader of archives ended with status 7"),
        (
            "import sys; open(sys.argv[2], 'wb').truncate(1 << 50)",
            HostError,
            "ended with status 1: .*File too large",
        ),
    ],
)
def test_a_reader_that_does_not_end_in_order_is_told_of(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    error: type[Exception],
    says: str,
):
    (tmp_path / "reader.py").write_text(script)
    (tmp_path / "x.tar").write_bytes(END)
    monkeypatch.setattr(archive_inside, "__file__", str(tmp_path / "reader.py"))
    monkeypatch.setattr(archive, "_START_S", 2)
    monkeypatch.setattr(archive, "_WAIT", 200)  # on a busy host, too
    limits = ArchiveLimits(10, 1 << 20, header_s=0)
    with pytest.raises(error, match=says), open_archive(tmp_path / "x.tar", limits, tmp_path):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["reader.py", "x.tar"]
