# SPDX-License-Identifier: Apache-2.0
"""What flushes and FUA are worth, in cases that a person can follow: exact requests and LSNs."""

import numpy as np
from handmade import Handmade, history
from small_worlds import without

from powercut.crash.evidence import gather
from powercut.model.contract import DeviceContract, Honour
from powercut.model.verdict import LsnRange
from powercut.wal import record as wal
from powercut.wal.layout import LayoutKind, WalLayout
from powercut_extras.audit.promise_worth import UntilNext, carried, dependence, promises, until_next

RUN_ID = bytes(range(16))
RAW = WalLayout(LayoutKind.RAW, record=512, capacity=4096)


def record(lsn):
    generations = RAW.generations_of(np.array([lsn], dtype=np.uint64))
    return wal.record_bytes(
        RUN_ID,
        0,
        lsn,
        prev_lsn=lsn - 1,
        generation=int(generations[0]),
        position=RAW.position_of(lsn),
        record_size=RAW.record,
    )


def found(timeline, acks):
    evidence = gather(timeline, history(acks), RUN_ID, RAW)
    return {one.promise: one.lsns for one in carried(evidence)}


def hanging(timeline):
    return {p: dependence(timeline).hanging(p).tolist() for p in promises(timeline).tolist()}


def test_one_superfluous_flush_and_no_other():
    made = Handmade(8192)
    made.write(0, record(1), at=1, done=2)
    made.flush(at=3, done=4)  # 1: carries the first record
    made.flush(at=6, done=7)  # 2: nothing was written since
    made.write(512, record(2), at=8, done=9)
    made.flush(at=10, done=11)  # 4: carries the second
    timeline = made.timeline()
    assert hanging(timeline) == {1: [0], 2: [], 4: [3]}
    assert found(timeline, [(1, 5), (2, 12)]) == {1: (LsnRange(1, 1),), 4: (LsnRange(2, 2),)}


def test_a_flush_before_another_one_that_comes_before_the_ack_carries_nothing():
    made = Handmade(8192)
    made.write(0, record(1), at=1, done=2)
    made.flush(at=3, done=4)
    made.flush(at=5, done=6)
    timeline = made.timeline()
    # The write hangs on the first, and for two nanoseconds only: nobody was promised it by then.
    assert hanging(timeline) == {1: [0], 2: []}
    assert found(timeline, [(1, 7)]) == {}
    assert found(timeline, [(1, 5)]) == {1: (LsnRange(1, 1),)}


def test_what_lies_between_a_flush_and_the_next_one():
    made = Handmade(8192)
    made.write(0, record(1), at=1, done=2)
    made.flush(at=3, done=4)  # 1
    made.write(512, record(2), at=5, done=6)
    made.flush(at=7, done=9)  # 3
    made.write(1024, record(3), at=11, done=12)
    made.flush(at=13, done=14)  # 5: nothing makes its write durable but itself
    timeline = made.timeline()
    hang = dependence(timeline)

    def between(promise, *acks):
        return until_next(timeline, hang, promise, np.array(acks, dtype=np.int64))

    assert between(1) == between(1, 3, 9) == UntilNext(acks=0, writes=1)
    assert between(1, 4) == between(1, 8) == UntilNext(acks=1, writes=1)
    assert between(3, 10, 15) == UntilNext(acks=1, writes=1)
    assert between(5) is None


def test_fua_carries_its_own_write_alone():
    made = Handmade(8192)
    made.write(0, record(1), at=1, done=2)
    made.write(512, record(2), at=3, done=4, fua=True)
    made.flush(at=6, done=7)
    timeline = made.timeline()
    assert hanging(timeline) == {1: [1], 2: [0]}
    assert found(timeline, [(2, 8)]) == {2: (LsnRange(1, 1),)}  # the flush covers both by then
    assert without(timeline, 1).requests.fua.tolist() == [False] * 3


def test_a_record_that_was_never_durable_hangs_on_nothing():
    made = Handmade(8192)
    made.write(0, record(1), at=1, done=2)
    made.flush(at=3, done=4)
    made.write(512, record(2), at=5, done=6)
    timeline = made.timeline()
    assert found(timeline, [(1, 4), (2, 7)]) == {1: (LsnRange(1, 1),)}


def test_disks_that_keep_no_promise_have_none_to_audit():
    for contract in (
        DeviceContract(volatile_cache=False),
        DeviceContract(flush=Honour.IGNORED, fua=Honour.IGNORED),
    ):
        made = Handmade(8192, contract)
        made.write(0, record(1), at=1, done=2, fua=True)
        made.flush(at=3, done=4)
        assert promises(made.timeline()).tolist() == []
        assert found(made.timeline(), [(1, 5)]) == {}


def test_a_record_in_two_writes_may_hang_on_two_flushes():
    made = Handmade(8192)
    whole = record(1)
    made.write(0, whole[:256], at=1, done=2)
    made.flush(at=3, done=4)
    made.write(256, whole[256:], at=5, done=6)
    made.flush(at=7, done=8)
    made.flush(at=20, done=21)
    timeline = made.timeline()
    # Without the first, the second covers its half in time; without the second nothing does.
    assert found(timeline, [(1, 9)]) == {3: (LsnRange(1, 1),)}
    assert hanging(timeline) == {1: [0], 3: [2], 4: []}
