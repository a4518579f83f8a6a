# SPDX-License-Identifier: Apache-2.0
"""Live cuts interrupt requests, and the result says which."""

from __future__ import annotations

from pathlib import Path

import pytest

from powercut.campaign.verify import verify
from powercut.disk.pclog import read_timeline
from powercut.model.units import NEVER
from powercut.model.verdict import Origin, Verdict
from powercut.store.layout import ResultDir

pytestmark = pytest.mark.nightly

SCENARIO = """
controls: none
trials: 2
explore: {budget: off}
cut: {policy: random}
cells:
  - name: xfs
    cut.trigger: {acks: 40}
  - name: ext4
    filesystem.type: ext4
    cut.trigger: {random: [1s, 1500ms]}  # a busy host's guest needs time for its first ack
  - name: raw
    filesystem.type: raw
    workload.layout: raw
    disk.volatile_cache: false
    cut.trigger: {after: 1s}
  - name: flush
    cut.trigger: {flushes: 60}
  - name: killed
    cut.kind: vm-kill
    cut.policy: keep
    cut.trigger: {acks: 40}
"""
STOPS = {
    True: "stopped: requests are taken and do not complete",
    False: "stopped between requests",
}


def test_live_cuts_interrupt_requests_and_no_honest_disk_loses(run):
    result = run(SCENARIO)
    directory = ResultDir.open(Path(result.result_directory))
    trials = {cell.cell: cell.trials for cell in result.cells}
    for name, cuts in trials.items():
        for trial in cuts:
            # Without recovered states a file system cannot be SAFE; that is all that is missing.
            said = [(f.verdict, f.origin) for f in trial.findings]
            states = [] if name == "raw" else [(Verdict.INCONCLUSIVE, Origin.EXPLORATION)]
            assert said == states, (name, trial)
            assert trial.commits_acked
            assert (trial.commits_lost, trial.exposure.records) == (0, 0)
    for name in ("xfs", "ext4", "raw"):
        for trial in trials[name]:
            recorded = directory.at(trial.result_directory)
            stop = recorded.read_record().trial.disk_stop
            timeline = read_timeline(recorded.disk_log, verify_payloads=False)
            ((at, mark),) = timeline.marks
            assert mark == STOPS[stop.taking]
            completed = timeline.requests.completed_ns
            assert (completed[completed != NEVER] < at).all(), "nothing completes after it"
    # Elsewhere a cut may fall between two requests; at the submission of a flush it cannot.
    assert [trial.in_flight.flushes for trial in trials["flush"]] == [1, 1]
    again = verify(directory.path)
    assert [t.in_flight for c in again.cells for t in c.trials] == [
        t.in_flight for c in result.cells for t in c.trials
    ]
