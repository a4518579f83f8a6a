# SPDX-License-Identifier: Apache-2.0
"""The judge of programs, on whole recordings without a guest: what its host did convicts nobody.

The program is played: operation N writes sector N of a real capture disk, and its check finds the
operations that a test says.
"""

from __future__ import annotations

import os
import time

import pytest
from nbd_client import NbdClient

from powercut.channel.lines import header, pack
from powercut.disk.capture import CaptureDisk
from powercut.disk.pclog_format import EVENT
from powercut.model.contract import CutPolicy
from powercut.model.observation import Observation
from powercut.model.operations import Packet
from powercut.model.verdict import FindingKind, LsnRange, Verdict
from powercut.rig import commands
from powercut.scenario.plan import Trial, Trigger, TriggerKind
from powercut.scenario.settings import DiskSettings, FilesystemSettings, Parameters
from powercut.scenario.settings_program import ProgramSettings
from powercut.store.binding import new_recording
from powercut.store.trial_dir import TrialDir, TrialRecord
from powercut.verdict.judge import judge_recording

SECTOR = 4096
OPERATIONS = 20
ALL = b"= 0-19\n"
ALL_BUT_ONE = b"= 0-6\n= 8-19\n"


@pytest.fixture
def recorded(tmp_path):
    """Makes a recording of which the check finds `there` after the cut."""

    def make(there, *, mark="", damage=(), shift_s=0, trouble=""):
        directory = TrialDir(tmp_path / "run" / "trial", tmp_path / "run")
        directory.path.mkdir(parents=True)
        settings = Parameters(
            disk=DiskSettings(size=2 << 20),
            filesystem=FilesystemSettings(type="ext4"),
            workload=ProgramSettings(kind="program", command=("/bin/program",)),
        )
        directory.base_image.write_bytes(bytes(settings.disk.size))
        record = TrialRecord(
            powercut="0", scenario="played", cell="a", parameters=settings,
            trial=Trial(1, 1, 1, Trigger(TriggerKind.ACKS, 1)), run_id="00" * 16,
            recording=new_recording(), damage=damage, trouble=trouble,
        )  # fmt: skip
        directory.write_record(record)
        binding = directory.read_binding()
        config = commands.capture_config(
            settings, binding, base=directory.base_image, log=directory.disk_log, sockets=None
        )
        packets = []
        with CaptureDisk(config) as disk:
            with NbdClient(disk.socket) as client:
                for number in range(OPERATIONS):
                    packets.append(Packet(time.monotonic_ns(), b"? %d\n" % number))
                    client.write(number * SECTOR, bytes([number + 1]) * SECTOR)
                    client.flush()
                    packets.append(Packet(time.monotonic_ns(), b"+ %d\n" % number))
            if mark:
                disk.mark(mark)
            cut = disk.cut(CutPolicy.DROP, 1, directory.recovery_log, timeout_s=30)
        half = len(packets) // 2
        packets[half:] = [Packet(p.at_ns + shift_s * 10**9, p.data) for p in packets[half:]]
        directory.lines.write_bytes(header(binding) + b"".join(map(pack, packets)))
        directory.write_record(record.model_copy(update={"cut_ns": int(cut.at)}))
        directory.write_untouched(Observation(()))
        directory.write_observation(Observation((), lines=there))
        directory.seal_recording()
        return directory

    return make


def test_an_intact_recording_acquits_and_convicts(recorded):
    result = judge_recording(recorded(ALL))
    assert (result.verdict, result.findings) == (Verdict.SAFE, ())
    assert (result.commits_acked, len(result.binding)) == (OPERATIONS, 64)


def test_an_operation_that_is_gone_is_lost_trouble_or_not(recorded):
    result = judge_recording(recorded(ALL_BUT_ONE, trouble="the program ended with status 1"))
    assert result.verdict is Verdict.LOSSY
    lost = [finding for finding in result.findings if finding.kind is FindingKind.LOST]
    assert [finding.lsns for finding in lost] == [(LsnRange(7, 7),)]


@pytest.mark.parametrize("trouble", ["the guest never booted", ""])
def test_an_absent_first_check_is_told_once(recorded, trouble):
    directory = recorded(ALL_BUT_ONE, trouble=trouble)
    directory.untouched.unlink()
    directory.seal_recording()
    result = judge_recording(directory)
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
    result = judge_recording(directory)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert [finding.message for finding in result.findings] == [why]


@pytest.mark.parametrize("name", ["disk.log", "lines.bin"])
def test_what_is_missing_of_one_that_ran_is_named_beside_its_trouble(recorded, name):
    directory = recorded(ALL_BUT_ONE, trouble="the program ended with status 1")
    (directory.path / name).unlink()
    directory.seal_recording()
    said = [finding.message for finding in judge_recording(directory).findings]
    assert any(f"{name}: No such file" in one for one in said)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"mark": "failing reads: EIO"}, "failed by its host: failing reads: EIO"),
        ({"mark": "refusing requests: ENOSPC"}, "failed by its host: refusing requests: ENOSPC"),
        ({"damage": ("lines were lost",)}, "lines were lost"),
        ({"shift_s": -60}, "went back"),
    ],
    ids=["reads", "requests", "lines", "clock"],
)
def test_a_recording_that_its_host_damaged_convicts_nobody(recorded, how, why):
    result = judge_recording(recorded(ALL_BUT_ONE, **how))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.commits_lost == 0
    assert any(why in finding.message for finding in result.findings)


def test_a_disk_log_that_was_not_closed_convicts_nobody(recorded):
    directory = recorded(ALL_BUT_ONE)
    log = directory.disk_log.with_suffix(".log")
    os.truncate(log, log.stat().st_size - EVENT.itemsize)
    directory.seal_recording()
    result = judge_recording(directory)
    assert (result.verdict, result.commits_lost) == (Verdict.INCONCLUSIVE, 0)
