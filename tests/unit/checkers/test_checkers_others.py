# SPDX-License-Identifier: Apache-2.0
"""Agreement, exposure, environment, controls, and the sum of all."""

from handmade import Handmade, history

from powercut.checkers.agreement import check_agreement, explain_losses
from powercut.checkers.judge import judge, run_checkers
from powercut.checkers.reading import reading_of
from powercut.checkers.wal import check_log
from powercut.crash.exposure import analyse
from powercut.model.exposure import Survival
from powercut.model.observation import Extent, Observation
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut.verdict.controls import ControlOutcome, check_controls
from powercut.verdict.records import check_environment, check_exposure
from powercut.wal import record as wal
from powercut.wal.layout import LayoutKind, SlotState, WalLayout

APPEND = WalLayout(LayoutKind.APPEND, record=64)
RAW = WalLayout(LayoutKind.RAW, record=64, capacity=640)
RUN_ID = bytes(16)
ALL = LsnRange(1, 10)
INTACT_7 = Observation((Extent(0, 7, SlotState.INTACT, 1),))


def agreement(lost, layout, uncertain=(), observation=INTACT_7):
    reading = reading_of(ALL, 10, observation, layout)
    return check_agreement(reading, Survival(ALL, lost, uncertain), layout)


def test_the_same_losses_agree():
    for layout in (APPEND, RAW):
        assert agreement((LsnRange(8, 10),), layout) == []


def test_a_record_whose_bytes_are_nowhere_cannot_come_back():
    for layout in (APPEND, RAW):
        (finding,) = agreement((LsnRange(6, 10),), layout)
        assert (finding.kind, finding.verdict) == (FindingKind.DISAGREEMENT, Verdict.INCONCLUSIVE)
        assert finding.lsns == (LsnRange(6, 7),)
        assert "a bug in powercut" in finding.message


def test_bytes_on_the_medium_of_a_raw_log_must_come_back():
    (finding,) = agreement((LsnRange(9, 10),), RAW)
    assert finding.kind is FindingKind.DISAGREEMENT
    assert finding.lsns == (LsnRange(8, 8),)


def test_bytes_on_the_medium_of_a_file_may_be_unreachable():
    predicted = Survival(ALL, (LsnRange(9, 10),), ())
    assert agreement((LsnRange(9, 10),), APPEND) == []
    losses = check_log(ALL, 10, INTACT_7, APPEND)
    (explained,) = explain_losses(losses, predicted, APPEND)
    assert explained.lsns == (LsnRange(8, 10),)
    assert explained.unreachable == (LsnRange(8, 8),)
    assert explain_losses(losses, predicted, RAW) == losses


def test_garbage_in_the_place_of_bytes_that_are_on_the_medium_is_not_named_by_the_analysis():
    garbage = Observation(
        (Extent(0, 7, SlotState.INTACT, 1), Extent(7, 3, SlotState.CORRUPT, 0, 5))
    )
    losses = check_log(ALL, 10, garbage, APPEND)
    (explained,) = explain_losses(losses, Survival(ALL, (LsnRange(9, 10),), ()), APPEND)
    assert (explained.kind, explained.unreachable) == (FindingKind.CORRUPT, (LsnRange(8, 8),))


def test_uncertain_predictions_agree_with_everything():
    assert agreement((LsnRange(9, 10),), RAW, uncertain=(LsnRange(8, 8),)) == []
    assert agreement((LsnRange(8, 10),), RAW, uncertain=(LsnRange(3, 3),)) == [], "it came back"


def test_a_slot_that_cannot_be_read_contradicts_nothing():
    unreadable = Observation(
        (Extent(0, 7, SlotState.INTACT, 1), Extent(7, 3, SlotState.UNREADABLE, 0, 5))
    )
    assert agreement((LsnRange(9, 10),), RAW, observation=unreadable) == []


def exposure_of(done):
    made = Handmade(4096)
    record = wal.record_bytes(RUN_ID, 0, 1, prev_lsn=0, generation=0, position=0, record_size=64)
    made.write(0, record, at=10, done=20)
    made.flush(at=30, done=done)
    return analyse(made.timeline(), history([(1, 35)]), RUN_ID, APPEND)


def test_an_exposed_record_is_named_with_its_write_and_epoch():
    assert check_exposure(exposure_of(34)) == []
    (finding,) = check_exposure(exposure_of(40))
    assert (finding.kind, finding.verdict) == (FindingKind.EXPOSED, Verdict.LOSSY)
    assert finding.lsns == (LsnRange(1, 1),)
    assert finding.detail["longest_ns"] == 5
    assert (finding.detail["longest_write"], finding.detail["longest_epoch"]) == (0, 0)


def test_a_timeline_without_its_end_is_inconclusive():
    (finding,) = check_exposure(exposure_of(34), timeline_complete=False)
    assert (finding.kind, finding.verdict) == (FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE)


def record_1(made):
    data = wal.record_bytes(RUN_ID, 0, 1, prev_lsn=0, generation=0, position=0, record_size=64)
    made.write(0, data, at=10, done=20)
    made.flush(at=30, done=34)


def test_a_record_that_is_written_over_after_its_ack_is_exposed_though_it_was_durable():
    made = Handmade(4096)
    record_1(made)
    made.zero(0, 512, at=60, done=70)
    report = analyse(made.timeline(), history([(1, 40)]), RUN_ID, APPEND)
    assert int(report.exposed_ns[0]) == 0
    (finding,) = check_exposure(report)
    assert (finding.kind, finding.verdict) == (FindingKind.EXPOSED, Verdict.LOSSY)
    assert finding.lsns == (LsnRange(1, 1),)
    assert finding.detail["written_over"] == 1


def test_records_acknowledged_beyond_the_end_of_the_recording_are_named():
    made = Handmade(4096)
    record_1(made)
    timeline = made.timeline(complete=False)
    report = analyse(timeline, history([(1, 32), (2, 500)]), RUN_ID, APPEND)
    (_, unknown) = check_exposure(report, timeline_complete=False)
    assert (unknown.kind, unknown.verdict) == (FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE)
    assert unknown.lsns == (LsnRange(2, 2),)


def test_the_guest_must_see_what_was_promised():
    promised = {"write_cache": "write back", "fua": "0"}
    assert check_environment({"write_cache": "write back\n", "fua": "0"}, promised) == []
    findings = check_environment({"write_cache": "write through"}, promised)
    assert [f.detail["fact"] for f in findings] == ["write_cache", "fua"]
    assert {f.verdict for f in findings} == {Verdict.INCONCLUSIVE}


def test_controls_must_come_to_what_they_had_to():
    lying = ControlOutcome("lying-disk", Verdict.LOSSY, Verdict.LOSSY)
    blind = ControlOutcome("no-sync", Verdict.LOSSY, Verdict.SAFE)
    ghosts = ControlOutcome("honest", Verdict.SAFE, Verdict.LOSSY)
    assert check_controls([lying], Verdict.SAFE) == []
    assert len(check_controls([lying, blind], Verdict.SAFE)) == 1
    assert len(check_controls([ghosts], Verdict.LOSSY)) == 1
    (finding,) = check_controls([], Verdict.SAFE)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert check_controls([], Verdict.LOSSY) == []


def test_the_worst_finding_wins():
    safe = Finding(FindingKind.EXPOSED, Verdict.SAFE, "")
    lossy = Finding(FindingKind.LOST, Verdict.LOSSY, "")
    assert judge([]) is Verdict.SAFE
    assert judge([lossy, safe]) is Verdict.LOSSY


def test_a_checker_that_fails_has_not_passed():
    def broken():
        raise KeyError("slot")

    judged = run_checkers({"fine": list, "wal": broken})
    assert judged.verdict is Verdict.INCONCLUSIVE
    assert "wal checker failed: KeyError" in judged.findings[0].message
    assert run_checkers({}).verdict is Verdict.INCONCLUSIVE
    assert run_checkers({"fine": list}).verdict is Verdict.SAFE
