# SPDX-License-Identifier: Apache-2.0
"""SQL Server's ways to write its log: what each keeps, loses and sends
(docs/sql-server-on-linux.md)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from powercut.model.timeline import RequestKind
from powercut.model.verdict import FindingKind, LsnRange, Verdict
from powercut.recording.sealed import open_trial
from powercut.store.layout import ResultDir

LOG = "layout: recycled, capacity: 4 MiB, record: 4 KiB, align: 4096, direct: true"
STREAMS = "sync: alternate, streams: 8, engine: libaio, depth: 8"
SLOW_FLUSH = "disk: {flush_latency: 4ms}\n"


def only(result):
    (cell,) = result.cells
    (trial,) = cell.trials
    return trial


def requests(result):
    (trial,) = ResultDir.open(Path(result.result_directory)).trials()
    return open_trial(trial).evidence.timeline.requests


def writes_beside_flushes(found) -> int:
    """Writes that completed while a flush was under way."""
    flushes = found.kind == RequestKind.FLUSH
    begun, ended = found.submitted_ns[flushes], found.completed_ns[flushes]
    written = found.completed_ns[found.kind == RequestKind.WRITE]
    at = np.searchsorted(begun, written) - 1
    return int(((at >= 0) & (written < ended[at])).sum())


@pytest.mark.parametrize("plant", ["none", "early-ack"])
def test_a_flush_does_not_cover_the_writes_that_complete_while_it_runs(run, plant):
    """Alternate write-through keeps everything, though writes and flushes overlap; planted to
    count what completed during the flush, it is convicted by the same recording."""
    verdict = "safe" if plant == "none" else "lossy"
    result = run(
        f"workload: {{{LOG}, {STREAMS}, plant: {plant}}}\n{SLOW_FLUSH}"
        f"cut: {{trigger: {{acks: 400}}}}\ncontrols: none\nexpect: {verdict}\n"
    )
    trial = only(result)
    assert writes_beside_flushes(requests(result)) >= 20
    if plant == "none":
        assert trial.findings == ()
        assert trial.verdict is Verdict.SAFE
        return
    assert trial.verdict is Verdict.LOSSY
    assert FindingKind.EXPOSED in {f.kind for f in trial.findings}
    assert trial.exposure.records >= 20


@pytest.mark.nightly
@pytest.mark.parametrize("filesystem", ["xfs", "ext4"])
def test_o_direct_alone_on_a_disk_without_a_volatile_cache(run, filesystem):
    """Blocks that the file has written before survive; in blocks that were only allocated the
    records are on the disk, and the file system does not know it."""
    text = (
        f"filesystem: {{type: {filesystem}}}\ndisk: {{volatile_cache: false}}\n"
        "cut: {trigger: {acks: 200}}\ncontrols: none\n"
    )
    kept = only(run(text + f"workload: {{{LOG}, sync: none}}\n"))
    assert kept.findings == ()
    unwritten = LOG.replace("recycled", "prealloc")
    lost = only(run(text + f"workload: {{{unwritten}, sync: none}}\nexpect: lossy\n"))
    assert {f.kind for f in lost.findings} == {FindingKind.LOST}, "on the disk, but not in the file"
    assert lost.lost_lsns == (LsnRange(1, lost.commits_acked),)
