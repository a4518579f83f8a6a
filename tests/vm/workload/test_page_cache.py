# SPDX-License-Identifier: Apache-2.0
"""A recorded kernel writes back early: what rests on its patience is found, and none is flushed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pressed_store
import pytest
from command_line import plain_word

from powercut.campaign.runner import run_scenarios
from powercut.model.timeline import RequestKind
from powercut.model.verdict import Verdict
from powercut.recording.sealed import TrialRecording, open_trial
from powercut.recover.uml.boot import unavailable
from powercut.scenario.load import load_scenario
from powercut.store.layout import ResultDir
from powercut.store.results import RunResult

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable())),
]

SCENARIO = f"""
powercut: 1
name: page-cache
workload: {{kind: program, command: {plain_word(pressed_store.__file__)} undo-first, at_most: 2min}}
disk: {{size: 128 MiB}}
cut: {{trigger: {{acks: 100}}}}
explore: {{budget: 160}}
controls: none
deadline: 5min
"""
TWINS = """
cells:
  - {{name: undo-first, explore.budget: 40}}
  - name: overwrite-first
    workload.command: {store} overwrite-first
    expect: lossy
"""
OTHERS = """
  - name: overwrite-first-usual
    workload.command: {store} overwrite-first
    workload.writeback: usual
    explore.budget: 40
  - name: overwrite-first-alone
    workload.command: {store} overwrite-first-alone
    expect: lossy
  - name: undo-first-alone
    workload.command: {store} undo-first-alone
    explore.budget: 40
  - name: header-first
    workload.command: {store} header-first
    expect: lossy
"""
FLUSHES_OF_A_COMMIT = 4
"""At most: before and after a block of a journal or log, and of a file's own sync."""

UNSYNCED = """
matrix:
  filesystem.type: [ext4, btrfs]
"""


def ran(folder: Path, text: str) -> RunResult:
    (folder / "page-cache.yaml").write_text(text)
    scenario = load_scenario(folder / "page-cache.yaml")
    (result,) = run_scenarios([scenario], seed=5, results=folder, jobs=2).runs
    return result


def recordings(result: RunResult) -> dict[str, TrialRecording]:
    trials = ResultDir.open(Path(result.result_directory)).trials()
    return {trial.read_record().cell: open_trial(trial) for trial in trials}


def neighbours(result: RunResult) -> dict[str, int]:
    """How often somebody else has committed beside the program."""
    trials = ResultDir.open(Path(result.result_directory)).trials()
    return {one.cell: one.pressed.commits for one in (trial.read_record() for trial in trials)}


def between_acks(recording: TrialRecording) -> np.ndarray:
    """The requests that were submitted after the first ack and before the last."""
    requests = recording.timeline.requests
    acks = recording.promises.requirements.ack_ns
    return (requests.submitted_ns > acks[0]) & (requests.submitted_ns < acks[-1])


@pytest.mark.parametrize("others", ["", pytest.param(OTHERS, marks=pytest.mark.nightly)])
def test_an_order_that_is_the_page_cache_s_to_choose_is_found(tmp_path: Path, others: str) -> None:
    """Without controls none is SAFE; what is honest is said to lose nothing."""
    stores = (TWINS + others.lstrip("\n")).format(store=plain_word(pressed_store.__file__))
    result = ran(tmp_path, SCENARIO + stores)
    verdicts = {cell.cell: cell.verdict for cell in result.cells}
    lossy = {"overwrite-first", "overwrite-first-alone", "header-first"} & {*verdicts}
    assert {name for name, verdict in verdicts.items() if verdict is Verdict.LOSSY} == lossy
    for cell in result.cells:
        (trial,) = cell.trials
        assert trial.verdict is (Verdict.LOSSY if cell.cell in lossy else Verdict.SAFE), trial
        told = [text for text in trial.untested if "workload.writeback is `usual`" in text]
        assert bool(told) == (cell.cell == "overwrite-first-usual")
    recorded, commits = recordings(result), neighbours(result)
    for name in {"overwrite-first", "overwrite-first-usual"} & {*verdicts}:
        requests, inside = recorded[name].timeline.requests, between_acks(recorded[name])
        acks = len(recorded[name].promises.requirements.ack_ns)
        writes = int((inside & (requests.kind == RequestKind.WRITE)).sum())
        flushes = int((inside & (requests.kind == RequestKind.FLUSH)).sum())
        # The two syncs of each operation, the neighbour's, and no more.
        assert flushes <= 2 * acks + FLUSHES_OF_A_COMMIT * (commits[name] + 1)
        # Each operation dirties two pages; one that is overwritten twice is sent twice if pressed.
        assert (writes > 2 * acks) == (name == "overwrite-first")


def test_writeback_sends_no_flush_and_makes_nothing_durable(tmp_path: Path) -> None:
    text = SCENARIO.replace("at_most: 2min", "at_most: 2min, syncs: dropped")
    text = text.replace("acks: 100", "acks: 40")
    result = ran(tmp_path, text.replace("budget: 160", "budget: 4") + UNSYNCED)
    for cell in result.cells:
        assert cell.verdict is Verdict.LOSSY, cell
    written, commits = 0, neighbours(result)
    for name, recording in recordings(result).items():
        requests, inside = recording.timeline.requests, between_acks(recording)
        flushes = int((inside & (requests.kind == RequestKind.FLUSH)).sum())
        assert flushes <= FLUSHES_OF_A_COMMIT * (commits[name] + 1)  # one may be under way
        written += int((inside & (requests.kind == RequestKind.WRITE)).sum())
    assert written
