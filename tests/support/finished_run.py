# SPDX-License-Identifier: Apache-2.0
"""A finished run to report on: first-light as it should come out, with real files."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from powercut.model.observation import Extent, Observation
from powercut.model.timeline import InFlight
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut.paths import SCENARIOS
from powercut.scenario.load import expand, load_scenario
from powercut.scenario.plan import Cell
from powercut.scenario.settings import ControlKind, Expect
from powercut.store.layout import ResultDir, reproduce_command
from powercut.store.results import CellResult, ControlResult, RunResult
from powercut.store.states_recovered import StatesRecovered
from powercut.store.trial_dir import TrialRecord
from powercut.store.trial_result import Exposure, TrialResult
from powercut.wal.layout import SlotState

CONTROL = ControlResult(
    kind=ControlKind.LYING_DISK,
    expected=Expect.LOSSY,
    verdict=Verdict.LOSSY,
    behaved=True,
    message="cell lying is LOSSY",
    result_directory="cells/lying/0001",
)

IN_FLIGHT = {
    "honest": InFlight(writes=3, zeroes=0, discards=0, flushes=1, survived=2),
    "lying": InFlight(writes=0, zeroes=0, discards=0, flushes=0, survived=0),
    "no-sync": None,
}

STATES = StatesRecovered(
    engine="uml",
    states=64,
    decided=2,
    went_on=64,
    lossy=0,
    by_policy={"durable-only": 32, "everything-issued": 16, "torn": 16},
    instants=115,
    instants_all=2680,
    legal_log2=12.9,
)

LOST = Finding(
    FindingKind.LOST,
    Verdict.LOSSY,
    "acknowledged and gone",
    (LsnRange(1, 302),),
)


@dataclass
class Made:
    """A run in the store."""

    directory: ResultDir
    run: RunResult


class Maker:
    """Makes runs of first-light with chosen outcomes."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self.scenario = load_scenario(SCENARIOS / "first-light.yaml")
        self.plan = expand(self.scenario, seed=4711)

    def __call__(self, *findings: tuple[Finding, ...], exposed: int = 302) -> Made:
        """Each cell gets the findings given at its place."""
        moment = datetime(2026, 11, 21, 10, 15, 2, tzinfo=UTC)
        directory = ResultDir.create(self.results, "first-light", 4711, now=moment)
        directory.write_scenario(self.scenario.text)
        directory.write_environment({"qemu": "7.2.22", "host": {"cpus": 2, "system": "<b>"}})
        cells = [
            self._cell(directory, cell, found, exposed)
            for cell, found in zip(self.plan.cells, findings, strict=True)
        ]
        run = RunResult.of(
            powercut="0.1.0",
            scenario="first-light",
            description=self.plan.description,
            scenario_file="scenarios/first-light.yaml",
            seed=4711,
            started="2026-11-21T10:15:02+00:00",
            seconds=7.31,
            cells=cells,
            reproduce=directory.write_reproduce(4711),
            result_directory=str(directory.path),
        )
        directory.write_verdict(run)
        return Made(directory, run)

    def _cell(
        self, directory: ResultDir, cell: Cell, findings: tuple[Finding, ...], exposed: int
    ) -> CellResult:
        trial = directory.trial(cell.name, 1)
        lossy = any(finding.verdict is Verdict.LOSSY for finding in findings)
        verdict = max((finding.verdict for finding in findings), default=Verdict.SAFE)
        trial.write_record(
            TrialRecord(
                powercut="0.1.0",
                scenario="first-light",
                cell=cell.name,
                parameters=cell.parameters,
                trial=cell.trials[0],
                run_id="0" * 32,
            )
        )
        state = SlotState.ABSENT if lossy else SlotState.INTACT
        trial.write_observation(Observation((Extent(0, 302, state, 0 if lossy else 1),)))
        trial.seal_recording()
        exposure = Exposure(
            records=exposed if lossy else 0,
            never_durable=exposed if lossy else 0,
            longest_ms=402.4 if lossy else 0,
        )
        result = TrialResult.judged(
            cell.trials[0],
            verdict=verdict,
            acked=302,
            attempted=303,
            findings=findings,
            exposure=exposure,
            in_flight=IN_FLIGHT[cell.name],
            timings_s={"boot": 0.9, "recover": 0.5},
            result_directory=trial.relative,
        )
        if verdict is Verdict.SAFE:
            result = result.model_copy(update={"states": STATES})
        return CellResult.of(
            "first-light",
            cell,
            [result],
            verdict=verdict,
            controls=[CONTROL] if verdict is Verdict.SAFE else [],
            reproduce=reproduce_command(directory.scenario_copy, 4711, cell),
            result_directory=f"cells/{cell.name}",
        )


@pytest.fixture
def make(tmp_path: Path) -> Maker:
    return Maker(tmp_path)


@pytest.fixture
def made(make: Maker) -> Made:
    return make((), (LOST,), (LOST,))
