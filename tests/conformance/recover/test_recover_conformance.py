# SPDX-License-Identifier: Apache-2.0
"""One suite over recovery engines, a fake among them, on a bare disk and on a file system.

What every engine owes: the states that it is given and nothing of those before, a base that stays
as it is, and nothing left running.  User-Mode Linux is there to mount, so it has a file system; the
raw engine has none.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from powercut.closing import ResourceOwner
from powercut.model.errors import HostError
from powercut.model.observation import Extent, Observation
from powercut.recover.order import EngineOrder
from powercut.recover.port import ImageWrite, RecoveryEngine
from powercut.recover.uml.boot import unavailable
from powercut.rig import commands
from powercut.rig.engines import ENGINES, EngineRow, open_engine
from powercut.rig.image_open import changed_parts
from powercut.scenario.settings import DiskSettings, FilesystemSettings, Parameters, WalSettings
from powercut.wal.layout import SlotState, WalLayout
from powercut.wal.record import record_bytes
from powercut.workload.wal.commands import wal_layout

RECORD = 512
RUN_ID = bytes(range(16))
START_S = 120.0
STATE_S = 120.0
PARAMETERS = Parameters(
    disk=DiskSettings(size=4 << 20),
    filesystem=FilesystemSettings(type="raw"),
    workload=WalSettings(layout="raw", record=RECORD, align=0, capacity=1 << 20),
)
LAYOUT = wal_layout(PARAMETERS)


IN_FILE = Parameters(
    disk=DiskSettings(size=16 << 20),
    filesystem=FilesystemSettings(type="ext4"),
    workload=WalSettings(layout="append", record=RECORD, align=0),
)
UUID = "00112233-4455-6677-8899-aabbccddeeff"
MKFS = ("-q", "-F", "-U", UUID, "-E", f"hash_seed={UUID}")


def record(lsn: int, layout: WalLayout = LAYOUT) -> bytes:
    generation = int(layout.generations_of(np.array([lsn], dtype=np.uint64))[0])
    return record_bytes(
        RUN_ID, 0, lsn, prev_lsn=lsn - 1, generation=generation,
        position=layout.position_of(lsn), record_size=RECORD,
    )  # fmt: skip


class OnDisk:
    """Records on the bare disk."""

    parameters = PARAMETERS

    def __init__(self, folder: Path) -> None:
        self.base = folder / "base.img"
        with self.base.open("wb") as file:
            file.truncate(PARAMETERS.disk.size)

    def up_to(self, last: int) -> list[ImageWrite]:
        return [
            ImageWrite(LAYOUT.position_of(lsn), RECORD, np.frombuffer(record(lsn), dtype=np.uint8))
            for lsn in range(1, last + 1)
        ]

    def place_of(self, lsn: int) -> int:
        return LAYOUT.position_of(lsn)


class InFile:
    """Records in a file of an ext4 that mkfs has filled."""

    parameters = IN_FILE

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.base = self._made(0)

    def _made(self, last: int) -> Path:
        image, files = self._folder / f"{last}.img", self._folder / f"files-{last}"
        if not image.exists():
            files.mkdir()
            layout = wal_layout(IN_FILE)
            log = b"".join(record(lsn, layout) for lsn in range(1, last + 1))
            (files / "log").write_bytes(log)
            with image.open("wb") as file:
                file.truncate(IN_FILE.disk.size)
            tool = shutil.which("mkfs.ext4", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
            if tool is None:
                pytest.skip("mkfs.ext4 is not installed")
            argv = [tool, *MKFS, "-d", str(files), str(image)]
            subprocess.run(argv, check=True, capture_output=True, timeout=60)
        return image

    def up_to(self, last: int) -> list[ImageWrite]:
        return list(changed_parts(self.base, self._made(last)))

    def place_of(self, lsn: int) -> int:
        found = self._made(2).read_bytes().find(record(lsn, wal_layout(IN_FILE)))
        assert found > 0
        return found


class FakeEngine(ResourceOwner):
    """Knows the records that it may meet, and compares."""

    boots = 0

    def __init__(self, base: Path) -> None:
        super().__init__()
        self.base = base
        self._up = False

    @classmethod
    def of(cls, order: EngineOrder) -> RecoveryEngine:
        return cls(order.base)

    def _open(self, stack) -> None:
        stack.callback(setattr, self, "_up", False)

    def start(self, *, timeout_s: float) -> None:
        self._up = True

    def recover(self, laid: list[ImageWrite], *, timeout_s: float) -> Observation:
        if not self._up:
            raise HostError("the fake engine has not been started")
        image = bytearray(self.base.read_bytes())
        for write in laid:
            data = bytes(write.length) if write.data is None else write.data.tobytes()
            image[write.offset : write.offset + write.length] = data
        found = [
            Extent(LAYOUT.slot_of(lsn), 1, SlotState.INTACT, lsn)
            for lsn in range(1, 10)
            if image[LAYOUT.position_of(lsn) :].startswith(record(lsn))
        ]
        return Observation(tuple(found))


NO_UML = pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable()))
ENGINES_AND_DISKS = [
    pytest.param(("fake", OnDisk), id="fake"),
    pytest.param(("raw", OnDisk), id="raw"),
    pytest.param(("guest", OnDisk), id="guest", marks=pytest.mark.vm),
    pytest.param(("uml", InFile), id="uml", marks=NO_UML),
]


@pytest.fixture(scope="module", params=ENGINES_AND_DISKS)
def opened(request, tmp_path_factory):
    """An engine that has been started, opened by its row of the table, and its disk."""
    name, kind = request.param
    disk = kind(tmp_path_factory.mktemp(name))
    disk.base.chmod(0o444)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ENGINES, "fake", EngineRow(f"{__name__}:FakeEngine"))
        plan = commands.recovery_plan(disk.parameters, RUN_ID)
        with open_engine(name, EngineOrder(disk.base, plan, disk.parameters)) as engine:
            engine.start(timeout_s=START_S)
            yield engine, disk


def back(engine: RecoveryEngine, laid: list[ImageWrite]) -> list[int]:
    seen = engine.recover(laid, timeout_s=STATE_S)
    assert (seen.recovered, seen.complete, seen.failure) == (True, True, "")
    whole = [extent for extent in seen.extents if extent.state is SlotState.INTACT]
    return [extent.lsn + n for extent in whole for n in range(extent.count)]


def test_each_state_comes_back_as_it_is_and_nothing_of_the_one_before(opened):
    engine, disk = opened
    before = hashlib.sha256(disk.base.read_bytes()).hexdigest()
    assert back(engine, disk.up_to(3)) == [1, 2, 3]
    assert back(engine, disk.up_to(1)) == [1], "what the state before held is gone"
    zeroes = ImageWrite(disk.place_of(1), RECORD, None)
    assert back(engine, [*disk.up_to(2), zeroes]) == [2], "writes are laid over in their order"
    assert back(engine, []) == []
    assert engine.base == disk.base
    assert hashlib.sha256(disk.base.read_bytes()).hexdigest() == before
    assert engine.boots >= 0


@pytest.mark.parametrize("name", ["fake", "raw"])
def test_an_engine_that_was_not_started_or_has_ended_refuses(name, tmp_path, monkeypatch):
    monkeypatch.setitem(ENGINES, "fake", EngineRow(f"{__name__}:FakeEngine"))
    disk = OnDisk(tmp_path)
    plan = commands.recovery_plan(PARAMETERS, RUN_ID)
    engine = open_engine(name, EngineOrder(disk.base, plan, PARAMETERS))
    with pytest.raises(HostError, match="not been"):
        engine.recover([], timeout_s=STATE_S)
    with engine:
        engine.start(timeout_s=START_S)
        assert back(engine, disk.up_to(1)) == [1]
    with pytest.raises(HostError, match="not been"):
        engine.recover([], timeout_s=STATE_S)
