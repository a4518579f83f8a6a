# SPDX-License-Identifier: Apache-2.0
"""Exploration of real recordings: honest ones lose nothing, lies are found to the record."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from process_tree import descendants, wait_until

from powercut.campaign.runner import run_scenarios
from powercut.campaign.verify import verify
from powercut.cli.lookup import find_trials
from powercut.crash.explore import InstantKind
from powercut.crash.exposure import exposure
from powercut.crash.legality import why_illegal
from powercut.explore.explorer import explore
from powercut.explore.request import Budget, ExploreRequest, Prune
from powercut.explore.trial import as_before, wanted_by
from powercut.model.errors import DamagedRecording
from powercut.model.verdict import FindingKind, LsnRange, Origin, Verdict
from powercut.recording import state_ref
from powercut.recording.sealed import SealedTrial, open_trial
from powercut.recover.raw import unavailable as no_raw
from powercut.recover.uml.engine import unavailable as no_uml
from powercut.store.exploration import read_exploration, write_exploration
from powercut_extras.audit.flushes import audit
from powercut_extras.audit.stored import PromiseKind, Worth

pytestmark = [
    pytest.mark.skipif(bool(no_uml()), reason="; ".join(no_uml())),
    pytest.mark.skipif(bool(no_raw()), reason="; ".join(no_raw())),
]

SCENARIO = """
powercut: 1
name: explored
description: Small recordings for tests of the explorer.
controls: none
explore: {budget: off}  # tests do
workload: {record: 512, streams: 2, sync: fdatasync}
cut: {kind: power-loss, trigger: {acks: 60}}
cells:
  - {name: xfs, filesystem.type: xfs}
  # Which flush leads to what is exact where nothing is written before a sync.
  - {name: ext4, filesystem.type: ext4, workload.writeback: usual}
  - {name: raw, filesystem.type: raw, workload.writeback: usual}
  - {name: lying, disk.flush: ignored, disk.fua: ignored, expect: lossy}
  - {name: no-sync, workload.sync: none, expect: lossy}
  - name: early-ack
    workload.plant: early-ack
    disk.flush_latency: 50ms  # longer than any ack is on its way
    expect: lossy
    explore.budget: 100
    explore.policies: [durable-only]
  - {name: fua, machine.cache: writethrough, disk.fua: ignored, expect: lossy}
  - {name: vm-kill, cut.kind: vm-kill, cut.policy: keep, disk.flush: ignored}
"""


@pytest.fixture(scope="module")
def trials(tmp_path_factory, guest_image):
    """Each cell's recording by name; made once, explored by many."""
    folder = tmp_path_factory.mktemp("explored")
    scenario = folder / "explored.yaml"
    scenario.write_text(SCENARIO)
    outcome = run_scenarios([scenario], seed=5, results=folder, trials=None)
    found = find_trials(Path(outcome.runs[0].result_directory))
    return {trial.path.parent.name: trial for trial in found}


@pytest.fixture(scope="module", autouse=True)
def by_the_run(trials):
    """What the run itself explored of `early-ack`; other tests explore and leave theirs."""
    return read_exploration(trials["early-ack"])


def test_honest_recordings_lose_nothing_in_any_state(trials):
    for cell, states in (("xfs", 100), ("ext4", 150), ("raw", 5000)):
        result = explore(
            SealedTrial(trials[cell]), ExploreRequest(budget=Budget(states=states), jobs=2)
        )
        assert result.findings == (), cell
        assert result.verdict is Verdict.SAFE
        # How many there are depends on what was in flight together, so on the machine.
        assert result.coverage.distinct == states or result.coverage.exhausted
    assert result.coverage.compared >= 1


def test_the_journals_flushes_lead_to_records_and_those_of_a_raw_log_carry_them(trials):
    raw = audit(open_trial(trials["raw"]), budget=Budget(states=0), engine="raw")
    carrying = raw.of(Worth.CARRIES)
    assert lsns_of(carrying) == set(range(1, raw.acknowledged + 1))
    assert (raw.late, raw.of(Worth.LEADS), raw.states) == ((), (), 0)
    recorded = open_trial(trials["ext4"])
    ext4 = audit(recorded, budget=Budget(states=60), engine="uml")
    assert (ext4.states, ext4.late, ext4.undecided, ext4.of(Worth.CARRIES)) == (60, (), (), ())
    leading = ext4.of(Worth.LEADS)
    # What ends a commit of jbd2 is a flush after the journal's commit block.
    assert leading
    assert all("journal" in one.holds and one.kind is PromiseKind.FLUSH for one in leading)
    assert all(one.states_lost == 1 for one in leading)
    # Before the first record nothing is lost, and a journal in part is no file system.
    assert all(one.lsns or one.missing for one in leading)


def test_a_sync_that_is_missing_is_named_by_the_audit(trials):
    early = audit(open_trial(trials["early-ack"]), budget=Budget(states=0), engine="uml")
    exposed = exposure(open_trial(trials["early-ack"]).evidence).exposed_lsns
    assert lsns_of(early.late) == lsns_in(exposed)
    lying = audit(open_trial(trials["lying"]), budget=Budget(states=0), engine="uml")
    assert lying.promises == ()
    assert [(late.promise, late.lsns) for late in lying.late] == [
        (-1, (LsnRange(1, lying.acknowledged),))
    ]


def lsns_of(promises):
    return lsns_in([span for one in promises for span in one.lsns])


def lsns_in(spans):
    return {lsn for span in spans for lsn in range(span.first, span.last + 1)}


@pytest.mark.parametrize("cell", ["lying", "no-sync", "early-ack", "fua"])
def test_lies_are_found_by_exposure_and_by_exploration_alike(trials, cell):
    wanted = ExploreRequest(policies=("durable-only",), at=(InstantKind.ACK,), confirm=False)
    result = explore(SealedTrial(trials[cell]), wanted)
    recorded = open_trial(trials[cell])
    exposed = exposure(recorded.evidence).exposed_lsns
    assert exposed == (LsnRange(1, recorded.evidence.claims.acked),)
    (found,) = result.findings
    assert (found.kind, found.verdict) == (FindingKind.LOST, Verdict.LOSSY)
    assert found.lsns == exposed
    state = state_ref.load(trials[cell], found.examples[0].id)
    assert why_illegal(recorded.space, state) == []


def test_a_cut_that_takes_no_cache_convicts_no_disk(trials):
    result = explore(SealedTrial(trials["vm-kill"]), ExploreRequest(budget=Budget(states=50)))
    assert result.verdict is Verdict.SAFE


def test_jobs_and_pruning_do_not_change_what_is_found(trials):
    results = [
        explore(
            SealedTrial(trials["lying"]),
            ExploreRequest(budget=Budget(states=60), jobs=jobs, prune=prune, confirm=False),
        )
        for jobs, prune in ((1, Prune.NOTHING), (2, Prune.BYTES), (1, Prune.READS))
    ]
    assert results[0].coverage.pruned == 0
    assert results[1].coverage.pruned > 0
    assert results[2].coverage.pruned > 0
    assert results[0].findings == results[1].findings == results[2].findings


def test_the_recorded_kernel_has_the_last_word(trials):
    result = explore(
        SealedTrial(trials["early-ack"]),
        ExploreRequest(policies=("durable-only",), at=(InstantKind.ACK,)),
    )
    (found,) = result.findings
    assert found.examples[0].confirmed == "yes"
    # The engine of the recorded kernel, by name, one state of an honest recording.
    guest = explore(
        SealedTrial(trials["xfs"]), ExploreRequest(engine="guest", budget=Budget(states=2))
    )
    assert (guest.verdict, guest.engine, guest.engine_boots) == (Verdict.SAFE, "guest", 2)


def test_a_scenario_that_explores_convicts_and_verifies(trials, by_the_run):
    trial = trials["early-ack"]
    write_exploration(trial, by_the_run)
    verdict = trial.read_verdict()
    told = [f for f in verdict.findings if f.origin is Origin.EXPLORATION]
    assert [(f.kind, f.verdict) for f in told] == [(FindingKind.LOST, Verdict.LOSSY)]
    assert verdict.lost_lsns[-1].last == verdict.commits_acked
    before = files_of(trial.path)
    again = {cell.cell: cell for cell in verify(trial.run).cells}["early-ack"]
    assert [f.lsns for f in again.trials[0].findings] == [f.lsns for f in verdict.findings]
    assert files_of(trial.path) == before


def test_verify_finds_again_what_little_time_would_not(trials):
    trial = trials["early-ack"]
    earlier = read_exploration(trial)
    # As if one state had been all that there was time for, and chance had picked another.
    short = earlier.coverage.model_copy(update={"distinct": 1, "recovery_states": 0})
    wanted = wanted_by(trial.read_record().parameters, seed=1, jobs=1)
    wanted = replace(wanted, policies=("everything-issued",), budget=Budget(seconds=3600))
    write_exploration(trial, earlier.model_copy(update={"coverage": short}))
    try:
        result = explore(SealedTrial(trial), as_before(SealedTrial(trial), wanted), keep=False)
        named = [example.id for found in earlier.findings for example in found.examples]
        assert result.coverage.distinct == 1 + len(named)
        assert {e.id for f in result.findings for e in f.examples} >= set(named)

        path = state_ref.path_of(trial, named[0])
        whole = path.read_text()
        path.write_text(whole.replace('"instant": ', '"instant": 9'))
        with pytest.raises(DamagedRecording, match=named[0]):
            as_before(SealedTrial(trial), wanted)
        path.write_text(whole)
    finally:
        write_exploration(trial, earlier)


def files_of(folder):
    """Every file below `folder` and when it was written."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_nothing_is_left_of_an_explorer_that_is_killed(trials):
    command = [sys.executable, "-m", "powercut.cli.main", "explore", str(trials["lying"].path)]
    explorer = subprocess.Popen(
        [*command, "--budget", "600s", "--jobs", "2"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        below = wait_until(lambda: [p for p in descendants(explorer.pid) if "linux.uml" in p[1]])
        every = [pid for pid, _ in descendants(explorer.pid)]
        assert below
    finally:
        explorer.kill()
        explorer.wait(timeout=120)
    wait_until(lambda: not [pid for pid in every if Path(f"/proc/{pid}").exists()])
