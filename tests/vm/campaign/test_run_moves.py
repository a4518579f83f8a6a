# SPDX-License-Identifier: Apache-2.0
"""A guest goes on in another QEMU while its workload writes (docs/moves.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from powercut.model.operations import AckBasis
from powercut.model.verdict import LsnRange
from powercut.recording.sealed import open_trial
from powercut.store.layout import ResultDir

pytestmark = pytest.mark.nightly

SCENARIO = """
filesystem: {type: raw}
workload: {layout: raw, direct: true, record: 4096, align: 4096}
disk: {flush_latency: 50ms, fua_latency: 50ms} # longer than any ack is on its way
controls: none
machine: {aio: threads}
cut: {trigger: {acks: 60}}
cells:
  - name: there-and-back
    machine.during: [migrate@10, save-restore@30]
    machine.qemu_after_move: host
  - name: to-unsafe
    machine.during: [migrate@10]
    machine.cache_after_move: unsafe
    expect: lossy
"""


def test_a_moved_guest_keeps_what_it_acknowledged_unless_the_other_qemu_drops_flushes(run):
    result = run(SCENARIO)
    honest, unsafe = (cell.trials[0] for cell in result.cells)
    assert honest.findings == ()
    assert honest.acks.basis is AckBasis.CLOCK
    handovers, lost = [], unsafe.lost_lsns
    trials = ResultDir.open(Path(result.result_directory)).trials()
    versions = trials[0].read_record().versions
    assert versions["qemu_after_move_sha256"] == versions["qemu_sha256"]
    for trial in trials:
        evidence = open_trial(trial).evidence
        handovers.append(evidence.history.handovers)
    assert [len(each) for each in handovers] == [2, 1]
    # A record may be synced in the first QEMU and acknowledged in the second.
    ((moved,),) = handovers[1:]
    first = moved.acks + 1
    assert lost in tuple((LsnRange(lsn, unsafe.commits_acked),) for lsn in (first, first + 1))
    assert unsafe.exposure.lsns == lost


RESTARTS = """
filesystem: {type: raw}
workload: {layout: raw, direct: true, record: 4096, align: 4096}
disk: {size: 16MiB, flush_latency: 10ms, fua_latency: 10ms}
explore: {budget: 4}
controls: none
machine: {aio: threads}
cut: {trigger: {acks: 40}}
cells:
  - name: both
    machine.during: [restart@10, relaunch@20]
  - name: from-unsafe
    machine.during: [relaunch@10]
    machine.cache: unsafe
    machine.cache_after_move: none
    expect: lossy
"""


def test_a_restarted_guest_keeps_all_unless_its_first_qemu_dropped_flushes(run):
    result = run(RESTARTS)
    honest, unsafe = (cell.trials[0] for cell in result.cells)
    assert honest.live_losses == ()
    assert (honest.exposure.lsns, honest.acks.basis) == ((), AckBasis.CLOCK)
    first, second = (
        open_trial(trial).evidence.history
        for trial in ResultDir.open(Path(result.result_directory)).trials()
    )
    assert [each.restarted for each in (*first.handovers, *second.handovers)] == [True] * 3
    (relaunched,) = second.handovers
    kept = int(second.ack_lsn[relaunched.acks - 1])
    assert unsafe.exposure.lsns == (LsnRange(1, kept),)
    assert unsafe.commits_acked >= 40
