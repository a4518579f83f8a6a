# SPDX-License-Identifier: Apache-2.0
"""Single acks that come too early, among thousands that do not, on a simulated busy host.

Every message arrives late, most of them by tens of microseconds and some by 100 ms, so that no
receipt tells an early ack from an honest one.  The clocks do, down to what they leave open; and
what they leave open is said.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from handmade import Handmade

from powercut.checkers.acks import check_acks
from powercut.crash.dating import NO_ROUND_TRIPS, AckDating, date_acks, earliest_acks
from powercut.crash.evidence import Evidence, gather
from powercut.crash.exposure import exposure
from powercut.model.history import Handover, History, RoundTrips
from powercut.model.operations import AckBasis
from powercut.model.units import NEVER
from powercut.model.verdict import FindingKind, LsnRange, Verdict
from powercut.verdict.records import check_exposure, prove_acks
from powercut.wal.layout import LayoutKind, WalLayout
from powercut.wal.record import record_bytes

RUN = bytes(range(16))
RECORD = 512
US, MS = 1000, 1_000_000
SECOND = 1000 * MS
LEAST_US = 15
"""No message takes less."""


@dataclass(frozen=True)
class Run:
    """A raw log of `records`, one commit each, and what is acknowledged too early in it."""

    records: int
    flush_ns: int = MS
    ahead_ns: int = 0  # before the sync returns
    struck: tuple[int, ...] = ()
    rate: float = 0.0  # by which the guest's clock is slow
    pings_every_ns: int = 20 * MS
    stepped_at: int = 0  # the record at which the guest's clock is set back by `step_ns`
    step_ns: int = 0
    moved_at: int = 0  # the record before which the guest moves to another hypervisor
    away_ns: int = 0  # how long it stands still then
    restarted: bool = False  # it boots there instead, once it has written that record in vain
    waits: bool = False  # the last ack before that waits in a queue, and comes from the other one
    seed: int = 1

    def make(self) -> tuple[Evidence, History]:
        """The evidence, dated, and the history as it was received."""
        rng = np.random.default_rng(self.seed)
        layout = WalLayout(LayoutKind.RAW, record=RECORD, capacity=16 << 20)
        disk = Handmade(16 << 20)
        now, start = 10**12, 10**12
        claims: dict[str, list[tuple[int, int, int]]] = {"attempt": [], "ack": []}
        pings: list[tuple[int, int, int]] = []
        handovers: tuple[Handover, ...] = ()
        next_ping = now

        def guest(at: int) -> int:
            if self.restarted and claims_made >= self.moved_at and handovers:
                return int((at - handovers[0].stopped_ns) * (1 + self.rate)) + SECOND
            step = self.step_ns if claims_made >= self.stepped_at > 0 else 0
            moved = claims_made >= self.moved_at > 0 and not self.restarted
            step += self.away_ns if moved else 0
            return int((at - start) * (1 - self.rate)) + 77 * SECOND - step

        def record(lsn: int) -> bytes:
            return record_bytes(
                RUN, 0, lsn, prev_lsn=lsn - 1, generation=0,
                position=layout.position_of(lsn), record_size=RECORD,
            )  # fmt: skip

        def late() -> int:
            return LEAST_US * US + int(min(rng.pareto(0.7) * 20 * US, 100 * MS))

        for lsn in range(1, self.records + 1):
            claims_made = lsn
            if lsn == self.moved_at and self.restarted:
                claims["attempt"].append((lsn, now + late(), guest(now)))
                now += 30 * US
                disk.write((lsn - 1) * RECORD, record(lsn), at=now, done=now + 10 * US)
                now += 10 * US
            if lsn == self.moved_at:
                acks = len(claims["ack"]) - int(self.waits)
                handovers = (
                    Handover(len(claims["attempt"]), acks, len(pings), now, self.restarted),
                )
                now += self.away_ns
                next_ping = now
                if self.waits:
                    last, _, stamp = claims["ack"][-1]
                    claims["ack"][-1] = (last, now + late(), stamp)
            now += 20 * US
            claims["attempt"].append((lsn, now + late(), guest(now)))
            sent = now + 30 * US + int(rng.exponential(40 * US))
            written = sent + 10 * US
            disk.write((lsn - 1) * RECORD, record(lsn), at=sent, done=written)
            ahead_ns = self.ahead_ns if lsn in self.struck else 0
            woken_ns = 30 * US + int(rng.exponential(40 * US))
            # Whoever acknowledges that early has not even begun to sync.
            sync = written + max(50 * US, ahead_ns - self.flush_ns - woken_ns)
            flushed = sync + self.flush_ns
            disk.flush(at=sync, done=flushed)
            returned = flushed + woken_ns
            made = returned - ahead_ns
            claims["ack"].append((lsn, made + late(), guest(made)))
            while next_ping < returned:
                answered = next_ping + late()
                pings.append((next_ping, guest(answered), answered + late()))
                next_ping += self.pings_every_ns
            now = returned
        columns = {k: np.array(v, np.int64).T for k, v in claims.items()}
        # Messages arrive in order: a late one holds up those behind it.
        ack_ns = np.maximum.accumulate(columns["ack"][1])
        attempt_ns = np.maximum.accumulate(columns["attempt"][1])
        history = History(
            attempt_lsn=columns["attempt"][0],
            attempt_ns=attempt_ns,
            attempt_guest_ns=columns["attempt"][2],
            ack_lsn=columns["ack"][0],
            ack_ns=ack_ns,
            ack_guest_ns=columns["ack"][2],
            round_trips=RoundTrips(*np.array(pings, np.int64).reshape(-1, 3).T),
            handovers=handovers,
        )
        return gather(disk.timeline(), history, RUN, layout, deep=True), history


def found(run: Run) -> set[int]:
    evidence, _ = run.make()
    return {lsn for span in exposure(evidence).exposed_lsns for lsn in span}


def test_not_one_of_10_000_honest_acks_is_called_early():
    evidence, history = Run(10_000).make()
    report = exposure(evidence)
    proof = prove_acks(evidence, report)
    assert check_exposure(report) == []
    assert check_acks(proof) == []
    assert proof.basis is AckBasis.CLOCK
    assert proof.shortest_sync_ns == MS
    assert proof.window_ns < 300 * US < proof.gained_ns  # some receipts were late by more
    assert (evidence.history.ack_ns <= history.ack_ns).all()


@pytest.mark.parametrize("seed", range(20))
def test_two_records_acknowledged_200_us_before_the_sync_returns_are_found(seed):
    assert found(Run(300, ahead_ns=200 * US, struck=(100, 200), seed=seed)) <= {100, 200}
    # 200 us before its return a sync may have been done on the disk: what was durable is no loss.
    run = Run(300, ahead_ns=400 * US, struck=(100, 200), seed=seed)
    assert found(run) == {100, 200}


def test_receipts_alone_see_nothing_of_it():
    evidence, history = Run(300, ahead_ns=400 * US, struck=(100, 200), seed=3).make()
    received = replace(history, round_trips=RoundTrips.none())
    blind = gather(evidence.timeline, received, RUN, evidence.layout, deep=True)
    missed = {100, 200} - {lsn for span in exposure(blind).exposed_lsns for lsn in span}
    assert missed
    proof = prove_acks(blind, exposure(blind))
    assert (proof.basis, proof.window_ns, proof.reason) == (AckBasis.RECEIPT, None, NO_ROUND_TRIPS)
    (finding,) = check_acks(proof)
    assert (finding.kind, finding.verdict) == (FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE)
    assert "no ping was answered" in finding.message


@pytest.mark.parametrize("ahead_us", [20, 50, 100, 200, 500, 1000, 1300, 2000, 5000])
def test_each_early_ack_is_found_or_lies_within_the_window(ahead_us):
    """How long before its record was durable an ack was made decides, not before what call."""
    struck = tuple(range(50, 1000, 50))
    evidence, _ = Run(1000, ahead_ns=ahead_us * US, struck=struck).make()
    report = exposure(evidence)
    proof = prove_acks(evidence, report)
    exposed = {lsn for span in report.exposed_lsns for lsn in span}
    assert exposed <= set(struck)
    truth = {lsn: _made_before_durable_ns(evidence, lsn) for lsn in struck}
    for lsn in struck:
        assert truth[lsn] < proof.window_ns or lsn in exposed
    # Before the flush even began, it is certain to be found.
    if ahead_us * US > MS + proof.window_ns + 2 * MS:
        assert exposed == set(struck)


def _made_before_durable_ns(evidence: Evidence, lsn: int) -> int:
    """The truth, which only a simulation knows: the guest's clock is host minus a constant."""
    offset = 10**12 - 77 * SECOND
    made = int(evidence.history.ack_guest_ns[lsn - 1]) + offset
    return int(evidence.sets.durable_ns[2 * (lsn - 1)]) - made


def test_an_ack_before_the_sync_began_cannot_hide_on_a_disk_slower_than_the_window():
    struck = tuple(range(10, 500, 10))
    run = Run(500, flush_ns=MS, ahead_ns=MS + 400 * US, struck=struck)
    assert found(run) == set(struck)


def test_on_a_disk_faster_than_the_window_no_ack_is_proved():
    """Flushes of 2 us: an ack before its sync would look like the honest ones."""
    evidence, _ = Run(500, flush_ns=2 * US).make()
    report = exposure(evidence)
    proof = prove_acks(evidence, report)
    assert check_exposure(report) == []
    assert proof.shortest_sync_ns == 2 * US < proof.window_ns
    (finding,) = check_acks(proof)
    assert f"within {proof.window_ns // US:,} µs" in finding.message.replace("\n", " ")
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert finding.lsns == proof.unproved != ()
    assert "the shortest sync took 2 µs" in finding.message
    assert "disk.flush_latency" in finding.message


def test_an_ack_is_proved_from_the_nanosecond_on_in_which_its_sync_began():
    evidence, _ = Run(20).make()
    began = evidence.timeline.requests.submitted_ns[1::2]
    for early, unproved in (
        ([], ()),
        ([7], (LsnRange(7, 7),)),
        ([3, 7], (LsnRange(3, 3), LsnRange(7, 7))),
    ):
        earliest = began - np.isin(np.arange(1, 21), early)
        dating = replace(evidence.dating, earliest_ns=earliest)
        proof = prove_acks(replace(evidence, dating=dating), exposure(evidence))
        assert proof.unproved == unproved


def test_a_record_is_acknowledged_with_those_after_it_if_their_ack_may_have_been_first():
    _, history = Run(4).make()
    dating = AckDating(history.ack_ns, history.ack_ns, np.array([40, 20, 30, 50]), AckBasis.CLOCK)
    assert earliest_acks(history, dating, np.arange(1, 6)).tolist() == [20, 20, 30, 50, int(NEVER)]


def test_a_clock_of_a_guest_that_goes_back_by_a_nanosecond_dates_nothing():
    _, history = Run(50).make()
    stamps = history.ack_guest_ns.copy()
    stamps[30] = stamps[29] - 1
    dating = date_acks(replace(history, ack_guest_ns=stamps))
    assert (dating.basis, dating.earliest_ns) == (AckBasis.RECEIPT, None)
    assert "went back" in dating.reason


@pytest.mark.parametrize("rate", [-0.004, -0.0001, 0.002, 0.03])
def test_a_guest_whose_clock_runs_wrong_is_judged_as_well(rate):
    assert found(Run(2000, rate=rate)) == set()
    struck = tuple(range(100, 2000, 100))
    assert found(Run(2000, rate=rate, ahead_ns=500 * US, struck=struck)) == set(struck)


@pytest.mark.parametrize("step_ns", [-30 * MS, 30 * MS])
def test_after_a_step_of_the_guests_clock_receipts_count_and_the_verdict_is_open(step_ns):
    evidence, history = Run(1000, stepped_at=500, step_ns=step_ns).make()
    report = exposure(evidence)
    assert check_exposure(report) == []
    assert (evidence.history.ack_ns == history.ack_ns).all()
    proof = prove_acks(evidence, report)
    assert (proof.basis, proof.window_ns) == (AckBasis.RECEIPT, None)
    (finding,) = check_acks(proof)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "stepped" in finding.message or "went back" in finding.message


def _truth(run: Run, history: History) -> np.ndarray:
    """When each ack was made, on the host's clock."""
    away = np.where(history.ack_lsn >= run.moved_at, run.away_ns, 0)
    return history.ack_guest_ns + away + 10**12 - 77 * SECOND


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_a_guest_that_moves_takes_its_clock_along_and_no_honest_ack_is_called_early(seed, waits):
    run = Run(600, moved_at=300, away_ns=80 * MS, waits=waits, seed=seed)
    evidence, history = run.make()
    dating, truth = evidence.dating, _truth(run, history)
    assert dating.basis is AckBasis.CLOCK
    assert (dating.earliest_ns <= truth).all()
    assert (truth <= dating.latest_ns).all()
    report = exposure(evidence)
    assert check_exposure(report) == []
    assert check_acks(prove_acks(evidence, report)) == []


def test_what_waited_while_the_guest_moved_is_not_dated_after_the_move():
    """Without an instant at which the guest stood still, the last ack would be 80 ms too late."""
    run = Run(600, moved_at=300, away_ns=80 * MS, waits=True)
    _, history = run.make()
    (handover,) = history.handovers
    blind = date_acks(replace(history, handovers=(replace(handover, stopped_ns=0),)))
    wrong = np.flatnonzero(blind.earliest_ns > _truth(run, history))
    assert history.ack_lsn[wrong].tolist() == [299]


def test_the_same_step_without_a_move_leaves_the_verdict_open():
    _, history = Run(600, moved_at=300, away_ns=80 * MS).make()
    assert date_acks(replace(history, handovers=())).basis is AckBasis.RECEIPT


@pytest.mark.parametrize("struck", [(100, 500), (298, 299, 300, 301)])
def test_early_acks_before_and_after_a_move_are_found(struck):
    run = Run(600, moved_at=300, away_ns=80 * MS, ahead_ns=2 * MS, struck=struck)
    assert found(run) == set(struck)


def test_a_guest_that_answers_no_ping_after_its_move_leaves_the_verdict_open():
    _, history = Run(600, moved_at=300, away_ns=80 * MS).make()
    trips, kept = history.round_trips, history.handovers[0].round_trips
    before = RoundTrips(trips.sent_ns[:kept], trips.guest_ns[:kept], trips.received_ns[:kept])
    dating = date_acks(replace(history, round_trips=before))
    assert (dating.basis, dating.earliest_ns) == (AckBasis.RECEIPT, None)
    assert "after the guest had moved" in dating.reason


@pytest.mark.parametrize("struck", [(), (100, 299)])
def test_a_guest_that_is_cut_on_its_way_has_promised_nothing_in_the_second_hypervisor(struck):
    """No ping is answered there either, and its first record is attempted."""
    evidence, history = Run(
        600, moved_at=300, away_ns=80 * MS, ahead_ns=2 * MS, struck=struck
    ).make()
    (there,) = history.handovers
    trips, a, k, t = history.round_trips, there.attempts + 1, there.acks, there.round_trips
    cut = replace(
        history,
        attempt_lsn=history.attempt_lsn[:a],
        attempt_ns=history.attempt_ns[:a],
        attempt_guest_ns=history.attempt_guest_ns[:a],
        ack_lsn=history.ack_lsn[:k],
        ack_ns=history.ack_ns[:k],
        ack_guest_ns=history.ack_guest_ns[:k],
        round_trips=RoundTrips(trips.sent_ns[:t], trips.guest_ns[:t], trips.received_ns[:t]),
    )
    evidence = gather(evidence.timeline, cut, RUN, evidence.layout, deep=True)
    assert prove_acks(evidence, exposure(evidence)).basis is AckBasis.CLOCK
    assert {lsn for span in exposure(evidence).exposed_lsns for lsn in span} == set(struck)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("struck", [(), (100, 298, 299, 300, 301, 500)])
def test_a_restarted_guest_has_another_clock_and_its_early_acks_alone_are_found(struck, seed):
    run = Run(
        600, moved_at=300, away_ns=80 * MS, restarted=True, rate=1e-3, seed=seed,
        ahead_ns=2 * MS, struck=struck,
    )  # fmt: skip
    evidence, history = run.make()
    assert history.attempt_lsn[298:301].tolist() == [299, 300, 300]
    assert evidence.dating.basis is AckBasis.CLOCK
    assert found(run) == set(struck)
    (there,) = history.handovers
    dated = evidence.dating.earliest_ns
    assert (dated[there.acks :] >= there.stopped_ns).all()
    assert (dated[: there.acks] < there.stopped_ns).all()


def test_the_same_history_without_its_restart_leaves_the_verdict_open():
    _, history = Run(600, moved_at=300, away_ns=80 * MS, restarted=True).make()
    for handovers in ((), (replace(history.handovers[0], restarted=False),)):
        assert date_acks(replace(history, handovers=handovers)).basis is AckBasis.RECEIPT


def test_marks_in_the_disks_own_log_are_exact():
    evidence, history = Run(20).make()
    marked = replace(history, marked=True, round_trips=RoundTrips.none())
    again = gather(evidence.timeline, marked, RUN, evidence.layout, deep=True)
    proof = prove_acks(again, exposure(again))
    assert (proof.basis, proof.window_ns, proof.unproved) == (AckBasis.MARK, 0, ())
    assert check_acks(proof) == []


def test_a_write_of_a_record_dates_its_attempt_where_every_message_is_late():
    """The disk saw the record 5 ms before the controller heard of anything."""
    evidence, history = Run(200).make()
    late = replace(
        history,
        ack_ns=history.ack_ns + 5 * MS,
        attempt_ns=history.attempt_ns + 5 * MS,
        round_trips=replace(
            history.round_trips, received_ns=history.round_trips.received_ns + 5 * MS
        ),
    )
    with_disk = date_acks(late, evidence.timeline, evidence.runs, evidence.layout)
    without = date_acks(late)
    assert with_disk.window_ns.max() < 500 * US
    assert without.window_ns.min() > 4 * MS
