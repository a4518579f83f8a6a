# SPDX-License-Identifier: Apache-2.0
"""Unknown is not a pass: hung guests, dead hypervisors, full hosts, damaged evidence."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from powercut.campaign.runner import run_scenarios
from powercut.campaign.verify import verify
from powercut.model.errors import DamagedRecording
from powercut.model.verdict import FindingKind, Verdict
from powercut.rig.set_up import Deadline
from powercut.store.trial_dir import TrialDir
from powercut.trial.wire import WireWork

SLOW = "cut: {trigger: {acks: 1000000}}\ncontrols: none\n"


def only(result):
    (cell,) = result.cells
    (trial,) = cell.trials
    return trial


def messages(trial):
    return " | ".join(f.message for f in trial.findings)


def children(*, of: int, program: str) -> list[int]:
    """Processes of `program` that the process `of` started."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            pid = int(entry.name)
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            command = (entry / "cmdline").read_bytes().split(b"\0")[0].decode()
            if int(fields[1]) == of and program in command:
                found.append(pid)
    return found


@pytest.fixture
def once_acked(monkeypatch):
    """Makes the recording do something once a record is acknowledged, however late that is.

    After that the trial has `seconds` left, if that is given.
    """

    def arrange(act=lambda: None, seconds=None):
        real = WireWork.run_until_trigger

        def write(self, machine, channel, disk):
            wait = channel.wait_acks

            def first(lsn, *, timeout_s):
                assert wait(1, timeout_s=timeout_s)
                act()
                if seconds is not None:
                    deadline = self._run.deadline
                    vars(deadline).update(vars(Deadline(seconds)))
                    timeout_s = deadline.remaining_s  # a busy host's is longer
                return wait(lsn, timeout_s=timeout_s)

            monkeypatch.setattr(channel, "wait_acks", first)
            real(self, machine, channel, disk)

        monkeypatch.setattr(WireWork, "run_until_trigger", write)

    return arrange


def strike(sig, program):
    (pid,) = children(of=os.getpid(), program=program)
    os.kill(pid, sig)


def test_a_guest_that_hangs_is_inconclusive_within_its_deadline(run, once_acked):
    once_acked(partial(strike, signal.SIGSTOP, "qemu-system"), seconds=1)
    result = run(SLOW)
    trial = only(result)
    assert trial.verdict is Verdict.INCONCLUSIVE
    assert result.exit_status == 3
    assert "did not come before the deadline" in messages(trial)
    assert trial.commits_acked > 0
    assert trial.commits_lost == 0


def test_a_disk_that_dies_is_inconclusive(run, once_acked):
    once_acked(partial(strike, signal.SIGKILL, "nbdkit"))
    trial = only(run(SLOW))
    assert trial.verdict is Verdict.INCONCLUSIVE
    assert FindingKind.INCOMPLETE in {f.kind for f in trial.findings}


def test_what_recovery_could_not_read_was_not_lost_by_the_cut(run, monkeypatch):
    def adopt_copy(self, image):
        shutil.copyfile(image, self.base_image)
        return self.base_image

    real = WireWork._recover

    def recover_from_half(self, disk, sockets):
        base = self._run.directory.base_image
        whole = base.read_bytes()
        os.truncate(base, 0)  # what is not in the log cannot be read any more
        try:
            return real(self, disk, sockets)
        finally:
            base.write_bytes(whole)

    monkeypatch.setattr(TrialDir, "adopt_base", adopt_copy)
    monkeypatch.setattr(WireWork, "_recover", recover_from_half)
    trial = only(run("controls: none\ncut: {trigger: {acks: 20}}\n"))
    assert trial.verdict is Verdict.INCONCLUSIVE
    assert {f.kind for f in trial.findings} == {FindingKind.INCOMPLETE}
    assert "the disk failed during recovery: failing reads: EIO" in messages(trial)


def test_a_guest_that_cannot_boot_is_inconclusive(run):
    trial = only(
        run(
            "machine: {kernel_arguments: ['rdinit=/bin/wal']}\ndeadline: 20s\n"
            "cut: {trigger: {acks: 5}}\ncontrols: none\n"
        )
    )
    assert trial.verdict is Verdict.INCONCLUSIVE
    assert trial.commits_acked == 0


def test_a_file_system_that_never_mounted_was_not_lost_by_the_cut(run):
    trial = only(run("filesystem: {mount: [nonsense]}\ncontrols: none\n"))
    assert trial.verdict is Verdict.INCONCLUSIVE
    assert {f.kind for f in trial.findings} == {FindingKind.INCOMPLETE}
    assert any("mount xfs /dev/vda /mnt nonsense" in f.message for f in trial.findings)


FULL = "powercut: 1\nname: full\nworkload: {record: 64KiB}\ndeadline: 30s\n" + SLOW
RUN_FULL = """
import sys
from pathlib import Path
from powercut.campaign.runner import run_scenarios
from powercut.campaign.runner import run_scenarios
from powercut.campaign.verify import verify

(result,) = run_scenarios([Path(sys.argv[1])], seed=1, results=Path(sys.argv[2])).runs
print(result.exit_status)
# What had been recorded until then can be read, and says the same.
for judged in (result, verify(Path(result.result_directory))):
    ((trial,),) = (cell.trials for cell in judged.cells)
    full = any("refusing requests: ENOSPC" in found.message for found in trial.findings)
    print(judged.verdict.name, trial.verdict.name, full)
"""


@pytest.mark.mounts
def test_a_full_host_is_never_safe(tmp_path, guest_image):
    scenario, small = tmp_path / "full.yaml", tmp_path / "small"
    scenario.write_text(FULL)
    small.mkdir()
    # The small file system is in a mount namespace, which ends with its last process.
    mount = 'mount -t tmpfs -o size=24m powercut-test "$0" && exec "$@"'
    namespace = ["unshare", "--mount", "--propagation", "private", "sh", "-c", mount, small]
    done = subprocess.run(
        [*namespace, sys.executable, "-c", RUN_FULL, scenario, small / "results"],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.stdout.split() == ["3", *["INCONCLUSIVE", "INCONCLUSIVE", "True"] * 2], done.stderr


@pytest.fixture(scope="module")
def sound(tmp_path_factory, guest_image):
    """The result of a run, for copies to be damaged."""
    folder = tmp_path_factory.mktemp("sound")
    scenario = folder / "sound.yaml"
    scenario.write_text(
        "powercut: 1\nname: sound\ncut: {trigger: {acks: 10}}\ncontrols: none\n"
        "explore: {budget: 1}\n"
    )
    (result,) = run_scenarios([scenario], seed=1, results=folder).runs
    return Path(result.result_directory)


@pytest.mark.parametrize("name", ["disk.log", "disk.data", "history.bin", "observation.json"])
def test_damaged_evidence_is_named(sound, tmp_path, name):
    copy = tmp_path / sound.name
    shutil.copytree(sound, copy, symlinks=True)
    (path,) = copy.rglob(name)
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(DamagedRecording, match=name):
        verify(copy)


def test_sound_evidence_verifies(sound):
    assert verify(sound).cells[0].trials[0].findings == ()
