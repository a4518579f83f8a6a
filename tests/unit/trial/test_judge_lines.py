# SPDX-License-Identifier: Apache-2.0
"""The judge of programs, on whole recordings without a guest: what its host did convicts nobody.

The program is played: operation N writes sector N of a real capture disk, and its check finds the
operations that a test says.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from contextlib import suppress
from dataclasses import replace

import google_crc32c
import pytest
from nbd_client import NbdClient, NbdError
from patience import AMPLE_S

from powercut.channel.lines import header, pack
from powercut.disk.capture import CaptureDisk
from powercut.disk.pclog_format import EVENT
from powercut.explore.explorer import explore
from powercut.explore.state_judge import StateJudge
from powercut.model.contract import CutPolicy
from powercut.model.creation import UNKNOWN_CREATION, Creation
from powercut.model.errors import DamagedRecording, UsageError
from powercut.model.observation import Continuation, Observation
from powercut.model.operations import Packet
from powercut.model.outside import UNKNOWN_OUTSIDE, Outside
from powercut.model.positive import Whole
from powercut.model.reads import UNKNOWN_READS, CheckReads
from powercut.model.verdict import FindingKind, LsnRange, Verdict
from powercut.recording.sealed import SealedTrial, open_trial
from powercut.rig import commands
from powercut.rig.engine_choice import EngineChoice
from powercut.scenario.plan import Trial, Trigger, TriggerKind
from powercut.scenario.settings import (
    ControlKind,
    DiskSettings,
    ExploreSettings,
    FilesystemSettings,
    Parameters,
)
from powercut.scenario.settings_program import ProgramSettings
from powercut.store import trial_dir
from powercut.store.trial_dir import TrialDir, TrialRecord, new_recording
from powercut.verdict.judge import judge_recording
from powercut.verdict.states import with_states

SECTOR = 4096
OPERATIONS = 20
ALL = b"= 0-19\n"
ALL_BUT_ONE = b"= 0-6\n= 8-19\n"


@pytest.fixture
def recorded(tmp_path):
    """Makes a recording of which the check finds `there` after the cut."""

    def make(
        there,
        *,
        mark="",
        mark_after="",
        damage=(),
        shift_s=0,
        first_s=0,
        trouble="",
        operations=OPERATIONS,
        said=(),
        run="run",
        control=None,
        recovered=True,
        issued=ALL,
        ended=None,
        reads=None,
        creation=None,
        outside=None,
        errors=(),
        armed=True,
        early=(),
        unflushed=(OPERATIONS - 1,),
        budget="auto",
        idle=0,
    ):
        """The clock of the first half of the lines is off by `first_s`, that of the second by
        `shift_s`; `said` are lines at the end.  A request that fails is not repeated, and its
        operation is acknowledged all the same.  Those of `early` are acknowledged before they are
        written; those of `unflushed` are never flushed, and the last `idle` ones never written.
        """
        directory = TrialDir(tmp_path / run / "trial", tmp_path / run)
        directory.path.mkdir(parents=True)
        settings = Parameters(
            disk=DiskSettings(size=2 << 20, errors=errors),
            filesystem=FilesystemSettings(type="ext4"),
            workload=ProgramSettings(kind="program", command=("/bin/program",)),
            explore=ExploreSettings(budget=budget),
        )
        directory.base_image.write_bytes(bytes(settings.disk.size))
        record = TrialRecord(
            powercut="0", scenario="played", cell="a", parameters=settings,
            trial=Trial(1, 1, 1, Trigger(TriggerKind.ACKS, 1)), run_id="00" * 16,
            recording=new_recording(), damage=damage, trouble=trouble, control=control,
            reads=reads, creation=creation,
 outside=outside,
        )  # fmt: skip
        directory.write_record(record)
        trial_dir = directory.read_binding()
        config = commands.capture_config(
            settings, trial_dir, base=directory.base_image, log=directory.disk_log, sockets=None
        )
        packets = []
        with CaptureDisk(config) as disk:
            if armed:
                disk.inject()
            with NbdClient(disk.socket) as client:
                for number in range(operations):
                    packets.append(Packet(time.monotonic_ns(), b"? %d\n" % number))
                    ack = b"+ %d\n" % number
                    if number in early:
                        packets.append(Packet(time.monotonic_ns(), ack))
                    if number < operations - idle:
                        with suppress(NbdError):
                            client.write(number * SECTOR, bytes([number + 1]) * SECTOR)
                            if number not in unflushed:
                                client.flush()
                    if number not in early:
                        packets.append(Packet(time.monotonic_ns(), ack))
                packets += [Packet(time.monotonic_ns(), line) for line in said]
            if mark:
                disk.mark(mark)
            cut = disk.cut(CutPolicy.DROP, 1, directory.recovery_log, timeout_s=AMPLE_S)
            if mark_after:
                disk.mark(mark_after)
        half = len(packets) // 2
        packets = [
            Packet(p.at_ns + (first_s if at < half else shift_s) * 10**9, p.data)
            for at, p in enumerate(packets)
        ]
        directory.lines.write_bytes(header(trial_dir) + b"".join(map(pack, packets)))
        directory.write_record(record.model_copy(update={"cut_ns": int(cut.at)}))
        directory.write_untouched(Observation(()))
        directory.write_observation(Observation((), recovered=recovered, lines=there))
        if issued is not None:
            directory.write_whole(directory.issued, Observation((), lines=issued))
        if ended is not None:
            directory.write_whole(directory.ended, Observation((), later=ended))
        directory.seal_recording()
        return directory

    return make


def test_an_intact_recording_acquits_and_convicts(recorded):
    result = judge_recording(SealedTrial(recorded(ALL)))
    assert (result.verdict, result.findings) == (Verdict.SAFE, ())
    assert (result.commits_acked, len(result.binding)) == (OPERATIONS, 64)


def test_an_operation_that_is_gone_is_lost_trouble_or_not(recorded):
    result = judge_recording(
        SealedTrial(recorded(ALL_BUT_ONE, trouble="the program ended with status 1"))
    )
    assert result.verdict is Verdict.LOSSY
    lost = [finding for finding in result.findings if finding.kind is FindingKind.LOST]
    assert [finding.lsns for finding in lost] == [(LsnRange(7, 7),)]


def test_an_operation_that_was_never_tried_is_there_by_no_cut_of_a_recorded_disk(recorded):
    result = judge_recording(SealedTrial(recorded(b"= 0-20\n")))
    assert (result.verdict, result.commits_lost) == (Verdict.LOSSY, 0)
    (finding,) = result.findings
    assert (finding.kind, finding.lsns) == (FindingKind.NEVER_ATTEMPTED, (LsnRange(20, 20),))


def test_an_error_that_was_met_is_named_and_its_loss_is_its_own(recorded):
    error = {"on": "write", "nth": 8}
    result = judge_recording(SealedTrial(recorded(ALL_BUT_ONE, errors=(error,))))
    assert (result.verdict, result.lost_lsns) == (Verdict.LOSSY, (LsnRange(7, 7),))
    (met,) = result.injected
    assert met.startswith("write, request 14: EIO, ")
    assert result.loss is not None
    said = [step.text for step in result.loss.steps]
    assert "the disk fails request 14, as it was told to" in said
    assert "operation 7 is acknowledged as durable, although request 14 had failed" in said


def test_errors_are_named_by_kind_with_the_first_of_each(recorded):
    errors = ({"on": "flush", "nth": 3}, {"on": "write", "nth": 8, "times": 5})
    result = judge_recording(SealedTrial(recorded(ALL, errors=errors)))
    told = [re.sub(r"[0-9.]+ s after", "N s after", one) for one in result.injected]
    assert told == [
        "flush, request 5: EIO, N s after power-on",
        "write, request 14: EIO, N s after power-on, the first of 5",
    ]


def test_an_honest_program_on_a_disk_with_errors_is_safe(recorded):
    result = judge_recording(
        SealedTrial(recorded(ALL, errors=({"on": "discard"}, {"on": "write", "nth": 20})))
    )
    assert (result.verdict, len(result.injected)) == (Verdict.SAFE, 1)


@pytest.mark.parametrize("armed", [True, False])
def test_an_error_that_no_request_met_proves_nothing(recorded, armed):
    result = judge_recording(SealedTrial(recorded(ALL, errors=({"on": "fua"},), armed=armed)))
    assert result.verdict is Verdict.INCONCLUSIVE
    (why,) = [finding.message for finding in result.findings]
    assert why == "no request met an error of disk.errors: nothing of them was tested"


@pytest.mark.parametrize("trouble", ["the guest never booted", ""])
def test_an_absent_first_check_is_told_once(recorded, trouble):
    directory = recorded(ALL_BUT_ONE, trouble=trouble)
    directory.untouched.unlink()
    directory.seal_recording()
    result = judge_recording(SealedTrial(directory))
    assert (result.verdict, result.commits_lost) == (Verdict.INCONCLUSIVE, 0)
    (reason,) = [finding.message for finding in result.findings]
    assert trouble in reason
    assert ("untouched.json: No such file" in reason) is (not trouble)


def test_a_trial_that_failed_before_it_ran_names_its_cause_alone(recorded):
    why = "./mydb setup /mnt/data ended with status 1: no room"
    directory = recorded(ALL_BUT_ONE, trouble=why)
    for path in directory.path.iterdir():
        if path.name != "trial.json":
            path.unlink()
    directory.seal_recording()
    result = judge_recording(SealedTrial(directory))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert [finding.message for finding in result.findings] == [why]


@pytest.mark.parametrize("name", ["disk.log", "lines.bin"])
def test_what_is_missing_of_one_that_ran_is_named_beside_its_trouble(recorded, name):
    directory = recorded(ALL_BUT_ONE, trouble="the program ended with status 1")
    (directory.path / name).unlink()
    directory.seal_recording()
    said = [finding.message for finding in judge_recording(SealedTrial(directory)).findings]
    assert any(f"{name}: No such file" in one for one in said)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"mark": "failing reads: EIO"}, "below the disk under test: failing reads: EIO"),
        (
            {"mark": "refusing requests: ENOSPC"},
            "below the disk under test: refusing requests: ENOSPC",
        ),
        ({"mark": "failing syncs: EIO"}, "below the disk under test: failing syncs: EIO"),
        ({"mark_after": "failing reads: EIO"}, "during recovery: failing reads: EIO"),
        ({"damage": ("lines were lost",)}, "lines were lost"),
        ({"shift_s": -60}, "went back"),
        ({"first_s": -60, "shift_s": -60}, "they are of another clock"),
    ],
    ids=["reads", "requests", "syncs", "recovery", "lines", "clock", "another-clock"],
)
def test_a_recording_that_its_host_damaged_convicts_nobody(recorded, how, why):
    result = judge_recording(SealedTrial(recorded(ALL_BUT_ONE, **how)))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.commits_lost == 0
    assert any(why in finding.message for finding in result.findings)


def test_a_disk_log_that_was_not_closed_convicts_nobody(recorded):
    directory = recorded(ALL_BUT_ONE)
    log = directory.disk_log.with_suffix(".log")
    os.truncate(log, log.stat().st_size - EVENT.itemsize)
    directory.seal_recording()
    result = judge_recording(SealedTrial(directory))
    assert (result.verdict, result.commits_lost) == (Verdict.INCONCLUSIVE, 0)


# --- the positive control: where nothing was lost, the check finds every ack ------------


def ran(acks, found, *, failure=""):
    """A run that ended without a cut: it acknowledged `acks`, and the check found `found`."""
    lines = b"".join(b"? %d\n+ %d\n" % (number, number) for number in range(acks))
    return Continuation(0, 0, 0, Observation((), lines=found), failure=failure, lines=lines)


@pytest.mark.parametrize(
    ("there", "issued", "ended", "verdict", "where", "found"),
    [
        (ALL, None, None, Verdict.SAFE, Whole.CUT, 20),
        (ALL_BUT_ONE, ALL, None, Verdict.LOSSY, Whole.ISSUED, 20),
        (ALL_BUT_ONE, ALL_BUT_ONE, ran(36, b"= 0-35\n"), Verdict.LOSSY, Whole.ENDED, 20),
        (ALL_BUT_ONE, ALL_BUT_ONE, ran(36, b"= 0-19\n"), Verdict.LOSSY, Whole.ENDED, 20),
        (b"", b"", ran(36, b""), Verdict.INCONCLUSIVE, Whole.ENDED, 0),
        (b"= 0-9\n", b"= 0-9\n", ran(36, b"= 0-9\n"), Verdict.INCONCLUSIVE, Whole.ENDED, 10),
        (b"= 0-9\n", b"= 0-9\n", ran(10, b"= 0-9\n"), Verdict.INCONCLUSIVE, Whole.ENDED, 10),
        (b"", b"", ran(36, b"= 0-35\nbad no\n"), Verdict.INCONCLUSIVE, Whole.ENDED, 20),
        (b"", b"", ran(36, b"= 0-35\nx 3 no\n"), Verdict.INCONCLUSIVE, Whole.ENDED, 19),
        (ALL_BUT_ONE, b"= 0-6\n", None, Verdict.INCONCLUSIVE, Whole.ISSUED, 7),
        (ALL_BUT_ONE, None, None, Verdict.INCONCLUSIVE, Whole.CUT, 19),
    ],
    ids=[
        "honest", "lost-by-the-disk", "never-synced", "late-ones-are-forgiven", "typo",
        "half", "run-too-short", "always-bad", "always-wrong", "no-other-run", "nothing-to-go-by",
    ],
)  # fmt: skip
def test_a_check_convicts_only_if_it_finds_what_is_there(
    recorded, there, issued, ended, verdict, where, found
):
    result = judge_recording(SealedTrial(recorded(there, issued=issued, ended=ended)))
    assert (result.verdict, result.positive.where, result.positive.found) == (verdict, where, found)
    assert result.positive.passed is (verdict is not Verdict.INCONCLUSIVE)
    assert result.commits_lost == (verdict is Verdict.LOSSY)


@pytest.mark.parametrize(("also", "never"), [(b"", True), (b"x 7 torn\n", False)])
def test_what_is_there_and_wrong_with_every_write_was_written(recorded, also, never):
    result = judge_recording(
        SealedTrial(recorded(ALL_BUT_ONE, issued=ALL_BUT_ONE + also, ended=ran(36, b"= 0-35\n")))
    )
    (lost,) = [one for one in result.findings if one.kind is FindingKind.LOST]
    assert (lost.lsns, "never written" in lost.message) == ((LsnRange(7, 7),), never)


@pytest.mark.parametrize(
    ("issued", "ended", "said"),
    [
        (b"", ran(36, b""), "it found 0 of 20 operations after a run that ended without a power "
         "cut, where nothing was lost; not found: 0-19"),
        (b"", ran(9, b"= 0-8\n", failure="it ended"), "where nothing was lost, the program "
         "acknowledged only 9 of 20 operations (it ended)"),
        (b"", replace(ran(36, b""), outside=("/var/tmp/t/1", "/tmp/2")), "not found: 0-19; outside "
         "of DIR the program wrote /var/tmp/t/1 and 1 more files, which no crash state has"),
        (None, None, "nothing shows that the check sees what is there: it found 0 of 20"),
    ],
    ids=["typo", "short", "outside", "none"],
)  # fmt: skip
def test_what_the_check_did_not_see_is_told(recorded, issued, ended, said):
    result = judge_recording(SealedTrial(recorded(b"", issued=issued, ended=ended)))
    (control,) = [one for one in result.findings if one.kind is FindingKind.CONTROL]
    assert said in control.message


@pytest.mark.parametrize(
    ("there", "reads", "verdict", "told"),
    [
        (ALL, CheckReads(2, ("a", "b")), Verdict.INCONCLUSIVE, "did not read a, b"),
        (ALL, CheckReads(2, ("b",)), Verdict.SAFE, "what 1 of 2 files"),
        (ALL, CheckReads(2), Verdict.SAFE, ""),
        (ALL, CheckReads(0), Verdict.SAFE, ""),
        (ALL, None, Verdict.SAFE, UNKNOWN_READS),
        (ALL_BUT_ONE, None, Verdict.LOSSY, ""),
        (ALL_BUT_ONE, CheckReads(1, ("a",)), Verdict.LOSSY, "did not read a"),
    ],
    ids=["nothing", "a-part", "all", "no-files", "unknown", "lossy", "lossy-and-blind"],
)
def test_a_check_that_reads_nothing_acquits_nobody(recorded, there, reads, verdict, told):
    result = judge_recording(SealedTrial(recorded(there, reads=reads)))
    assert result.verdict is verdict
    said = [one for one in result.untested if "the check" in one]
    assert len(said) == bool(told)
    assert told in "".join(said)
    blind = [one for one in result.findings if one.kind is FindingKind.CONTROL]
    assert bool(blind) is (reads is not None and len(reads.unread) == reads.written > 0)


LED = Outside(("/tmp/x",), ("data/l leads to /tmp/x",))


@pytest.mark.parametrize(
    ("there", "outside", "verdict", "told"),
    [
        (ALL, LED, Verdict.INCONCLUSIVE, "/tmp/x"),
        (ALL, Outside(("/tmp/x",), alone=True), Verdict.INCONCLUSIVE, "/tmp/x"),
        (ALL, Outside(("/tmp/x",)), Verdict.SAFE, "/tmp/x"),
        (ALL, Outside(alone=True), Verdict.SAFE, ""),
        (ALL, Outside(), Verdict.SAFE, ""),
        (ALL, None, Verdict.SAFE, UNKNOWN_OUTSIDE),
        (ALL_BUT_ONE, LED, Verdict.LOSSY, "/tmp/x"),
    ],
    ids=["led-out", "alone", "a-pid-file", "names-alone", "nothing", "unknown", "lossy"],
)
def test_values_outside_of_the_folder_acquit_nobody(recorded, there, outside, verdict, told):
    result = judge_recording(SealedTrial(recorded(there, outside=outside)))
    assert result.verdict is verdict
    doubts = [one.message for one in result.findings if one.kind is FindingKind.CONTROL]
    assert bool(doubts) is (outside is not None and bool(outside.doubt))
    said = [*doubts, *(one for one in result.untested if "outside of DIR" in one)]
    assert len(said) == bool(told)  # once
    assert told in "".join(said)


@pytest.mark.parametrize(
    ("there", "creation", "verdict", "told"),
    [
        (ALL, Creation(2, ("a", "b")), Verdict.INCONCLUSIVE, "loses all that `setup` made (a, b)"),
        (ALL, Creation(2, ("b",)), Verdict.SAFE, "1 of 2 files that `setup` made"),
        (ALL, Creation(2), Verdict.SAFE, "a power cut during `setup`"),
        (ALL, Creation(0), Verdict.SAFE, "a power cut during `setup`"),
        (ALL, None, Verdict.SAFE, "what `setup` made: it was durable before"),
        (ALL_BUT_ONE, Creation(1, ("a",)), Verdict.LOSSY, "loses all that `setup` made (a)"),
    ],
    ids=["all-gone", "a-part", "durable", "no-files", "unknown", "lossy"],
)
def test_a_store_that_survives_no_cut_after_setup_is_not_safe(
    recorded, there, creation, verdict, told
):
    result = judge_recording(SealedTrial(recorded(there, creation=creation)))
    assert result.verdict is verdict
    doubts = [one.message for one in result.findings if "sync it in `setup`" in one.message]
    assert bool(doubts) is (creation is not None and len(creation.lost) == creation.made > 0)
    (said,) = [*doubts, *(one for one in result.untested if "`setup`" in one)]  # once
    assert told in said


def test_an_operation_that_was_tried_and_not_acknowledged_need_not_be_found(recorded):
    lines = b"".join(b"? %d\n+ %d\n" % (number, number) for number in range(36)) + b"? 36\n"
    run = Continuation(0, 0, 0, Observation((), lines=b"= 0-35\n"), lines=lines)
    assert (
        judge_recording(SealedTrial(recorded(ALL_BUT_ONE, issued=b"", ended=run))).verdict
        is Verdict.LOSSY
    )


def test_a_control_that_must_lose_need_not_show_that_its_check_sees(recorded):
    directory = recorded(b"", issued=None)
    record = directory.read_record()
    directory.write_record(record.model_copy(update={"control": ControlKind.LYING_DISK}))
    directory.write_untouched(Observation(()))
    result = judge_recording(SealedTrial(directory))
    assert result.positive is None


class NoStates:
    """Crash states that nobody may ask for."""

    def recovered(self, trial, *, decided):
        raise AssertionError(trial, decided)

    def map_cut(self, trial):
        raise AssertionError(trial)


def test_no_state_of_a_recording_convicts_whose_check_does_not_see(recorded):
    directory = recorded(b"", issued=b"", ended=ran(36, b""))
    result = judge_recording(SealedTrial(directory))
    assert with_states(SealedTrial(directory), result, NoStates()) == result
    with pytest.raises(UsageError, match="does not see what is there"):
        StateJudge(open_trial(directory), EngineChoice("uml"))
    with pytest.raises(UsageError, match="does not see what is there"):
        explore(SealedTrial(directory))


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"operations": 9}, "9 operations were acknowledged"),
        ({"said": (b"+ 0\n",)}, "acknowledges operation 0 twice"),
        ({"said": (b"+ 9999\n",)}, "acknowledges operation 9999, which it never tried"),
        ({"said": (b"nonsense\n",)}, "no line of the contract"),
    ],
    ids=["few", "twice", "never-tried", "garbage"],
)
def test_what_keeps_a_run_from_being_safe(recorded, how, why):
    result = judge_recording(
        SealedTrial(recorded(b"= 0-%d\n" % (how.get("operations", OPERATIONS) - 1), **how))
    )
    assert (result.verdict, result.commits_lost) == (Verdict.INCONCLUSIVE, 0)
    assert any(why in finding.message for finding in result.findings)


@pytest.mark.parametrize("name", ["disk.log", "lines.bin"])
def test_a_file_of_another_recording_is_refused(recorded, name):
    """The same program with the same seed, which was honest that time."""
    lossy, other = recorded(ALL_BUT_ONE), recorded(ALL, run="other")
    shutil.copy(other.path / name, lossy.path / name)
    lossy.seal_recording()
    result = judge_recording(SealedTrial(lossy))
    assert result.verdict is not Verdict.SAFE
    assert any("of another recording" in finding.message for finding in result.findings)


def test_another_contract_than_that_of_the_disk_is_refused(recorded):
    """The header of its log was changed, checksum included, and names the right recording."""
    directory = recorded(ALL)
    log = directory.disk_log.with_suffix(".log")
    raw = bytearray(log.read_bytes())
    raw[28] ^= 2  # PCLOG_FLUSH_HONOURED of `contract`, in harness/capture/log_format.h
    raw[252:256] = google_crc32c.value(bytes(raw[:252])).to_bytes(4, "little")
    log.write_bytes(raw)
    directory.seal_recording()
    result = judge_recording(SealedTrial(directory))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert any("flush: ignored, and honoured" in finding.message for finding in result.findings)


def test_another_instant_of_the_cut_is_refused(recorded):
    directory = recorded(ALL)
    record = directory.read_record()
    directory.write_record(record.model_copy(update={"cut_ns": record.cut_ns - 1}))
    directory.seal_recording()
    result = judge_recording(SealedTrial(directory))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert any("not that of this cut" in finding.message for finding in result.findings)
    with pytest.raises(DamagedRecording, match="not that of this cut"):
        open_trial(directory)


def test_a_log_without_its_cut_has_no_crash_states(recorded):
    directory = recorded(ALL)
    log = directory.disk_log.with_suffix(".log")
    os.truncate(log, log.stat().st_size - 2 * EVENT.itemsize)  # that, and the end
    directory.seal_recording()
    with pytest.raises(DamagedRecording, match="not that of this cut"):
        open_trial(directory)


def test_a_check_that_finds_operations_after_setup_alone_is_not_believed(recorded):
    directory = recorded(ALL_BUT_ONE)
    directory.write_untouched(Observation((), lines=b"= 63\n"))
    directory.seal_recording()
    result = judge_recording(SealedTrial(directory))
    assert (result.verdict, result.commits_lost) == (Verdict.INCONCLUSIVE, 0)
    assert any("on the disk on which only `setup` has run" in f.message for f in result.findings)


@pytest.mark.parametrize(
    ("control", "there", "recovered", "verdict"),
    [
        (None, ALL, False, Verdict.LOSSY),
        (ControlKind.LYING_DISK, ALL, False, Verdict.INCONCLUSIVE),
        (ControlKind.LYING_DISK, ALL_BUT_ONE, True, Verdict.LOSSY),
    ],
)
def test_a_disk_that_does_not_mount_shows_nothing_of_a_check(
    recorded, control, there, recovered, verdict
):
    """A disk that lies leaves file systems that do not mount: no check has noticed anything."""
    directory = recorded(there, control=control, recovered=recovered)
    assert judge_recording(SealedTrial(directory)).verdict is verdict


# --- what is sealed again by another hand ------------------------------------------------

CLAIMS = {
    "trouble": ("", "no power"),
    "damage": ([], ["lines were lost"]),
    "pressed": ({"writebacks": 9, "commits": 9}, {}),
    "reads": (None, {"written": 9, "unread": []}),
    "outside": (None, {"files": []}),
    "creation": (None, {"made": 9, "lost": [], "acked": True}),
    "versions": ({}, {"qemu": "1"}),
    "program_files": ({}, {"p": "1"}),
    "guest_facts": ({}, {"cache": "write through"}),
    "recovery_facts": ({}, {"cache": "write through"}),
    "timings_s": ({}, {"workload": 1.0}),
    "extra": ({}, {"control": "lying-disk"}),
    "withheld": ({},),
    "powercut": ("9",),
}


def sealed_again(directory, **claims):
    path = directory.path / "trial.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | claims))
    directory.seal_recording()
    directory.check_seal()
    return judge_recording(SealedTrial(directory))


def test_what_is_claimed_is_bound_or_tried_here():
    """`format` is checked, and the instant of the cut stands in the disk log, too."""
    assert set(TrialRecord.model_fields) == {*trial_dir._COVERED, *CLAIMS, "format", "cut_ns"}


def test_no_claim_that_is_sealed_again_acquits_what_lost(recorded):
    directory = recorded(ALL_BUT_ONE, reads=CheckReads(1, ("a",)))
    said = [
        sealed_again(directory, **{name: value}).verdict
        for name, values in CLAIMS.items()
        for value in values
    ]
    last = {name: values[0] for name, values in CLAIMS.items()}
    said.append(sealed_again(directory, **last).verdict)
    assert Verdict.SAFE not in said
    assert said[-1] is Verdict.LOSSY


def test_what_is_left_out_of_a_claim_is_said_not_to_be_known(recorded):
    """The one who seals can take a doubt away, and not put a certainty in its place unseen."""
    doubts = {"reads": CheckReads(1, ("a",)), "outside": LED, "creation": Creation(1, ("a",))}
    directory = recorded(ALL, **doubts)
    assert judge_recording(SealedTrial(directory)).verdict is Verdict.INCONCLUSIVE
    result = sealed_again(directory, **dict.fromkeys(doubts))
    assert result.verdict is Verdict.SAFE
    assert {UNKNOWN_READS, UNKNOWN_OUTSIDE, UNKNOWN_CREATION} <= set(result.untested)
