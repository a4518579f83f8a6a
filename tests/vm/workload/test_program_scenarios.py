# SPDX-License-Identifier: Apache-2.0
"""Programs in scenarios: cells, controls and verdicts as of any other workload."""

from pathlib import Path

import pytest

from powercut.campaign.runner import run_scenarios
from powercut.campaign.verify import verify
from powercut.model.errors import DamagedRecording
from powercut.model.verdict import FindingKind, LsnRange, Verdict
from powercut.paths import SCENARIOS
from powercut.recover.uml.boot import unavailable
from powercut.store.results import RunResult

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable())),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    results = tmp_path_factory.mktemp("results")
    outcome = run_scenarios([SCENARIOS / "programs" / "renames.yaml"], seed=7, results=results)
    return outcome.runs[0]


def test_a_cell_that_syncs_is_safe_and_one_that_does_not_loses_all(made: RunResult) -> None:
    assert made.as_expected, made.model_dump_json(indent=1)
    synced, unsafe = made.cells
    assert (synced.verdict, synced.commits_lost, synced.exposure) == (Verdict.SAFE, 0, None)
    assert synced.commits_acked >= 40
    assert synced.states is not None
    assert (synced.states.states, synced.states.lossy) == (40, 0)
    (control,) = synced.controls
    assert (control.kind.value, control.verdict) == ("lying-disk", Verdict.LOSSY)
    # It differs from its honest twin in nothing: what it does wrong is its own.
    assert (unsafe.verdict, unsafe.controls) == (Verdict.LOSSY, ())
    (trial,) = unsafe.trials
    assert trial.lost_lsns == (LsnRange(1, trial.commits_acked),)
    assert FindingKind.LOST in {finding.kind for finding in trial.live_losses}


def test_it_is_judged_again_from_its_recordings(made: RunResult) -> None:
    folder = Path(made.result_directory)
    again = verify(folder)
    assert [cell.verdict for cell in again.cells] == [cell.verdict for cell in made.cells]
    lines = next(folder.glob("cells/synced/*/lines.bin"))
    lines.write_bytes(lines.read_bytes()[:-1])
    with pytest.raises(DamagedRecording, match=r"lines\.bin"):
        verify(folder)
