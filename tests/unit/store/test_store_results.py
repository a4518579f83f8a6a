# SPDX-License-Identifier: Apache-2.0
"""How trials add up to cells and cells to a run, and the JSON that says so."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from powercut.model.history import LatencyHistogram
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut.report.reference import published
from powercut.scenario.load import expand, parse_scenario
from powercut.scenario.settings import ControlKind, Expect
from powercut.store.results import (
    CampaignOutcome,
    CellResult,
    ControlResult,
    RunResult,
)
from powercut.store.trial_result import Exposure, FindingRecord, TrialResult, lost_lsns

SCENARIO = parse_scenario(
    "powercut: 1\nname: s\ntrials: 3\ncells: [{name: a}, {name: b, expect: lossy}]\n", Path("s")
)
SAFE_CELL, LOSSY_CELL = expand(SCENARIO, seed=3).cells


def lost(*lsns: int) -> Finding:
    spans = tuple(LsnRange(lsn, lsn) for lsn in lsns)
    return Finding(FindingKind.LOST, Verdict.LOSSY, "gone", spans, {"epoch": 3})


HUNG = Finding(FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE, "the guest hung")


def trial(number: int, *findings: Finding, cell=SAFE_CELL, **rest: object) -> TrialResult:
    return TrialResult.judged(
        cell.trials[number - 1],
        verdict=max((finding.verdict for finding in findings), default=Verdict.SAFE),
        acked=100 * number,
        attempted=100 * number + 1,
        findings=findings,
        **rest,
    )


def cell_of(*trials: TrialResult, cell=SAFE_CELL, verdict: Verdict | None = None) -> CellResult:
    worst = Verdict.worst(one.verdict for one in trials)
    return CellResult.of("s", cell, trials, verdict=worst if verdict is None else verdict)


def run_of(*cells: CellResult) -> RunResult:
    return RunResult.of(
        powercut="0",
        scenario="s",
        description="",
        scenario_file="s.yaml",
        seed=3,
        started="2026-11-21T10:15:02+00:00",
        seconds=1.5,
        cells=cells,
    )


def test_lost_records_follow_from_findings_that_convict():
    findings = [
        lost(5, 6),
        Finding(FindingKind.TORN, Verdict.LOSSY, "", (LsnRange(4, 4), LsnRange(6, 7))),
        Finding(FindingKind.EXPOSED, Verdict.LOSSY, "", (LsnRange(50, 60),)),
        Finding(FindingKind.CORRUPT, Verdict.INCONCLUSIVE, "", (LsnRange(90, 90),)),
    ]
    assert lost_lsns(findings) == (LsnRange(4, 7),)
    assert trial(1, *findings).commits_lost == 4


def test_trials_add_up():
    exposures = [Exposure(records=2, never_durable=1, longest_ms=3.5), None, None]
    result = cell_of(
        trial(1, lost(3), exposure=exposures[0], timings_s={"boot": 1.0}),
        trial(2, lost(7, 8), lost(11), timings_s={"boot": 2.0, "cut": 0.5}),
        trial(3, HUNG),
    )
    assert result.verdict is Verdict.LOSSY
    assert not result.as_expected
    assert (result.commits_acked, result.commits_lost) == (600, 4)
    assert result.lost_lsns == (LsnRange(7, 8), LsnRange(11, 11))
    assert result.findings == {FindingKind.LOST: 3, FindingKind.INCOMPLETE: 1}
    assert result.exposure == Exposure(records=2, never_durable=1, longest_ms=3.5)
    assert result.timings_s == {"boot": 3.0, "cut": 0.5}
    assert result.reasons == ("the guest hung",)
    assert result.worst_trial is not None
    assert result.worst_trial.trial == 2


def test_a_cell_cannot_hide_its_worst_trial():
    with pytest.raises(ValueError, match="hides a trial that is INCONCLUSIVE"):
        cell_of(trial(1), trial(2, HUNG), verdict=Verdict.SAFE)
    assert cell_of(trial(1), verdict=Verdict.INCONCLUSIVE).verdict is Verdict.INCONCLUSIVE


def test_no_trials_prove_nothing():
    assert cell_of().verdict is Verdict.INCONCLUSIVE
    with pytest.raises(ValueError, match="hides"):
        cell_of(verdict=Verdict.SAFE)


@pytest.mark.parametrize(
    ("cells", "status"),
    [
        ([], 3),
        ([cell_of(trial(1))], 0),
        ([cell_of(trial(1, lost(1)))], 1),
        ([cell_of(trial(1, HUNG))], 3),
        ([cell_of(trial(1, HUNG), cell=LOSSY_CELL)], 3),
        ([cell_of(trial(1, lost(1)), cell=LOSSY_CELL)], 0),
        ([cell_of(trial(1), cell=LOSSY_CELL)], 1),
        ([cell_of(trial(1, HUNG)), cell_of(trial(1), cell=LOSSY_CELL)], 1),
        ([cell_of(trial(1)), cell_of(trial(1, HUNG))], 3),
    ],
)
def test_exit_status(cells, status):
    run = run_of(*cells)
    assert run.exit_status == status
    assert run.as_expected == (status == 0)
    assert CampaignOutcome(runs=(run,)).exit_status == status


def full_run() -> RunResult:
    histogram = LatencyHistogram(count=1, sum_ns=900, max_ns=900, buckets=(0,) * 62 + (1,))
    control = ControlResult(
        kind=ControlKind.NO_SYNC, expected=Expect.LOSSY, verdict=Verdict.LOSSY, behaved=True
    )
    cell = CellResult.of(
        "s", SAFE_CELL, [trial(1, lost(2), latency=histogram)], verdict=Verdict.LOSSY,
        controls=[control],
    )  # fmt: skip
    return run_of(cell, cell_of(trial(1, HUNG), cell=LOSSY_CELL))


def test_json_reads_the_same_and_fits_the_published_schemas():
    run = full_run()
    assert RunResult.model_validate_json(run.model_dump_json()) == run
    outcome = CampaignOutcome(runs=(run,))
    for name, model in (("verdict", run), ("campaign", outcome)):
        schema = json.loads(published()[f"schema/{name}.schema.json"])
        validator = jsonschema.Draft202012Validator(schema)
        validator.validate(json.loads(model.model_dump_json()))
        assert not validator.is_valid({**json.loads(model.model_dump_json()), "more": 1})
        assert schema["$defs"]["CellResult"]["properties"].keys() == CellResult.model_fields.keys()


def test_json_has_what_the_interface_promises():
    cell = json.loads(full_run().model_dump_json())["cells"][0]
    assert cell["scenario"] == "s"
    assert cell["parameters"]["disk"]["size"] == "64 MiB"
    assert cell["commits_acked"] == 100
    assert cell["lost_lsns"] == [{"first": 2, "last": 2}]
    assert cell["findings"] == {"lost": 1}
    assert (cell["verdict"], cell["expected"], cell["as_expected"]) == ("lossy", "safe", False)
    assert cell["controls"][0]["kind"] == "no-sync"
    assert {"exposure", "timings_s", "result_directory", "reproduce"} <= cell.keys()


@given(
    st.builds(
        Finding,
        st.sampled_from(FindingKind),
        st.sampled_from(Verdict),
        st.text(),
        st.lists(
            st.builds(
                lambda first, more: LsnRange(first, first + more),
                st.integers(1, 99),
                st.integers(0, 9),
            )
        ).map(tuple),
        st.dictionaries(st.text(), st.integers() | st.text() | st.none()),
    )
)
def test_findings_read_the_same(finding):
    text = FindingRecord.of(finding).model_dump_json()
    assert FindingRecord.model_validate_json(text).finding() == finding
