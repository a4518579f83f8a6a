# SPDX-License-Identifier: Apache-2.0
"""When a program in a guest wrote its lines: by its guest's clock, however late they came."""

from __future__ import annotations

from dataclasses import replace

import pytest

from powercut.model.observation import Observation
from powercut.model.operations import AckBasis, Packet
from powercut.model.units import NEVER
from powercut.model.verdict import FindingKind, Verdict
from powercut.scenario.settings import Parameters, ProgramSettings
from powercut.workload.program.check import check_operations
from powercut.workload.program.claims import sighting_of
from powercut.workload.program.workload import NO_CLOCK, ProgramWorkload, dated

AHEAD_NS = 7_000_000_000_000
"""By how much the guest's clock is ahead of the host's."""

MS = 1_000_000
NS = 3  # the resolution of the clock, what that hides of a step, and what rounding adds
STEP_NS = MS // 20
"""What slow pings leave open to a step of the clock between two of them, 1 ms apart."""

LATE_NS = 40 * MS
"""How late a busy host receives lines."""


def line(at_ns: int, data: bytes, *, late_ns: int = 0) -> Packet:
    """Written at `at_ns`, received so much later."""
    return Packet(at_ns + late_ns, data, guest_ns=at_ns + AHEAD_NS)


def pings(*at_ns: int, way_ns: int = 0) -> list[Packet]:
    """Answered at these instants, each way so long."""
    return [Packet(at + way_ns, b"", guest_ns=at + AHEAD_NS, sent_ns=at - way_ns) for at in at_ns]


EXACT = pings(MS - 1, *(at * MS for at in range(1, 101)))
"""One at each millisecond; two a nanosecond apart: the clock is that fine, as far as is known."""

SAID = [
    line(10 * MS, b"? 1\n"),
    line(20 * MS, b"+ 1\n", late_ns=LATE_NS),
    line(25 * MS, b"? 2\n", late_ns=LATE_NS),
    line(30 * MS, b"+ 2\n", late_ns=LATE_NS),
]


def promised(packets, cut_ns=int(NEVER)):
    settings = ProgramSettings(kind="program", command=("/x",), folder="/", root="/r.tar")
    workload = ProgramWorkload(Parameters(workload=settings))
    return workload.promises_by_lines(packets, cut_ns).requirements


def instants(packets) -> list[int]:
    return promised(packets).ack_ns.tolist()


def test_exact_clocks_give_exact_instants_whatever_the_receipts_were():
    assert instants([*EXACT, *SAID]) == [20 * MS + NS, 30 * MS + NS]
    proof = promised([*EXACT, *SAID]).proof
    assert (proof.basis, proof.window_ns, proof.gained_ns) == (AckBasis.CLOCK, 2 * NS, LATE_NS - NS)


def test_lines_whose_clock_goes_back_by_a_nanosecond_count_from_their_receipt():
    again = replace(SAID[2], guest_ns=SAID[1].guest_ns - 1)
    proof = promised([*EXACT, SAID[0], SAID[1], again, SAID[3]]).proof
    assert (proof.basis, proof.window_ns) == (AckBasis.RECEIPT, None)
    assert "went back" in proof.reason


def test_a_slow_ping_dates_an_ack_later_never_earlier():
    trips = pings(MS - 1, *(at * MS for at in range(1, 101)), way_ns=2 * MS)
    late = [replace(one, at_ns=one.at_ns + LATE_NS) for one in SAID]
    for made, dated_ns in zip((20 * MS, 30 * MS), instants([*trips, *late]), strict=True):
        assert made < dated_ns <= made + 2 * MS + STEP_NS
    assert 2 * MS <= promised([*trips, *late]).proof.window_ns <= 4 * MS + 2 * STEP_NS


def lossy(packets, until_ns: int) -> list[int]:
    """The milliseconds at which a cut is LOSSY, if operation 2 is on the disk after `until_ns`."""
    history, found = promised(packets), []
    for at_ms in range(15, 100):
        check = b"= 1-2\n" if at_ms * MS > until_ns else b"= 1\n"
        seen = sighting_of(Observation((), lines=check))
        findings = check_operations(history, at_ms * MS, seen)
        if findings:
            assert [(one.kind, one.verdict) for one in findings] == [
                (FindingKind.LOST, Verdict.LOSSY)
            ]
            found.append(at_ms)
    return found


def test_an_early_ack_is_found_at_each_instant_until_the_operation_is_durable():
    """Planted: acknowledged at 30 ms, on the disk after 50 ms, received at 70 ms."""
    assert lossy([*EXACT, *SAID], 50 * MS) == list(range(31, 51))
    assert lossy([*EXACT, *SAID], 30 * MS) == [], "its honest twin"
    assert lossy(SAID, 50 * MS) == [], "by its receipt it is not seen"


def test_an_ack_that_was_made_before_the_cut_counts_if_it_was_received_after_it():
    history = promised([*EXACT, *SAID], 35 * MS)
    assert history.acked.tolist() == [1, 2]
    assert promised(SAID, 35 * MS).acked.tolist() == []


def test_attempts_count_for_the_whole_run():
    history = promised([*EXACT, *SAID])
    assert history.by_receipt
    assert history.attempted_before(0) == {1, 2}


@pytest.mark.parametrize(
    ("packets", "reason"),
    [
        (SAID, "no ping was answered"),
        ([*EXACT, *SAID[:3], replace(SAID[3], guest_ns=0)], NO_CLOCK),
        ([*EXACT, *SAID[:3], replace(SAID[3], guest_ns=None)], NO_CLOCK),
        ([*EXACT, SAID[0], SAID[2], SAID[1], SAID[3]], "went back"),
        ([*EXACT, *SAID, *pings(10 * MS)[:1], Packet(52 * MS, b"", guest_ns=0, sent_ns=51 * MS)],
         "stepped or stood still"),
        ([*EXACT, *SAID[:3], replace(SAID[3], guest_ns=200 * MS + AHEAD_NS)], "stepped or stood"),
        ([], NO_CLOCK),
    ],
)  # fmt: skip
def test_a_clock_that_cannot_be_trusted_leaves_the_receipts(packets, reason):
    said = [one for one in packets if one.sent_ns is None]
    found, proof = dated(packets)
    assert found == tuple(said)
    assert (proof.basis, proof.window_ns) == (AckBasis.RECEIPT, None)
    assert reason in proof.reason
    if len(said) == len(SAID):
        received = [one.at_ns for one in said if one.data.startswith(b"+")]
        assert instants(packets) == received


def test_a_paused_guest_is_judged_by_receipts():
    """Its clock stood still for 100 ms while the host's went on."""
    paused = [
        replace(one, at_ns=one.at_ns + 100 * MS, sent_ns=one.sent_ns + 100 * MS)
        for one in pings(60 * MS, 70 * MS, 80 * MS)
    ]
    _, proof = dated([*EXACT, *SAID, *paused])
    assert proof.basis is AckBasis.RECEIPT
