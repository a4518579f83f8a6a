# SPDX-License-Identifier: Apache-2.0
"""How one record was lost, from recordings whose every event is known."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from handmade import Handmade, history

from powercut.crash.evidence import Evidence, gather
from powercut.crash.exposure import exposure
from powercut.model.contract import DeviceContract, Honour
from powercut.model.verdict import Finding, FindingKind, LsnRange, Origin, Verdict
from powercut.report.page import telling
from powercut.report.page.sequence import Step, loss_svg, sequence_svg, witness_svg
from powercut.scenario.plan import Trial, Trigger, TriggerKind
from powercut.store.trial_dir import TrialDir
from powercut.store.trial_result import TrialResult
from powercut.store.witness import DroppedWrite, Witness, WitnessEvent
from powercut.verdict.loss_story import story_of
from powercut.wal.layout import LayoutKind, WalLayout
from powercut.wal.record import record_bytes

RUN_ID = bytes(range(16))
MS = 1_000_000
LAYOUT = WalLayout(LayoutKind.RAW, record=512, capacity=32 * 512)
ALL = [LsnRange(1, 2)]


def record(lsn: int) -> bytes:
    place = {"prev_lsn": lsn - 1, "generation": 0, "position": (lsn - 1) * 512, "record_size": 512}
    return record_bytes(RUN_ID, 0, lsn, **place)


def two_commits(contract: DeviceContract, *, flushed: bool = True, fua: bool = False) -> Evidence:
    """Write, flush, ack; twice; and the cut.  Instants in milliseconds: 10, 12, 14 and so on."""
    made = Handmade(disk_size=64 << 10, contract=contract)
    for number in range(2):
        at = (10 + 10 * number) * MS
        made.write(number * 512, record(number + 1), at=at + MS, done=at + 2 * MS, fua=fua)
        if flushed:
            made.flush(at=at + 3 * MS, done=at + 4 * MS)
    acks = [(1, 15 * MS), (2, 25 * MS)]
    claims = history(acks, [(1, 10 * MS), (2, 20 * MS)])
    return gather(made.timeline(cut_at=40 * MS), claims, RUN_ID, LAYOUT, deep=True)


def told(evidence: Evidence) -> list[tuple[float | None, str, str, str]]:
    story = story_of(evidence, exposure(evidence), ALL)
    assert story is not None
    assert story.lsn == 2
    assert story.start_ns == 20 * MS
    return [
        (None if step.at_ns is None else step.at_ns / MS, step.lane, step.sign, step.text)
        for step in story.steps
    ]


def test_a_flush_that_the_disk_ignores():
    assert told(two_commits(DeviceContract(flush=Honour.IGNORED))) == [
        (20, "workload", "point", "the workload announces record 2"),
        (21, "write", "begin", "the disk takes write 2 with record 2: 512 bytes at 512"),
        (22, "write", "end", "write 2 is reported done: it lies in the disk's volatile cache"),
        (23, "flush", "begin", "a flush reaches the disk, which ignores it"),
        (24, "flush", "end", "the flush is reported done"),
        (25, "workload", "ack", "record 2 is acknowledged as durable"),
        (40, "power", "cut", "the power is cut, 15 ms after the ack"),
        (None, "workload", "gone", "after recovery record 2 is gone"),
    ]


def test_a_flush_that_never_came():
    lines = told(two_commits(DeviceContract(), flushed=False))
    assert [line[2] for line in lines] == ["point", "begin", "end", "ack", "cut", "gone"]
    assert lines[3][3] == (
        "record 2 is acknowledged as durable, although no flush has reached the disk since its "
        "write"
    )


def test_fua_that_the_disk_ignores():
    lines = told(two_commits(DeviceContract(fua=Honour.IGNORED), flushed=False, fua=True))
    assert lines[1][3].endswith("512 bytes at 512, with FUA")
    assert lines[2][3] == (
        "write 1 is reported done: it lies in the disk's volatile cache; its FUA is ignored"
    )


def test_bytes_that_were_durable_and_are_gone_all_the_same():
    lines = told(two_commits(DeviceContract()))
    assert lines[-1][3] == (
        "after recovery record 2 is gone. Its own bytes were durable; what leads to them "
        "(a size, a map) was not"
    )


def test_bytes_that_never_came():
    made = Handmade(disk_size=64 << 10)
    claims = history([(2, 25 * MS)], [(2, 20 * MS)])
    evidence = gather(made.timeline(cut_at=40 * MS), claims, RUN_ID, LAYOUT, deep=True)
    lines = told(evidence)
    assert [line[2] for line in lines] == ["point", "ack", "cut", "gone"]
    assert lines[1][3].endswith("although no write with all of it has reached the disk")


def test_no_story_of_what_was_not_lost_or_not_cut():
    evidence = two_commits(DeviceContract())
    assert story_of(evidence, exposure(evidence), [LsnRange(7, 9)]) is None
    made = Handmade(disk_size=64 << 10)
    uncut = gather(made.timeline(), history([(1, 5)]), RUN_ID, LAYOUT, deep=True)
    assert story_of(uncut, exposure(uncut), ALL) is None


def test_the_drawing_says_everything_in_order():
    evidence = two_commits(DeviceContract(flush=Honour.IGNORED))
    story = story_of(evidence, exposure(evidence), ALL)
    assert story is not None
    root = ET.fromstring(loss_svg(story))
    texts = [element.text for element in root.iter("text")]
    assert texts[:5] == ["ms", "workload", "write", "flush", "power"]
    assert [text for text in texts if text in {"0.000", "1.000", "3.000", "20.000"}] == [
        "0.000",
        "1.000",
        "3.000",
        "20.000",
    ]
    assert len([one for one in root.iter("rect") if one.get("class") == "flight"]) == 2
    ys = [float(one.get("y") or 0) for one in root.iter("text")]
    assert max(ys) < float(root.get("viewBox", "").split()[3])


def test_long_sentences_are_folded_and_hostile_ones_escaped():
    steps = [Step(0, "a", "point", "<b> " + "word " * 60), Step(5, "nowhere", "note", "x")]
    root = ET.fromstring(sequence_svg(steps, ["a"], 0, "<i>"))
    assert root.get("aria-label") == "<i>"
    lines = [one.text for one in root.iter("text") if one.get("class") == "said"]
    assert len(lines) > 3
    assert lines[0] is not None
    assert lines[0].startswith("<b> word")
    assert sequence_svg([], ["a"], 0, "") == ""


@pytest.fixture
def witness() -> Witness:
    write = DroppedWrite(
        request=12, kind="write", fua=False, offset=4096, length=512, dropped=((4096, 4608),),
        epoch=1, submitted_ns=1 * MS, completed_ns=2 * MS, why="no flush had been sent", parts=(),
    )  # fmt: skip
    events = (
        WitnessEvent(at_ns=1 * MS, kind="submit", text="write 12: 512 bytes", request=12),
        WitnessEvent(at_ns=2 * MS, kind="complete", text="write 12 completes", request=12),
        WitnessEvent(at_ns=3 * MS, kind="flush", text="a flush is sent", request=13),
        WitnessEvent(at_ns=5 * MS, kind="ack", text="record 1 is acknowledged"),
        WitnessEvent(at_ns=6 * MS, kind="cut", text="the power is cut"),
    )
    return Witness(
        powercut="0", recording="r", start="durable@5", state="s1", crash_state={},
        instant_ns=6 * MS, start_ns=0, required=LsnRange(1, 1),
        lost=(LsnRange(1, 1),), kinds=(FindingKind.LOST,),
        message="gone", volatile=3, dropped_before=3, dropped=(write,), minimal=True, tests=4,
        engine="raw", confirmed="yes", events=events,
        cause="Record 1 is lost <if> 1 write is lost.",
    )  # fmt: skip


def test_a_witness_is_drawn(witness: Witness):
    root = ET.fromstring(witness_svg(witness))
    texts = [element.text for element in root.iter("text")]
    assert texts[:5] == ["ms", "w12", "flush", "ack", "power"]
    # The write was in flight until it completed, the flush until the cut.
    assert len([one for one in root.iter("rect") if one.get("class") == "flight"]) == 2
    assert "order" in witness_svg(witness.model_copy(update={"imported": True}))


def test_the_report_of_a_run_shows_the_witness(made, witness: Witness):
    from powercut.report.publish import write_reports
    from powercut.store.witness import write_witness

    lossy = next(cell for cell in made.run.cells if cell.commits_lost)
    trial = made.directory.at(lossy.trials[0].result_directory)
    write_witness(trial.path, witness)
    text = write_reports(made.directory).read_text()
    assert "Record 1 is lost &lt;if&gt; 1 write is lost." in text
    assert 'class="sequence"' in text
    assert "Confirmed: the recorded system itself loses it, too." in text


def test_what_a_crash_state_might_have_lost_is_no_loss_of_the_cut():
    """A crash state might have lost record 1; the cut itself lost record 2."""
    kind = FindingKind.LOST
    result = TrialResult.judged(
        Trial(1, 1, 1, Trigger(TriggerKind.ACKS, 2)),
        verdict=Verdict.LOSSY,
        acked=2,
        attempted=2,
        findings=[
            Finding(kind, Verdict.LOSSY, "gone", (LsnRange(1, 1),), origin=Origin.EXPLORATION),
            Finding(kind, Verdict.LOSSY, "gone", (LsnRange(2, 2),)),
        ],
    )
    assert [finding.lsns for finding in result.live_losses] == [(LsnRange(2, 2),)]


def test_a_story_is_drawn_as_it_was_stored_and_an_older_result_has_none(tmp_path):
    evidence = two_commits(DeviceContract(flush=Honour.IGNORED))
    story = story_of(evidence, exposure(evidence), ALL)
    result = TrialResult.judged(
        Trial(1, 1, 1, Trigger(TriggerKind.ACKS, 2)),
        verdict=Verdict.LOSSY,
        acked=2,
        attempted=2,
        findings=[Finding(FindingKind.LOST, Verdict.LOSSY, "gone", (LsnRange(2, 2),))],
        loss=story,
    )
    stored = TrialResult.model_validate_json(result.model_dump_json())
    assert stored == result
    trial = TrialDir(tmp_path, tmp_path)  # whose recording is gone
    assert "the disk takes write 2" in telling.tell_trial(trial, stored, "a").sequence
    older = stored.model_copy(update={"loss": None})
    assert telling.tell_trial(trial, older, "a").sequence == ""
