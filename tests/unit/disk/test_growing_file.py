# SPDX-License-Identifier: Apache-2.0
"""A file that grows on a captured disk: what its requests become, and what a cut may leave."""

from __future__ import annotations

import errno
import itertools
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from powercut.crash.states import CrashState, StateSpace
from powercut.disk.capture import CaptureDisk
from powercut.disk.capture_config import CaptureConfig
from powercut.disk.growing_file import TABLE, cut_to_size, disk_size, put_on_disk, size_on_disk
from powercut.disk.pclog import read_timeline
from powercut.explore.state_images import StateImages
from powercut.machine.fuse import NbdFuse
from powercut.model.contract import CutPolicy, DeviceContract
from powercut.model.errors import DamagedRecording
from powercut.model.timeline import RequestKind
from powercut.rig.image_open import write_image

BLOCK = 4096
A, B, C = (letter * BLOCK for letter in (b"a", b"b", b"c"))
TIMEOUT_S = 60


@pytest.fixture
def short_tmp() -> Iterator[Path]:
    """Short enough for the path of a socket."""
    with tempfile.TemporaryDirectory(prefix="pcgrow-") as name:
        yield Path(name)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    image = tmp_path / "base.img"
    image.write_bytes(A)
    put_on_disk(image, BLOCK)
    return image


def sector(size: int, inverse: int | None = None) -> bytes:
    other = size ^ ((1 << 64) - 1) if inverse is None else inverse
    return b"PCUTSIZE" + size.to_bytes(8, "little") + other.to_bytes(8, "little")


def put_sector(image: Path, number: int, data: bytes) -> None:
    with image.open("r+b") as file:
        file.seek(disk_size(BLOCK, BLOCK) - TABLE + 512 * number)
        file.write(data)


def test_the_largest_size_counts_wherever_it_stands(base: Path) -> None:
    assert size_on_disk(base) == BLOCK
    put_sector(base, 7, sector(5 * BLOCK))
    put_sector(base, 9, sector(3 * BLOCK))
    assert size_on_disk(base) == 5 * BLOCK


@pytest.mark.parametrize(
    "torn",
    [sector(9 * BLOCK, 0), sector(9 * BLOCK)[:16], sector(9 * BLOCK)[:7], b"\xff" * 512],
    ids=["inverse", "without inverse", "part of the magic", "others"],
)
def test_a_torn_change_of_size_is_none(base: Path, torn: bytes) -> None:
    put_sector(base, 1, torn)
    assert size_on_disk(base) == BLOCK


def test_a_disk_without_a_file_is_refused(tmp_path: Path, base: Path) -> None:
    for name, data in (("empty", b""), ("short", bytes(TABLE)), ("zeroes", bytes(TABLE + 512))):
        image = tmp_path / name
        image.write_bytes(data)
        with pytest.raises(DamagedRecording, match="no file that grows"):
            size_on_disk(image)
    put_sector(base, 3, sector(disk_size(BLOCK, BLOCK)))
    with pytest.raises(DamagedRecording, match="no file that grows"):
        cut_to_size(base)


@contextmanager
def captured(base: Path, folder: Path) -> Iterator[CaptureDisk]:
    contract = DeviceContract(atomic_unit=4096)
    with CaptureDisk(CaptureConfig(base, folder / "disk", contract, sockets=folder)) as disk:
        yield disk


@contextmanager
def opened(disk: CaptureDisk, folder: Path) -> Iterator[int]:
    folder.mkdir()
    file = NbdFuse(disk.socket, folder, timeout_s=TIMEOUT_S, grows=True)
    try:
        fd = os.open(file.path, os.O_RDWR)
        try:
            yield fd
        finally:
            os.close(fd)
    finally:
        file.kill()


def left(disk: CaptureDisk, folder: Path) -> bytes:
    image = folder / "left.img"
    image.unlink(missing_ok=True)
    disk.snapshot(image)
    cut_to_size(image)
    return image.read_bytes()


@pytest.mark.fuse
def test_every_state_of_an_append_that_was_not_synced(short_tmp: Path, base: Path) -> None:
    """Four states: the bytes are there or not, and the size is, each for itself."""
    with captured(base, short_tmp) as disk:
        with opened(disk, short_tmp / "a") as fd:
            os.pwrite(fd, B, BLOCK)
            os.fdatasync(fd)
            os.pwrite(fd, C, 2 * BLOCK)
            assert os.fstat(fd).st_size == 3 * BLOCK
        disk.cut(CutPolicy.DROP, 1, None, timeout_s=TIMEOUT_S)
        assert left(disk, short_tmp) == A + B
    timeline = read_timeline(short_tmp / "disk", verify_payloads=True)
    W, F = int(RequestKind.WRITE), int(RequestKind.FLUSH)
    assert timeline.requests.kind.tolist() == [W, W, F, W, W]
    space = StateSpace(timeline)
    assert timeline.cut is not None
    cut = int(timeline.cut.at)
    volatile = space.volatile(cut).tolist()
    assert len(volatile) == 2
    found = []
    for count in range(3):
        for kept in itertools.combinations(volatile, count):
            image = short_tmp / "state.img"
            image.unlink(missing_ok=True)
            write_image(base, StateImages(space).writes(CrashState(cut, kept)), image)
            cut_to_size(image)
            found.append(image.read_bytes())
    assert found == [A + B, A + B, A + B + bytes(BLOCK), A + B + C]


@pytest.mark.fuse
def test_the_file_is_like_any_other(short_tmp: Path, base: Path) -> None:
    """The same calls on a file of this host give the same bytes."""
    twin = short_tmp / "twin"
    twin.write_bytes(A)
    both: list[bytes] = []
    with captured(base, short_tmp) as disk, opened(disk, short_tmp / "a") as ours:
        theirs = os.open(twin, os.O_RDWR)
        for fd in (ours, theirs):
            os.pwrite(fd, b"in one sector", 100)
            os.pwrite(fd, b"x" * 1000, 300)  # over two borders
            os.pwrite(fd, b"far", 3 * BLOCK + 5)
            os.ftruncate(fd, 5 * BLOCK + 1)
            os.pwrite(fd, B, 5 * BLOCK)
            os.posix_fallocate(fd, 6 * BLOCK, 700)
            os.fsync(fd)
            both.append(os.pread(fd, 100 * BLOCK, 0))
        os.close(theirs)
        with pytest.raises(OSError, match=os.strerror(errno.EOPNOTSUPP)):
            os.ftruncate(ours, BLOCK)
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            os.pwrite(ours, A, disk_size(BLOCK, BLOCK) - TABLE)
        assert left(disk, short_tmp) == both[0]
    assert len(both[0]) == 6 * BLOCK + 700
    assert both[0] == both[1] == twin.read_bytes()


@pytest.mark.fuse
def test_bytes_that_lost_their_size_do_not_come_back(short_tmp: Path, base: Path) -> None:
    """The write survives, its change of size does not; after the cut another makes it longer."""
    with captured(base, short_tmp) as disk:
        with opened(disk, short_tmp / "a") as fd:
            os.pwrite(fd, B, BLOCK)
            os.fsync(fd)
            os.pwrite(fd, C, 2 * BLOCK)
        disk.cut(CutPolicy.KEEP, 1, None, timeout_s=TIMEOUT_S)
        lost = short_tmp / "lost.img"
        disk.snapshot(lost)
    put_sector(lost, 2, bytes(512))
    (again := short_tmp / "2").mkdir()
    with captured(lost, again) as disk, opened(disk, again / "a") as fd:
        assert os.fstat(fd).st_size == 2 * BLOCK
        os.ftruncate(fd, 4 * BLOCK)
        assert os.pread(fd, 4 * BLOCK, 0) == A + B + bytes(2 * BLOCK)
