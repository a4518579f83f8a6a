# SPDX-License-Identifier: Apache-2.0
"""Exposure and survival in cases that a person can follow, with exact LSNs and instants."""

import numpy as np
import pytest
from handmade import Handmade, history

from powercut.crash import places, scan
from powercut.crash.evidence import gather
from powercut.crash.exposure import analyse
from powercut.crash.survival import survival
from powercut.model.contract import DeviceContract, Honour
from powercut.model.errors import PowercutError
from powercut.model.timeline import SurvivingRange
from powercut.model.units import NEVER, Instant
from powercut.model.verdict import LsnRange
from powercut.wal import record as wal
from powercut.wal.layout import LayoutKind, WalLayout

RUN_ID = bytes(range(16))
RAW = WalLayout(LayoutKind.RAW, record=512, capacity=4096)  # 8 slots
FILE = WalLayout(LayoutKind.APPEND, record=512)
PACKED = WalLayout(LayoutKind.APPEND, record=192)


def records(first, last, layout=RAW, run_id=RUN_ID):
    return b"".join(
        wal.record_bytes(
            run_id,
            0,
            lsn,
            prev_lsn=lsn - 1,
            generation=int(layout.generations_of(np.array([lsn], dtype=np.uint64))[0]),
            position=layout.position_of(lsn),
            record_size=layout.record,
        )
        for lsn in range(first, last + 1)
    )


def exposed(timeline, claims, layout=RAW, **options):
    report = analyse(timeline, claims, RUN_ID, layout, **options)
    return [(r.first, r.last) for r in report.exposed_lsns], report


def test_write_flush_ack_is_not_exposed():
    made = Handmade(8192)
    made.write(0, records(1, 4), at=1, done=2)
    made.flush(at=3, done=4)
    ranges, report = exposed(made.timeline(), history([(4, 5)]))
    assert ranges == []
    assert report.durable_ns.tolist() == [4] * 4
    assert report.bytes_scanned == 2048


def test_a_flush_submitted_before_the_write_completed_covers_nothing():
    made = Handmade(8192)
    made.write(0, records(1, 1), at=1, done=4)
    made.flush(at=3, done=5)
    ranges, report = exposed(made.timeline(), history([(1, 6)]))
    assert ranges == [(1, 1)]
    assert report.never_durable_lsns == (LsnRange(1, 1),)
    assert (report.write.tolist(), report.epoch.tolist()) == ([0], [0])


def test_early_ack_is_exposed_until_the_flush_ends():
    made = Handmade(8192)
    made.write(0, records(1, 2), at=1, done=2)
    made.flush(at=5, done=9)
    ranges, report = exposed(made.timeline(), history([(1, 3), (2, 12)]))
    assert ranges == [(1, 1)]
    assert report.exposed_ns.tolist() == [6, 0]


@pytest.mark.parametrize(
    ("contract", "lossy"),
    [
        (DeviceContract(), False),
        (DeviceContract(flush=Honour.IGNORED), True),
        (DeviceContract(flush=Honour.IGNORED, volatile_cache=False), False),
        (DeviceContract(fua=Honour.IGNORED), False),
    ],
)
def test_what_the_contract_ignores_makes_nothing_durable(contract, lossy):
    made = Handmade(8192, contract)
    made.write(0, records(1, 1), at=1, done=2)
    made.flush(at=3, done=4)
    ranges, _ = exposed(made.timeline(), history([(1, 5)]))
    assert ranges == ([(1, 1)] if lossy else [])


def test_fua_counts_from_its_completion_and_only_if_honoured():
    for fua, lossy in ((Honour.HONOURED, []), (Honour.IGNORED, [(1, 1)])):
        made = Handmade(8192, DeviceContract(fua=fua))
        made.write(0, records(1, 1), at=1, done=2, fua=True)
        assert exposed(made.timeline(), history([(1, 3)]))[0] == lossy


def test_bytes_that_were_never_written():
    made = Handmade(8192)
    made.write(0, records(1, 2), at=1, done=2, fua=True)
    ranges, report = exposed(made.timeline(), history([(4, 5)]))
    assert ranges == [(3, 4)]
    assert report.write.tolist() == [0, 0, -1, -1]


def test_a_record_spread_over_two_writes_waits_for_both():
    made = Handmade(8192)
    page = records(1, 3, PACKED)
    made.write(0, page[:512], at=1, done=2, fua=True)
    made.write(512, page[512:] + bytes(448), at=3, done=4)
    made.flush(at=8, done=9)
    ranges, report = exposed(made.timeline(), history([(3, 5)]), PACKED)
    assert ranges == [(3, 3)]  # record 3 begins in the first sector and ends in the second
    assert report.durable_ns.tolist() == [2, 2, 9]
    assert report.write.tolist() == [0, 0, 1]


def test_the_rewritten_tail_of_a_page_stays_durable():
    made = Handmade(8192)
    made.write(0, records(1, 1, FILE) + bytes(3584), at=1, done=2)
    made.flush(at=3, done=4)
    made.write(0, records(1, 2, FILE) + bytes(3072), at=6, done=7)  # never flushed
    ranges, report = exposed(made.timeline(), history([(1, 5), (2, 8)]), FILE)
    assert ranges == [(2, 2)]
    assert report.durable_ns.tolist() == [4, NEVER]


def test_a_recycled_slot_gives_up_its_old_record_lawfully():
    made = Handmade(8192)
    made.write(0, records(1, 8), at=1, done=2, fua=True)
    made.write(0, records(9, 10), at=10, done=11, fua=True)
    claims = history([(8, 3), (10, 12)], [(8, 0), (10, 9)])
    assert exposed(made.timeline(), claims)[0] == []
    # the message of the attempt came in after the write: the write itself is the attempt
    late = history([(8, 3), (10, 12)], [(8, 0), (10, 13)])
    assert exposed(made.timeline(), late)[0] == []


def test_an_older_record_written_over_a_required_one():
    made = Handmade(8192)
    made.write(0, records(1, 8), at=1, done=2, fua=True)
    made.write(0, records(9, 9), at=3, done=4, fua=True)
    made.write(0, records(1, 1), at=10, done=11)  # a replay of the generation before
    claims = history([(8, 5), (9, 6)], [(9, 0)])
    ranges, report = exposed(made.timeline(), claims)
    assert ranges == [(9, 9)]
    assert report.undone_ns[8] == 10
    assert report.exposed_ns[8] == 0


@pytest.mark.parametrize("verb", ["discard", "zero"])
def test_discards_and_zeroes_over_a_record_lose_it(verb):
    made = Handmade(1 << 30)
    made.write(0, records(1, 4), at=1, done=2, fua=True)
    getattr(made, verb)(1024, 1 << 29, at=10)
    ranges, report = exposed(made.timeline(), history([(4, 5)]))
    assert ranges == [(3, 4)]
    assert report.undone_ns.tolist() == [NEVER, NEVER, 10, 10]


def test_overlapping_writes_in_flight_together_may_land_in_either_order():
    made = Handmade(8192)
    made.write(0, bytes(512), at=1, done=5)
    made.write(0, records(1, 1), at=2, done=6)
    made.flush(at=7, done=8)
    assert exposed(made.timeline(), history([(1, 9)]))[0] == [(1, 1)]


def test_a_journal_holds_a_file_s_record_until_it_is_reused():
    made = Handmade(1 << 20)
    made.write(65536, records(1, 1, FILE), at=1, done=2)  # journal
    made.flush(at=3, done=4)
    made.write(0, records(1, 1, FILE), at=10, done=11)  # home
    made.flush(at=12, done=13)
    made.write(65536, bytes(512), at=20, done=21)
    assert exposed(made.timeline(), history([(1, 5)]), FILE)[0] == []
    # Reused before the record was durable at home: exposed in between.
    made = Handmade(1 << 20)
    made.write(65536, records(1, 1, FILE), at=1, done=2, fua=True)
    made.write(65536, bytes(512), at=8, done=9)
    made.write(0, records(1, 1, FILE), at=10, done=11, fua=True)
    ranges, report = exposed(made.timeline(), history([(1, 5)]), FILE)
    assert ranges == [(1, 1)]
    assert report.undone_ns.tolist() == [8]


def test_in_a_raw_log_only_the_right_place_counts():
    made = Handmade(8192)
    made.write(512, records(1, 1), at=1, done=2, fua=True)
    assert exposed(made.timeline(), history([(1, 3)]))[0] == [(1, 1)]
    assert exposed(made.timeline(), history([(1, 3)]), FILE)[0] == []


@pytest.mark.parametrize(
    ("run_id", "wrong_bit", "chunks"),
    [(RUN_ID, None, 8), (bytes(16), None, 0), (RUN_ID, 300, 7), (RUN_ID, 20, 7)],
)
def test_records_of_other_runs_and_damaged_chunks_do_not_count(run_id, wrong_bit, chunks):
    found = bytearray(records(1, 1, FILE, run_id))
    if wrong_bit is not None:
        found[wrong_bit] ^= 8
    made = Handmade(8192)
    made.write(0, bytes(found), at=1, done=2, fua=True)
    evidence = gather(made.timeline(), history([(3, 3)]), RUN_ID, FILE, deep=True)
    assert int(evidence.runs.count.sum()) == chunks


def test_a_single_chunk_is_believed_only_if_all_its_words_agree():
    one = bytearray(records(5, 5)[64:128])
    made = Handmade(8192)
    made.write(64, bytes(one), at=1, done=2)
    one[60] ^= 1
    made.write(256, bytes(one), at=3, done=4)
    runs = scan.scan(made.timeline(), RUN_ID, FILE, 10)
    assert (runs.write.tolist(), runs.place.tolist(), runs.count.tolist()) == ([0], [1], [1])


def test_payload_that_does_not_follow_on_is_read_all_the_same():
    made = Handmade(8192)
    made.write(0, records(1, 1), at=1, done=2, fua=True)
    made._data += b"a mark, say"  # something else stands between the payloads
    made.write(512, records(2, 2), at=3, done=4, fua=True)
    assert exposed(made.timeline(), history([(2, 5)]))[0] == []


def test_a_write_of_odd_size_is_refused_with_its_number():
    made = Handmade(8192)
    made.write(0, bytes(100), at=1, done=2)
    with pytest.raises(PowercutError, match=r"write 0 \(100 bytes at 0\)"):
        analyse(made.timeline(), history([(1, 3)]), RUN_ID, RAW)


def test_a_timeline_without_its_end_says_nothing_about_later_acks():
    made = Handmade(8192)
    made.write(0, records(1, 2), at=1, done=2)
    ranges, report = exposed(made.timeline(complete=False), history([(1, 1), (2, 5)]))
    assert ranges == [(1, 1)]
    assert report.unknown_lsns == (LsnRange(2, 2),)


def test_an_ack_received_after_the_cut_was_made_before_it():
    made = Handmade(8192)
    made.write(0, records(1, 2), at=1, done=2)
    made.flush(at=3, done=11)
    assert exposed(made.timeline(cut_at=10), history([(2, 15)]))[0] == [(1, 2)]
    assert exposed(made.timeline(cut_at=12), history([(2, 15)]))[0] == []


def test_records_of_an_earlier_recording_are_not_asked_for():
    made = Handmade(8192)
    made.write(1024, records(3, 4), at=1, done=2, fua=True)
    ranges, report = exposed(made.timeline(), history([(4, 3)]), first_lsn=3)
    assert ranges == []
    assert report.lsn.tolist() == [3, 4]


def test_windows_change_nothing(monkeypatch):
    made = Handmade(1 << 20)
    for first in range(1, 400, 10):
        made.write(
            (first - 1) % 40 * 512, records(first, first + 9), at=first * 10, done=first * 10 + 3
        )
        if first % 30 == 1:
            made.flush(at=first * 10 + 5, done=first * 10 + 8)
    layout = WalLayout(LayoutKind.RAW, record=512, capacity=40 * 512)
    claims = history(
        [(first + 9, first * 10 + 9) for first in range(1, 400, 10)],
        [(first + 9, first * 10 - 1) for first in range(1, 400, 10)],
    )
    whole = analyse(made.timeline(), claims, RUN_ID, layout)
    monkeypatch.setattr(places, "WINDOW_CHUNKS", 16)
    monkeypatch.setattr(scan, "BLOCK", 700)
    parts = analyse(made.timeline(), claims, RUN_ID, layout)
    for name in ("durable_ns", "exposed_ns", "undone_ns", "write", "epoch"):
        assert (getattr(whole, name) == getattr(parts, name)).all()
    assert 0 < int(whole.exposed.sum()) < 400


# --- survival -----------------------------------------------------------------


def test_survival_counts_promises_destaged_and_surviving_ranges():
    made = Handmade(8192)
    made.write(0, records(1, 1), at=1, done=2)
    made.flush(at=3, done=4)
    made.write(512, records(2, 3), at=5, done=6)
    made.write(1536, records(4, 5), at=7, done=8)
    timeline = made.timeline(
        cut_at=20,
        destaged=[SurvivingRange(2, 512, 512, Instant(9))],
        survived=[SurvivingRange(3, 2048, 512, Instant(21))],
    )
    found = survival(gather(timeline, history([(5, 12)]), RUN_ID, RAW, deep=True))
    assert found.lost == (LsnRange(3, 4),)
    assert found.uncertain == ()


def test_a_later_write_that_survived_hides_an_earlier_one():
    made = Handmade(8192)
    made.write(0, records(1, 1), at=1, done=2, fua=True)
    made.write(0, bytes(512), at=3)
    timeline = made.timeline(cut_at=5, survived=[SurvivingRange(1, 0, 512, Instant(5))])
    assert survival(gather(timeline, history([(1, 4)]), RUN_ID, RAW, deep=True)).lost == (
        LsnRange(1, 1),
    )


def test_without_a_cut_what_is_in_flight_is_uncertain():
    made = Handmade(8192)
    made.write(0, records(1, 1), at=1, done=2)
    made.write(512, records(2, 2), at=3)
    found = survival(gather(made.timeline(), history([(3, 4)]), RUN_ID, RAW, deep=True))
    assert (found.lost, found.uncertain) == ((LsnRange(3, 3),), (LsnRange(2, 2),))


def test_a_chunk_torn_within_itself_is_no_chunk_and_hides_what_it_covers():
    made = Handmade(8192, DeviceContract(atomic_unit=1))
    made.write(0, records(1, 3), at=1, done=2)
    timeline = made.timeline(cut_at=5, survived=[SurvivingRange(0, 0, 700, Instant(5))])
    found = survival(gather(timeline, history([(3, 4)]), RUN_ID, RAW, deep=True))
    assert (found.lost, found.uncertain) == ((LsnRange(2, 3),), ())
    made.flush(at=6, done=7)
    made.write(0, records(1, 3), at=8, done=9)  # the same bytes, torn over themselves
    timeline = made.timeline(cut_at=12, survived=[SurvivingRange(2, 0, 700, Instant(12))])
    found = survival(gather(timeline, history([(3, 10)]), RUN_ID, RAW, deep=True))
    assert (found.lost, found.uncertain) == ((), (LsnRange(2, 2),))


def test_bits_that_were_wrong_when_written_are_lost():
    made = Handmade(8192)
    flipped = bytearray(records(1, 2))
    flipped[300] ^= 8
    made.write(0, bytes(flipped), at=1, done=2, fua=True)
    found = survival(gather(made.timeline(cut_at=5), history([(2, 4)]), RUN_ID, RAW, deep=True))
    assert found.lost == (LsnRange(1, 1),)
