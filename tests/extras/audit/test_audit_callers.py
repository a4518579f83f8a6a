# SPDX-License-Identifier: Apache-2.0
"""Who asked for a flush, by the windows of calls; and what was acknowledged without any."""

from __future__ import annotations

import numpy as np
import pytest

from powercut.model.operations import OperationHistory, Packet
from powercut.model.units import NEVER
from powercut.model.verdict import LsnRange
from powercut.workload.program.sync_trace import CallSite, SyncCall, SyncTrace
from powercut_extras.audit.callers import Callers, timed_trace, unsynced
from powercut_extras.audit.stored import Asker, AuditedPromise, PromiseKind, Worth

FSYNC = CallSite(0, "a" * 16, "fsync", "log")
OTHER = CallSite(1, "b" * 16, "fdatasync", "other")
OPENED = CallSite(2, "c" * 16, "open(O_DSYNC)", "wal")
WRITTEN = CallSite(3, "d" * 16, "write(O_DSYNC)", "wal")


class _Requests:
    """Flushes; of a timeline only these two are asked."""

    def __init__(self, submitted_ns: list[int], completed_ns: list[int]) -> None:
        self.submitted_ns = np.array(submitted_ns)
        self.completed_ns = np.array(completed_ns)


class _Timeline:
    def __init__(self, *instants: tuple[int, int]) -> None:
        submitted_ns, completed_ns = zip(*instants, strict=True)
        self.requests = _Requests(submitted_ns, completed_ns)


def trace(*calls: SyncCall, sites=(FSYNC, OTHER), beyond=(), writes=False) -> SyncTrace:
    return SyncTrace("k", 50, tuple(sites), tuple(calls), tuple(beyond), writes)


def all_asked(found: SyncTrace, *instants: tuple[int, int]):
    promises = [
        AuditedPromise(
            request=request, kind=PromiseKind.FLUSH, at_ms=0, took_us=1, worth=Worth.UNSEEN,
            hanging=1, hanging_bytes=1, holds=(),
        )
        for request in range(len(instants))
    ]  # fmt: skip
    timeline = _Timeline(*instants)
    return Callers(trace=found).asked(timeline, promises)  # type: ignore[arg-type]  # as above


def asked(found: SyncTrace, submitted_ns: int, completed_ns: int):
    (one,) = all_asked(found, (submitted_ns, completed_ns))
    return one.asker, one.sites


@pytest.mark.parametrize(
    ("instants", "asker", "sites"),
    [
        ((100, 200), Asker.CALL, (1,)),
        ((120, 180), Asker.CALL, (1,)),
        ((99, 150), Asker.NO_CALL, ()),  # begun before the call
        ((150, 201), Asker.NO_CALL, ()),  # the call did not wait for it
        ((40, 45), Asker.BEFORE, ()),
        ((250, 260), Asker.NO_CALL, ()),
        ((320, 330), Asker.CALL, (1, 2)),  # two threads wait
        ((310, 312), Asker.CALL, (1,)),
        ((600, 900), Asker.CALL, (2,)),  # the cut came first
        ((450, 460), Asker.NO_CALL, ()),  # dropped: it was not made
    ],
)
def test_a_flush_is_of_the_calls_into_which_it_fits(instants, asker, sites):
    found = trace(
        SyncCall(0, 7, 100, 200), SyncCall(0, 7, 300, 400), SyncCall(1, 8, 315, 500 - 60),
        SyncCall(0, 7, 445, 470, dropped=True), SyncCall(1, 8, 550, int(NEVER)),
    )  # fmt: skip
    assert asked(found, *instants) == (asker, sites)


def test_the_flushes_of_one_call_are_counted():
    found = trace(
        SyncCall(0, 7, 100, 200), SyncCall(0, 7, 300, 400), SyncCall(1, 8, 350, 500),
    )  # fmt: skip
    flushes = [(40, 45), (110, 120), (250, 260), (130, 140), (310, 320), (360, 370), (410, 420)]
    named = [(one.nth, one.of_call) for one in all_asked(found, *flushes)]
    # Nobody's, and that of two threads, are not counted.
    assert named == [(0, 0), (1, 2), (0, 0), (2, 2), (1, 1), (0, 0), (1, 1)]


def history(*claims: tuple[int, int, int]) -> OperationHistory:
    """Operation, attempt, ack."""
    operations, attempts, acks = (np.array(column, dtype=np.int64) for column in zip(*claims))  # noqa: B905  # columns
    return OperationHistory(operations, attempts, operations, acks)


def test_an_operation_without_any_call_in_its_time_is_unsynced():
    claims = history((1, 90, 210), (2, 220, 230), (3, 240, 320), (4, 410, 420))
    calls = (SyncCall(0, 7, 100, 200), SyncCall(1, 8, 300, 400))
    assert unsynced(trace(*calls), claims) == (LsnRange(2, 2), LsnRange(4, 4))


def test_nothing_is_said_where_the_tracer_does_not_see_all():
    claims = history((1, 10, 20))
    assert unsynced(trace(), claims) == (LsnRange(1, 1),)
    assert unsynced(trace(beyond=["syncs through io_submit(2)"]), claims) == ()
    assert unsynced(trace(sites=[FSYNC, OPENED]), claims) == ()


def test_opening_a_file_is_no_sync_and_writing_to_it_is_one():
    sites = (FSYNC, OTHER, OPENED, WRITTEN)
    calls = (SyncCall(2, 7, 100, 200), SyncCall(3, 7, 300, 400))
    found = trace(*calls, sites=sites, writes=True)
    assert asked(found, 120, 180) == (Asker.NO_CALL, ())
    assert asked(found, 320, 380) == (Asker.CALL, (4,))
    claims = history((1, 90, 210), (2, 290, 410))
    assert unsynced(found, claims) == (LsnRange(1, 1),)


MS = 1_000_000
WAY_NS = 2 * MS
"""What a ping took each way: so far the guest's clock leaves open when a line was written."""


def in_guest(*, pinged: bool = True) -> list[Packet]:
    """A trace by the clock of a guest, which is a second ahead: one call from 30 ms to 40 ms."""
    key = "~ 0123456789abcdef "
    said = {5: "trace 1", 29: "site 0 " + "a" * 16 + " fsync log", 30: "begin 0 7", 40: "end 0 7 0"}
    trips = [
        Packet(at + WAY_NS, b"", guest_ns=at + 10**9, sent_ns=at - WAY_NS)
        for at in (4 * MS, 4 * MS + 1, *range(10 * MS, 100 * MS, 10 * MS))
    ]
    lines = [
        Packet(at * MS + 50 * MS, f"{key}{text}\n".encode(), guest_ns=at * MS + 10**9)
        for at, text in said.items()
    ]
    return [*(trips if pinged else ()), *lines]


def test_in_a_guest_a_call_lasts_as_long_as_its_clock_leaves_open() -> None:
    found, why = timed_trace(in_guest())
    assert why == ""
    (call,) = found.calls
    assert 30 * MS - WAY_NS - MS < call.begin_ns <= 30 * MS - WAY_NS
    assert 40 * MS + WAY_NS <= call.end_ns < 40 * MS + WAY_NS + MS
    assert asked(found, 30 * MS - MS, 40 * MS + MS) == (Asker.CALL, (1,))
    assert asked(found, 30 * MS - 4 * MS, 40 * MS) == (Asker.NO_CALL, ())


def test_without_a_tie_between_the_clocks_nobody_is_named() -> None:
    found, why = timed_trace(in_guest(pinged=False))
    assert len(found.calls) == 1
    assert why.startswith("the guest's clock cannot be told from the disk's: ")
