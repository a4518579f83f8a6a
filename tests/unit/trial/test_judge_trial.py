# SPDX-License-Identifier: Apache-2.0
"""The judge, on whole recordings: what convicts, what acquits, and what does neither.

Each gap in the evidence is planted into a trial that is SAFE without it.
"""

from __future__ import annotations

import os

import pytest

from powercut.channel.wire import MessageType
from powercut.checkers.agreement import NOT_JUDGED
from powercut.disk.pclog_format import EVENT
from powercut.model.contract import CutKind, CutPolicy, Honour
from powercut.model.errors import DamagedRecording
from powercut.model.failure import Failure
from powercut.model.observation import Extent, Observation
from powercut.model.verdict import FindingKind, LsnRange, Verdict
from powercut.recording.sealed import open_trial
from powercut.wal.layout import SlotState

RECORD = 512
LIAR = {"flush": Honour.IGNORED}


def five(trial):
    trial.commit(5)


def kinds(result):
    return [(finding.kind, finding.verdict) for finding in result.findings]


def messages(result):
    return " | ".join(finding.message for finding in result.findings)


INCOMPLETE = (FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE)


def test_an_honest_disk_is_safe_with_everything_counted(played):
    result = played(five).judged()
    assert (result.verdict, result.findings) == (Verdict.SAFE, ())
    assert (result.commits_acked, result.commits_attempted, result.commits_lost) == (5, 5, 0)
    assert (result.exposure.records, result.exposure.longest_ms) == (0, 0)
    assert result.loss is None


def test_a_guest_that_answers_no_ping_is_not_judged_by_receipts(played):
    """Whatever a bundle says of its guest: an ack that came too early would look the same."""

    def silent(trial):
        trial.answers_pings = False
        trial.commit(5)

    result = played(silent).judged()
    assert kinds(result) == [INCOMPLETE]
    assert "no ping was answered" in messages(result)


def test_a_disk_that_lies_about_flushes_has_lost_all_and_is_convicted_twice(played):
    result = played(five, disk=LIAR).judged()
    assert kinds(result) == [
        (FindingKind.EXPOSED, Verdict.LOSSY),
        (FindingKind.LOST, Verdict.LOSSY),
    ]
    assert {finding.lsns for finding in result.findings} == {(LsnRange(1, 5),)}
    assert (result.exposure.records, result.exposure.never_durable) == (5, 5)
    assert result.loss is not None


def test_an_ack_before_its_flush_is_exposed_although_nothing_is_lost(played):
    def early(trial):
        trial.commit(3)
        trial.write()
        trial.ack()
        trial.client.flush()

    result = played(early).judged()
    assert kinds(result) == [(FindingKind.EXPOSED, Verdict.LOSSY)]
    assert result.findings[0].lsns == (LsnRange(4, 4),)


def test_a_record_that_was_acknowledged_and_never_written(played):
    def forgotten(trial):
        trial.commit(3)
        trial.lsn += 1
        trial.say(MessageType.ATTEMPT, lsn=4)
        trial.ack()

    result = played(forgotten).judged()
    assert kinds(result) == [
        (FindingKind.EXPOSED, Verdict.LOSSY),
        (FindingKind.LOST, Verdict.LOSSY),
    ]
    assert result.findings[0].detail["never_written"] == 1
    assert {finding.lsns for finding in result.findings} == {(LsnRange(4, 4),)}


@pytest.mark.parametrize("place", [64, 72, 200, 505, 511])
def test_a_bit_that_was_wrong_when_it_was_written_is_never_durable(played, place):
    """Every word of every record is compared, whichever word of its chunk it is."""

    def damaged(trial):
        trial.commit(2)
        data = bytearray(trial.record(3))
        data[place] ^= 4
        trial.write(bytes(data))
        trial.client.flush()
        trial.ack()

    result = played(damaged).judged()
    assert kinds(result) == [
        (FindingKind.EXPOSED, Verdict.LOSSY),
        (FindingKind.CORRUPT, Verdict.LOSSY),
    ]
    assert {finding.lsns for finding in result.findings} == {(LsnRange(3, 3),)}


def test_an_attempt_that_the_cut_swallowed_is_seen_on_the_disk(played):
    def swallowed(trial):
        trial.commit(3)
        trial.write(attempt=False)
        trial.client.flush()

    result = played(swallowed).judged()
    assert (result.verdict, result.findings) == (Verdict.SAFE, ())
    assert (result.commits_acked, result.commits_attempted) == (3, 4)


def test_nothing_acknowledged_is_nothing_known(played):
    result = played(lambda trial: trial.write()).judged()
    assert kinds(result) == [INCOMPLETE]


def test_a_history_that_was_cut_short_acquits_nobody(played):
    result = played(five, end=False).judged()
    assert kinds(result) == [INCOMPLETE]
    assert "the history of acks was cut off" in messages(result)


def test_a_workload_that_failed_acquits_nobody(played):
    def failed(trial):
        trial.say(MessageType.READY)
        trial.commit(5)
        trial.say(MessageType.ERROR, value=5, payload=b"fdatasync /dev/vda")

    result = played(failed).judged()
    assert kinds(result) == [INCOMPLETE]
    assert "the workload failed: fdatasync /dev/vda" in messages(result)


def test_a_trial_in_trouble_acquits_nobody_and_still_convicts(played):
    result = played(five, trouble="the guest hung").judged()
    assert kinds(result) == [INCOMPLETE]
    assert messages(result) == "the guest hung"
    convicted = played(five, trouble="the guest hung", disk=LIAR).judged()
    assert convicted.verdict is Verdict.LOSSY


def test_a_guest_that_does_not_see_what_was_promised_acquits_nobody(played):
    result = played(five, guest_facts={}).judged()
    assert {finding.kind for finding in result.findings} == {FindingKind.NOT_AS_CONFIGURED}
    assert result.verdict is Verdict.INCONCLUSIVE


def drop_last_event(prefix):
    """Cuts the last event off a disk's log: it was not closed in order."""
    path = prefix.with_suffix(".log")
    os.truncate(path, path.stat().st_size - EVENT.itemsize)


def test_a_disk_log_that_was_not_closed_acquits_nobody(played):
    """A run without a cut of the disk ends with END; without it later acks may be missing."""
    made = played(five)
    assert made.judged().verdict is Verdict.SAFE
    drop_last_event(made.directory.disk_log)
    result = made.judged()
    assert result.verdict is Verdict.INCONCLUSIVE
    assert INCOMPLETE in kinds(result)


def test_a_recovery_log_that_was_not_closed_acquits_nobody(played):
    made = played(five)
    drop_last_event(made.directory.recovery_log)
    result = made.judged()
    assert kinds(result) == [INCOMPLETE]
    assert "its log was not closed properly" in messages(result)


def test_what_acquits_nobody_is_told_of_the_crash_states_too(played):
    """They are judged by the same history: a later ack may be missing in it."""

    def failed(trial):
        trial.say(MessageType.READY)
        trial.commit(5)
        trial.say(MessageType.ERROR, value=5, payload=b"fdatasync /dev/vda")

    for play, how, gaps in (
        (five, {}, ()),
        (five, {"end": False}, ("the history of acks was cut off: later ones may be missing",)),
        (five, {"trouble": "the guest hung"}, ("the guest hung",)),
        (failed, {}, (f"the workload failed: fdatasync /dev/vda: {os.strerror(5)} (EIO)",)),
    ):
        assert open_trial(played(play, **how).directory).gaps == gaps
    made = played(five)
    drop_last_event(made.directory.disk_log)
    assert open_trial(made.directory).gaps == (
        "the disk log was not closed: later requests are missing",
    )


@pytest.mark.parametrize("mark", ["failing reads: EIO", "refusing requests: ENOSPC"])
def test_a_disk_that_its_host_failed_acquits_nobody(played, mark):
    """The disk marks that it was failed (docs/formats/disk-log.md)."""

    def marked(words):
        def play(trial):
            trial.commit(5)
            trial.disk.mark(words)

        return play

    assert played(marked("half time")).judged().verdict is Verdict.SAFE
    result = played(marked(mark)).judged()
    assert kinds(result) == [INCOMPLETE]
    assert f"I/O error on the host, below the disk under test: {mark}" in messages(result)
    result = played(five, mark_after_cut=mark).judged()
    assert kinds(result) == [INCOMPLETE]
    assert f"the disk failed during recovery: {mark}" in messages(result)


@pytest.mark.parametrize("mark", ["failing reads: EIO", "refusing requests: ENOSPC"])
def test_a_disk_that_its_host_failed_convicts_nobody(played, mark):
    """An ack after a request that the host refused is no loss of the disk's."""

    def marked(words):
        def play(trial):
            trial.commit(4)
            trial.disk.mark(words)
            trial.write()
            trial.ack()

        return play

    convicted = played(marked("half time")).judged()
    assert convicted.verdict is Verdict.LOSSY
    assert convicted.commits_lost == 1
    made = played(marked(mark))
    result = made.judged()
    assert (result.verdict, result.commits_lost) == (Verdict.INCONCLUSIVE, 0)
    assert "no loss, since its host failed the disk" in messages(result)
    with pytest.raises(DamagedRecording, match=f"below the disk under test .{mark}"):
        open_trial(made.directory)


def test_a_payload_that_was_damaged_on_the_host_convicts_nobody(played):
    made = played(five)
    path = made.directory.disk_log.with_suffix(".data")
    data = bytearray(path.read_bytes())
    data[RECORD + 100] ^= 1
    path.write_bytes(bytes(data))
    result = made.judged()
    assert kinds(result) == [INCOMPLETE]
    assert "damaged payload" in messages(result)


@pytest.mark.parametrize("name", ["disk_log", "history", "recovery_log"])
def test_evidence_that_cannot_be_read_acquits_nobody(played, name):
    made = played(five)
    path = getattr(made.directory, name)
    path = path if path.suffix else path.with_suffix(".log")
    path.write_bytes(b"")
    result = made.judged()
    assert result.verdict is Verdict.INCONCLUSIVE
    assert INCOMPLETE in kinds(result)


def test_an_observation_that_cannot_be_read_acquits_nobody(played):
    made = played(five)
    (made.directory.path / "observation.json").write_text("{}")
    result = made.judged()
    assert kinds(result) == [INCOMPLETE]


def test_a_trial_without_its_record_cannot_be_judged(played):
    made = played(five)
    (made.directory.path / "trial.json").unlink()
    with pytest.raises(DamagedRecording):
        made.judged()


@pytest.mark.parametrize(
    "cause", [Failure.MOUNT_NO_MEMORY, Failure.READER_KILLED, Failure.DEADLINE]
)
def test_recovery_in_trouble_acquits_nobody_and_convicts_nobody(played, cause):
    result = played(five, observe=lambda _: Observation.failed(cause, "it failed")).judged()
    assert kinds(result) == [INCOMPLETE]
    assert result.findings[0].detail["cause"] == cause.label
    assert cause.remedy in messages(result)


def test_a_system_that_did_not_recover_is_lost(played):
    damaged = Observation.failed(Failure.MOUNT_DAMAGED, "mount xfs: Structure needs cleaning")
    result = played(five, observe=lambda _: damaged).judged()
    assert kinds(result) == [(FindingKind.NOT_RECOVERED, Verdict.LOSSY)]
    assert result.findings[0].detail["cause"] == "mount-damaged"


def test_a_machine_that_was_only_killed_convicts_no_cache(played):
    """What QEMU wrote stays in the host's page cache: the volatile cache survives."""

    def cached(trial):
        trial.commit(3)
        trial.write()
        trial.client.flush()
        trial.ack()

    result = played(cached, disk=LIAR, kind=CutKind.VM_KILL, policy=CutPolicy.KEEP).judged()
    assert (result.verdict, result.findings) == (Verdict.SAFE, ())


# --- bytes: not judged ---------------------------------------------------------------


def hidden(trial):
    """A workload whose bytes the scan cannot recognise: each is inverted on the disk."""
    trial.lsn = 0
    for _ in range(5):
        data = bytes(byte ^ 0xFF for byte in trial.record(trial.lsn + 1))
        trial.write(data)
        trial.client.flush()
        trial.ack()


def all_back(_):
    return Observation((Extent(0, 5, SlotState.INTACT, 1),))


def test_bytes_that_the_scan_does_not_know_are_not_judged(played):
    result = played(hidden, observe=all_back).judged()
    assert kinds(result) == [INCOMPLETE]
    assert result.findings[0].lsns == (LsnRange(1, 5),)
    assert NOT_JUDGED in messages(result)
    assert "bug in powercut" not in messages(result)
    assert result.exposure is None


def test_what_did_not_come_back_is_lost_whatever_the_scan_knows(played):
    four = Observation((Extent(0, 4, SlotState.INTACT, 1),))
    result = played(hidden, observe=lambda _: four).judged()
    assert (FindingKind.LOST, Verdict.LOSSY) in kinds(result)
    assert NOT_JUDGED in messages(result)


def test_bytes_that_are_not_known_and_no_recovery_to_know_better(played):
    lost = Observation.failed(Failure.DEADLINE, "late")
    result = played(hidden, observe=lambda _: lost).judged()
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.exposure is None


def test_an_early_ack_among_records_that_are_seen_is_exposed_all_the_same(played):
    def mixed(trial):
        trial.commit(2)
        trial.write()
        trial.ack()
        trial.client.flush()
        hidden_record = bytes(byte ^ 0xFF for byte in trial.record(4))
        trial.write(hidden_record)
        trial.client.flush()
        trial.ack()

    four = Observation((Extent(0, 4, SlotState.INTACT, 1),))
    result = played(mixed, observe=lambda _: four).judged()
    assert kinds(result) == [(FindingKind.EXPOSED, Verdict.LOSSY), INCOMPLETE]
    assert [finding.lsns for finding in result.findings] == [(LsnRange(3, 3),), (LsnRange(4, 4),)]


def test_a_record_that_was_seen_and_came_back_from_nowhere_is_a_contradiction(played):
    """Its bytes were written and did not survive; still it is there."""

    def cached(trial):
        trial.commit(4)
        trial.write()
        trial.ack()

    result = played(cached, observe=all_back).judged()
    assert (FindingKind.DISAGREEMENT, Verdict.INCONCLUSIVE) in kinds(result)
    assert "a bug in powercut" in messages(result)
    assert NOT_JUDGED not in messages(result)
