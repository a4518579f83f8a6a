# SPDX-License-Identifier: Apache-2.0
"""The disk as a file and as memory: what arrives at it, what a cut takes, and that a host
which lives on loses nothing (docs/buses-and-formats.md; QEMU 7.2, Linux 6.1)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from powercut.model.timeline import RequestKind
from powercut.model.verdict import FindingKind, LsnRange, Verdict
from powercut.recording.sealed import open_trial
from powercut.store.layout import ResultDir

NIGHTLY = pytest.mark.nightly
RAW = "filesystem: {type: raw}\ncontrols: none\n"
LOG = "workload: {layout: raw, direct: true, record: 4096, align: 4096}\n"
AT_30 = "cut: {trigger: {acks: 30}}\n"
LYING = "disk: {flush: ignored, fua: ignored}\nexpect: lossy\n"


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
    assert set(requests.kind.tolist()) <= {int(RequestKind.WRITE), int(RequestKind.FLUSH)}
    pairs = zip(requests.kind.tolist(), requests.fua.tolist(), strict=True)
    return "".join(
        "F" if kind == int(RequestKind.FLUSH) else "U" if fua else "W" for kind, fua in pairs
    )


def all_lost(trial) -> bool:
    everything = (LsnRange(1, trial.commits_acked),)
    assert trial.commits_acked >= 30
    assert {f.kind for f in trial.findings} == {FindingKind.LOST, FindingKind.EXPOSED}
    return trial.lost_lsns == everything and trial.exposure.lsns == everything


@pytest.mark.parametrize(
    "aio", ["threads", *(pytest.param(aio, marks=NIGHTLY) for aio in ("native", "io_uring"))]
)
def test_a_file_keeps_what_was_flushed_and_nothing_that_was_not(run, aio):
    machine = f"machine: {{aio: {aio}}}\n"
    honest = run(RAW + LOG + AT_30 + machine)
    assert only(honest).findings == ()
    assert only(honest).commits_acked >= 30
    assert re.fullmatch("F?(WF){30,}W?", wire(honest))  # QEMU 10 flushes when it opens the file
    assert all_lost(only(run(RAW + LOG + AT_30 + machine + LYING)))
    dropping = run(RAW + LOG + AT_30 + f"machine: {{aio: {aio}, no_flush: on}}\nexpect: lossy\n")
    assert all_lost(only(dropping))
    assert set(wire(dropping).removeprefix("F")) == {"W"}, (
        "QEMU itself drops them: the disk offers a flush"
    )
    assert recording(dropping).evidence.timeline.contract.honest


@pytest.mark.parametrize("cache", ["writeback", "writethrough"])
def test_the_hosts_page_cache_holds_no_write_of_a_file_back(run, cache):
    result = run(RAW + LOG + AT_30 + f"machine: {{aio: threads, cache: {cache}}}\n")
    if cache == "writethrough" and re.match("F?WW", wire(result)):
        # docs/findings/qemu-fua-after-flush.md, from some QEMU 10.0 on.
        version = recording(result).record.versions["qemu_version"]
        assert int(version.partition(".")[0]) >= 10
        found = only(result).findings
        exposed = [one.lsns for one in found if one.kind is FindingKind.EXPOSED]
        assert (LsnRange(1, 1),) in exposed
        return
    assert only(result).findings == ()
    assert re.fullmatch("F?(WF){30,}W?", wire(result)), "a file knows no FUA: a flush instead"


@pytest.mark.parametrize("kind", [pytest.param("vm-kill", marks=NIGHTLY), "power-loss"])
def test_a_file_whose_disk_has_stopped_at_a_flush_does_not_hold_qemu_up(run, kind):
    policy = "keep" if kind == "vm-kill" else "drop"
    cut = f"cut: {{kind: {kind}, policy: {policy}, trigger: {{flushes: 10}}}}\n"
    trial = only(run(RAW + LOG + cut + "machine: {aio: io_uring}\n"))
    assert trial.findings == ()
    assert trial.commits_acked == 9


PMEM = "machine: {bus: virtio-pmem}\n"


def test_virtio_pmem_keeps_everything_on_an_honest_disk_and_nothing_on_a_lying_one(run):
    honest = run(RAW + LOG + AT_30 + PMEM)
    assert only(honest).findings == ()
    assert re.fullmatch("(WF){30,}W?", wire(honest)), "each flush of the guest is an fsync"
    assert recording(honest).record.guest_facts["driver"] == "nd_pmem"
    assert all_lost(only(run(RAW + LOG + AT_30 + PMEM + LYING)))


def test_an_nvdimm_in_a_file_is_never_synced(run):
    result = run(RAW + LOG + AT_30 + "machine: {bus: nvdimm}\nexpect: lossy\n")
    assert all_lost(only(result))
    assert only(result).exposure.never_durable == only(result).commits_acked
    assert wire(result) == "", "nothing of it reaches the disk"


@NIGHTLY
@pytest.mark.parametrize("mount", ["", "dax=always"])
def test_virtio_pmem_with_a_file_system(run, mount):
    trial = only(run(f"filesystem: {{mount: [{mount}]}}\ncontrols: none\n" + AT_30 + PMEM))
    assert trial.findings == ()
    assert trial.commits_acked >= 30
    assert trial.verdict is Verdict.SAFE
