# SPDX-License-Identifier: Apache-2.0
"""Buses: honest disks keep everything, lying ones lose exactly what was acknowledged, and
what a commit sends is what docs/buses-and-formats.md says (QEMU 7.2, Linux 6.1)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from powercut.model.timeline import RequestKind
from powercut.model.verdict import FindingKind, LsnRange, Verdict
from powercut.recording.sealed import open_trial
from powercut.store.layout import ResultDir

NIGHTLY = pytest.mark.nightly
OTHERS = ("virtio-scsi", "virtio-scsi-fua", "nvme", "ide")
CLOUD = ["virtio-blk", *(pytest.param(bus, marks=NIGHTLY) for bus in OTHERS)]
RAW = "filesystem: {type: raw}\ncontrols: none\n"
LOG = "layout: raw, direct: true, record: 4096, align: 4096"
LYING = "disk: {flush: ignored, fua: ignored}\nexpect: lossy\n"
LETTER = {(RequestKind.WRITE, False): "W", (RequestKind.WRITE, True): "U"}


def only(result):
    (cell,) = result.cells
    (trial,) = cell.trials
    return trial


def recording(result):
    (trial,) = ResultDir.open(Path(result.result_directory)).trials()
    return open_trial(trial)


def wire(result) -> str:
    """Every request that the disk saw: W write, U write with FUA, F flush."""
    requests = recording(result).evidence.timeline.requests
    pairs = zip(requests.kind.tolist(), requests.fua.tolist(), strict=True)
    return "".join(LETTER.get((RequestKind(kind), fua), "F") for kind, fua in pairs)


@pytest.mark.parametrize("bus", CLOUD)
def test_an_honest_disk_keeps_and_a_lying_one_loses_everything(run, bus):
    machine = f"machine: {{bus: {bus}}}\nworkload: {{{LOG}}}\ncut: {{trigger: {{acks: 30}}}}\n"
    result = run(RAW + machine)
    assert re.fullmatch("(WF){30,}W?", wire(result)), "fdatasync of a disk with a cache"
    honest = only(result)
    assert honest.findings == (), "the guest sees what was promised, and nothing is lost"
    assert honest.commits_acked >= 30
    assert honest.verdict is Verdict.SAFE
    lying = only(run(RAW + machine + LYING))
    everything = (LsnRange(1, lying.commits_acked),)
    assert lying.lost_lsns == everything
    assert lying.exposure.lsns == everything
    assert {f.kind for f in lying.findings} == {FindingKind.LOST, FindingKind.EXPOSED}


@pytest.mark.parametrize(
    ("bus", "cache", "sync", "commit"),
    [
        ("virtio-scsi", "writethrough", "fdatasync", "U"),
        # Linux 6.1 sends write with FUA, then a flush; a disk that knows no FUA gets a flush
        # for each, and QEMU's SCSI disk turns FUA into a flush of its own.
        pytest.param("virtio-scsi", "none", "o_dsync", "WFF", marks=NIGHTLY),
        pytest.param("virtio-scsi-fua", "none", "o_dsync", "WFF", marks=NIGHTLY),
        # The FUA of the write is gone.
        pytest.param("nvme", "none", "o_dsync", "WF", marks=NIGHTLY),
        pytest.param("nvme", "writethrough", "fdatasync", "UF", marks=NIGHTLY),
        pytest.param("ide", "writethrough", "fdatasync", "U", marks=NIGHTLY),
    ],
)
def test_what_a_commit_sends(run, bus, cache, sync, commit):
    result = run(
        RAW
        + f"machine: {{bus: {bus}, cache: {cache}}}\nworkload: {{{LOG}, sync: {sync}}}\n"
        + "cut: {trigger: {acks: 20}}\n"
    )
    seen = wire(result)
    assert re.fullmatch(f"({commit})*", seen[: len(seen) // len(commit) * len(commit)])
    assert seen.count(commit) >= 20
    assert only(result).findings == ()


AT_A_FLUSH = "cut: {trigger: {flushes: 40}}\ncontrols: none\n"


@pytest.mark.parametrize(
    ("filesystem", "sync"),
    [("xfs", "fdatasync"), pytest.param("ext4", "o_dsync", marks=NIGHTLY)],
)
def test_nvme_loses_the_last_commit_of_a_file_system(run, filesystem, sync):
    """QEMU's NVMe disk says that it knows FUA, and ignores it: a journal that relies on it
    commits to a cache.  At the next flush, before it acts, exactly one commit is missing, if no
    request comes in between that no sync asked for."""
    result = run(
        f"machine: {{bus: nvme}}\nfilesystem: {{type: {filesystem}}}\n"
        f"workload: {{sync: {sync}, writeback: usual}}\n{AT_A_FLUSH}expect: lossy\n"
    )
    trial = only(result)
    assert trial.lost_lsns == (LsnRange(trial.commits_acked, trial.commits_acked),)
    (found,) = trial.findings
    assert found.kind is FindingKind.LOST
    assert "U" not in wire(result)


@NIGHTLY
@pytest.mark.parametrize("machine", ["bus: virtio-scsi-fua", "bus: nvme, cache: writethrough"])
def test_other_ways_to_fua_keep_it(run, machine):
    trial = only(run(f"machine: {{{machine}}}\nfilesystem: {{type: xfs}}\n{AT_A_FLUSH}"))
    assert trial.findings == ()
    assert trial.commits_acked >= 15


@NIGHTLY
def test_an_ide_disk_that_was_restored_has_a_write_cache_that_its_guest_does_not_know(run):
    ide = (
        RAW + f"workload: {{{LOG}}}\ncut: {{trigger: {{acks: 30}}}}\n"
        "machine: {bus: ide, cache: writethrough, start: START}\n"
    )
    booted = run(ide.replace("START", "booted"))
    assert only(booted).findings == ()
    assert set(wire(booted)) == {"U"}
    restored = run(ide.replace("START", "restored") + "expect: lossy\n")
    assert recording(restored).record.guest_facts["write_cache"] == "write through"
    assert set(wire(restored)) == {"W"}
    trial = only(restored)
    assert trial.lost_lsns == (LsnRange(1, trial.commits_acked),)


@NIGHTLY
@pytest.mark.parametrize("bus", ["ahci", "usb-storage"])
def test_buses_of_the_full_kernel(run, bus):
    machine = f"machine: {{bus: {bus}}}\nworkload: {{{LOG}}}\ncut: {{trigger: {{acks: 30}}}}\n"
    result = run(RAW + machine)
    assert only(result).findings == ()
    assert re.fullmatch("(WF)*W?", wire(result))
    assert "cloud" not in recording(result).record.guest_facts["kernel"]
    lying = only(run(RAW + machine + LYING))
    assert lying.lost_lsns == (LsnRange(1, lying.commits_acked),)


@NIGHTLY
def test_a_usb_disk_that_does_not_take_its_cache_mode_is_not_judged_by_it(run):
    """QEMU 7.2 gives the disk that usb-storage makes no `write-cache`; other versions may."""
    result = run(
        RAW + f"machine: {{bus: usb-storage, cache: writethrough}}\nworkload: {{{LOG}}}\n"
        "cut: {trigger: {acks: 30}}\n"
    )
    trial, record = only(result), recording(result).record
    takes_it = record.guest_facts["write_cache"] == "write through"
    if record.versions["qemu_version"].startswith("7.2."):
        assert not takes_it
    if takes_it:
        assert trial.findings == ()
    else:
        assert [f.kind for f in trial.findings] == [FindingKind.NOT_AS_CONFIGURED]
        assert trial.verdict is Verdict.INCONCLUSIVE
