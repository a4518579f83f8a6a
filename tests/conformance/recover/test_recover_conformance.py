# SPDX-License-Identifier: Apache-2.0
"""One suite over recovery engines that read a log on the device itself, a fake among them.

What every engine owes: the states that it is given and nothing of those before, a base that stays
as it is, and nothing left running.  User-Mode Linux, which mounts file systems, owes the same:
test_uml_engine.py asks for it there.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from powercut.closing import ResourceOwner
from powercut.model.errors import HostError
from powercut.model.observation import Extent, Observation
from powercut.recover.order import EngineOrder
from powercut.recover.port import ImageWrite, RecoveryEngine
from powercut.rig import commands
from powercut.rig.engines import ENGINES, EngineRow, open_engine
from powercut.scenario.settings import DiskSettings, FilesystemSettings, Parameters, WalSettings
from powercut.wal.record import record_bytes
from powercut.wal.slots import SlotState
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


def record(lsn: int) -> bytes:
    generation = int(LAYOUT.generations_of(np.array([lsn], dtype=np.uint64))[0])
    return record_bytes(
        RUN_ID, 0, lsn, prev_lsn=lsn - 1, generation=generation,
        position=LAYOUT.position_of(lsn), record_size=RECORD,
    )  # fmt: skip


def writes(*lsns: int) -> list[ImageWrite]:
    return [
        ImageWrite(LAYOUT.position_of(lsn), RECORD, np.frombuffer(record(lsn), dtype=np.uint8))
        for lsn in lsns
    ]


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


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("base") / "base.img"
    with path.open("wb") as file:
        file.truncate(PARAMETERS.disk.size)
    path.chmod(0o444)
    return path


@pytest.fixture(scope="module", params=["fake", "raw", pytest.param("guest", marks=pytest.mark.vm)])
def opened(request, base):
    """An engine that has been started, and opened by its row of the table."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ENGINES, "fake", EngineRow(f"{__name__}:FakeEngine"))
        plan = commands.recovery_plan(PARAMETERS, RUN_ID)
        with open_engine(request.param, EngineOrder(base, plan, PARAMETERS)) as engine:
            engine.start(timeout_s=START_S)
            yield engine


def back(engine: RecoveryEngine, laid: list[ImageWrite]) -> list[int]:
    seen = engine.recover(laid, timeout_s=STATE_S)
    assert (seen.recovered, seen.complete, seen.failure) == (True, True, "")
    whole = [extent for extent in seen.extents if extent.state is SlotState.INTACT]
    return [extent.lsn + n for extent in whole for n in range(extent.count)]


def test_each_state_comes_back_as_it_is_and_nothing_of_the_one_before(opened, base):
    before = hashlib.sha256(base.read_bytes()).hexdigest()
    assert back(opened, writes(1, 2, 3)) == [1, 2, 3]
    assert back(opened, writes(1)) == [1], "what the state before held is gone"
    zeroes = ImageWrite(LAYOUT.position_of(1), RECORD, None)
    assert back(opened, [*writes(1, 2), zeroes]) == [2], "writes are laid over in their order"
    assert opened.base == base
    assert hashlib.sha256(base.read_bytes()).hexdigest() == before
    assert opened.boots >= 0


@pytest.mark.parametrize("name", ["fake", "raw"])
def test_an_engine_that_was_not_started_or_has_ended_refuses(name, base, monkeypatch):
    monkeypatch.setitem(ENGINES, "fake", EngineRow(f"{__name__}:FakeEngine"))
    plan = commands.recovery_plan(PARAMETERS, RUN_ID)
    engine = open_engine(name, EngineOrder(base, plan, PARAMETERS))
    with pytest.raises(HostError, match="not been"):
        engine.recover([], timeout_s=STATE_S)
    with engine:
        engine.start(timeout_s=START_S)
        assert back(engine, writes(1)) == [1]
    with pytest.raises(HostError, match="not been"):
        engine.recover([], timeout_s=STATE_S)
