# SPDX-License-Identifier: Apache-2.0
"""A planted store of which a flush is needed only where a part of what it covers is missing.

Each operation writes data and an entry that leads to it, flushes, writes a head that leads to the
entry, and flushes again.  The entry has a checksum.  Of itself alone, it tells that the entry is
missing and not that the data is; of the data, too, it tells both.
"""

from __future__ import annotations

import zlib
from types import SimpleNamespace

import numpy as np
import pytest
from handmade import Handmade

from powercut.crash.states import StateSpace
from powercut.explore.request import Budget
from powercut.model.contract import DeviceContract
from powercut.model.errors import HostError
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut_extras.audit import recovery
from powercut_extras.audit.promise_worth import dependence, promises
from powercut_extras.audit.recovery import IN_DEPTH, StateAudit
from powercut_extras.audit.without_promise import StatesWithout

BLOCK = 4096
OPERATIONS = 6
DISK = BLOCK * (2 + 2 * OPERATIONS)  # the last block is nobody's


def block(*words: int) -> bytes:
    return b"".join(word.to_bytes(4, "little") for word in words).ljust(BLOCK, b"\0")


def word(disk: bytes, at: int, number: int = 0) -> int:
    return int.from_bytes(disk[at + 4 * number : at + 4 * number + 4], "little")


def entry_at(operation: int) -> int:
    return BLOCK * (2 * operation - 1)


def data_of(operation: int) -> bytes:
    return block(operation * 7919)


def checksum(operation: int, *, over_data: bool) -> int:
    return zlib.crc32(block(operation) + (data_of(operation) if over_data else b""))


class Acknowledged:
    """What each operation promised, by when its second flush ended."""

    def __init__(self, ack_ns: list[int]) -> None:
        self.ack_ns = np.array(ack_ns, dtype=np.int64)

    def required(self, instant: int) -> LsnRange | None:
        last = int(np.searchsorted(self.ack_ns, instant))
        return LsnRange(1, last) if last else None


def recorded(*, over_data: bool, volatile_order: bool = True) -> SimpleNamespace:
    """A recording of the store: five requests each operation, and one write after the last."""
    made = Handmade(DISK, DeviceContract(ordered=not volatile_order))
    acks, now = [], 0
    for operation in range(1, OPERATIONS + 1):
        now += 100
        entry = block(operation, checksum(operation, over_data=over_data))
        made.write(entry_at(operation) + BLOCK, data_of(operation), at=now, done=now + 1)
        made.write(entry_at(operation), entry, at=now + 2, done=now + 3)
        made.flush(at=now + 4, done=now + 5)
        made.write(0, block(operation), at=now + 6, done=now + 7)
        made.flush(at=now + 8, done=now + 9)
        acks.append(now + 10)
    made.write(DISK - BLOCK, block(1), at=now + 20, done=now + 21)
    space = StateSpace(made.timeline(), Acknowledged(acks))
    return SimpleNamespace(
        directory=None,
        space=space,
        timeline=space.timeline,
        parameters=None,
        record=SimpleNamespace(versions=None, program_files=()),
    )


class Judge:
    """Recovers the store; it can judge no state if `broken`, and loses one always if `lossy`."""

    over_data = False
    broken = False
    lossy = False

    def __init__(self, recording: SimpleNamespace, choice: object) -> None:
        del recording, choice

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def judge(self, state, space, *, received):  # as StateJudge has it
        assert not received
        if self.broken:
            raise HostError("the check ended with status 135")
        disk = bytearray(DISK)
        for write in space.image_writes(state):
            disk[write.offset : write.offset + write.length] = write.data.tobytes()
        return SimpleNamespace(
            directory=None, findings=self._findings(bytes(disk), space.required(state.instant))
        )

    def _findings(self, disk: bytes, required: LsnRange | None) -> tuple[Finding, ...]:
        if self.lossy:
            return (self._lost(FindingKind.LOST, 1),)
        last = word(disk, 0)
        if last and not self._valid(disk, last):
            last -= 1  # the head was written, the entry was not
        whole = [disk[entry_at(n) + BLOCK :][:BLOCK] == data_of(n) for n in range(1, last + 1)]
        if not all(whole):
            return (self._lost(FindingKind.CORRUPT, whole.index(False) + 1),)
        if required is not None and required.last > last:
            return (self._lost(FindingKind.LOST, required.last),)
        return ()

    def _valid(self, disk: bytes, operation: int) -> bool:
        at = entry_at(operation)
        covered = block(word(disk, at)) + (disk[at + BLOCK :][:BLOCK] if self.over_data else b"")
        return word(disk, at) == operation and word(disk, at, 1) == zlib.crc32(covered)

    @staticmethod
    def _lost(kind: FindingKind, operation: int) -> Finding:
        lsns = (LsnRange(operation, operation),)
        return Finding(kind, Verdict.LOSSY, f"operation {operation}", lsns=lsns)


@pytest.fixture
def audited(monkeypatch):
    """Looks at all states of all promises of a store whose checksums are as said."""

    def look(*, over_data=False, broken=False, lossy=False, states=None):
        monkeypatch.setattr(recovery, "StateJudge", Judge)
        for name in ("require_recorded_program", "require_consent"):
            monkeypatch.setattr(recovery, name, lambda *_: None)
        monkeypatch.setattr(Judge, "over_data", over_data)
        monkeypatch.setattr(Judge, "broken", broken)
        monkeypatch.setattr(Judge, "lossy", lossy)
        one = recorded(over_data=over_data)
        hang = dependence(one.timeline)
        kept = promises(one.timeline).tolist()
        audit = StateAudit(
            one, hang, lambda write: str(write % 5), engine="-", seed=1, listener=lambda *_: None
        )
        return kept, audit.look([kept[::2], kept[1::2]], Budget(states=states))

    return look


def test_a_flush_is_needed_where_a_part_of_what_it_covers_is_missing(audited):
    kept, looks = audited()
    for operation, (first, second) in enumerate(zip(kept[::2], kept[1::2], strict=True), 1):
        needed = looks.seen[first]
        data = 5 * (operation - 1)
        assert (needed.lost, needed.message) == (1, f"operation {operation}")
        assert (needed.found.missing, needed.found.in_part) == ((data,), True)
        assert data + 1 in needed.found.state.survivors
        assert (looks.seen[second].lost, looks.seen[second].found.in_part) == (1, False)
    # What has shown the loss of the first ones shows that of the others at once.
    assert [looks.seen[first].states for first in kept[2 * IN_DEPTH :: 2]] == [1, 1, 1]
    assert not looks.undecided


def test_no_state_without_all_of_it_shows_that():
    """The checksum hides that the data is missing where the entry is missing, too."""
    one = recorded(over_data=False)
    states = StatesWithout(one.space, dependence(one.timeline), str, seed=1)
    for first in promises(one.timeline).tolist()[::2]:
        without_all = [one for one in states.states(first) if not one.in_part]
        assert len(without_all) == 3
        for lacking in without_all:
            judged = Judge(one, None).judge(lacking.state, states.space(first), received=False)
            assert judged.findings == ()


def test_a_checksum_over_the_data_too_hides_each_part(audited):
    kept, looks = audited(over_data=True)
    assert [looks.seen[first].lost for first in kept[::2]] == [0] * OPERATIONS
    assert all(looks.seen[first].in_part for first in kept[::2])
    assert [looks.seen[second].lost for second in kept[1::2]] == [1] * OPERATIONS


def test_states_that_cannot_be_judged_are_counted(audited):
    kept, looks = audited(broken=True, states=7)
    assert looks.undecided == {"the check ended with status 135": 7}
    assert sum(looks.seen[promise].undecided for promise in kept if promise in looks.seen) == 7
    assert looks.states == 0


def test_of_a_store_that_loses_anyway_nothing_follows(audited):
    """What is lost with all promises kept, too, does not show that no promise was needed."""
    kept, looks = audited(lossy=True, states=7)
    ((why, states),) = looks.undecided.items()
    assert states == 7
    assert "with all promises kept, too" in why
    assert looks.states == 0
    assert not any(looks.seen[promise].lost for promise in kept if promise in looks.seen)


def test_a_device_that_keeps_order_has_no_later_write_without_an_earlier_one():
    """Of data, entry and head a prefix is there: nothing else is legal."""
    one = recorded(over_data=False, volatile_order=False)
    hang = dependence(one.timeline)
    states = StatesWithout(one.space, hang, str, seed=1)
    first = int(promises(one.timeline)[0])
    assert hang.hanging(first).tolist() == [0, 1]
    found = {
        (lacking.missing, lacking.state.survivors)
        for lacking in states.states(first)
        if not lacking.state.torn
    }
    assert found == {((0, 1), ()), ((1,), (0,))}
