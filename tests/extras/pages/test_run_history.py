# SPDX-License-Identifier: Apache-2.0
"""Runs over time, those of pytest's sessions as one; certificates that do not verify."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from certificate_maker import cell_of, certificate_of_cells
from click.testing import CliRunner

from powercut.cli.commands import cli
from powercut.model.verdict import Verdict
from powercut.scenario.load import expand, parse_scenario
from powercut.scenario.plan import Cell
from powercut.store.layout import ResultDir
from powercut.store.results import CellResult, RunResult
from powercut.store.trial_result import TrialResult
from powercut_extras.pages.history import Series
from powercut_extras.pages.history_page import history_html
from powercut_extras.pages.history_reader import read_history

TEXT = "powercut: 1\nname: {}\ncells: [{{name: a}}, {{name: b}}, {{name: c, expect: lossy}}]\n"
BEGAN = datetime(2026, 11, 20, 1, 0, tzinfo=UTC)
SAFE, LOSSY, UNKNOWN = Verdict.SAFE, Verdict.LOSSY, Verdict.INCONCLUSIVE

Run = Callable[..., Path]


def trial_of(cell: Cell, verdict: Verdict) -> TrialResult:
    return TrialResult.judged(
        cell.trials[0], verdict=verdict, acked=1, attempted=1, findings=(), exposure=None,
        in_flight=None, timings_s={}, result_directory="",
    )  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Writes one run with a verdict of each cell that is named; returns its folder."""

    def write(
        minutes: float, *, only: bool = False, seed: int = 7, name: str = "s", **verdicts: Verdict
    ) -> Path:
        plan = expand(parse_scenario(TEXT.format(name), Path(f"{name}.yaml")), seed=seed)
        now = BEGAN + timedelta(minutes=minutes)
        directory = ResultDir.create(tmp_path, name, seed, now=now)
        directory.write_scenario(TEXT.format(name))
        selection = {"only": list(verdicts) if only else []}
        directory.write_environment({"selection": selection, "host": {"cpus": 2}})
        cells = [
            CellResult.of(
                name,
                cell,
                [trial_of(cell, verdicts[cell.name])],
                verdict=verdicts[cell.name],
                reasons=["it hung"],
            )
            for cell in plan.cells
            if cell.name in verdicts
        ]
        directory.write_verdict(
            RunResult.of(
                powercut="1", scenario=name, description="", scenario_file="", seed=seed,
                started=now.isoformat(), seconds=30.0, cells=cells,
            )
        )  # fmt: skip
        return directory.path

    return write


def only(root: Path, **options: str) -> Series:
    (series,) = read_history(root, **options).series
    return series


def test_runs_of_a_scenario_are_compared(run: Run, tmp_path: Path):
    run(0, a=SAFE, b=SAFE, c=LOSSY)
    last = run(1440, a=LOSSY, b=SAFE, c=LOSSY)
    series = only(tmp_path)
    assert (series.profile, series.certified, len(series.nights)) == ("s", False, 2)
    assert series.nights[-1].directory == last
    assert series.nights[-1].unexpected == 1
    assert series.changes is not None
    (change,) = series.changes.verdicts
    assert (change.name, change.before, change.after) == (("s", "a"), SAFE, LOSSY)
    assert (series.changes.added, series.changes.gone) == ((), ())
    said = CliRunner().invoke(cli, ["history", str(tmp_path)])
    assert said.exit_code == 0, said.output
    assert "s: 2 runs" in said.output
    assert "s: a was SAFE and is LOSSY" in said.output
    assert "verifies" not in said.output
    page = (tmp_path / "history.html").read_text()
    assert f'href="s/{last.name}/report.html"' in page


def test_cells_that_pytest_ran_one_by_one_are_one_run(run: Run, tmp_path: Path):
    for day in range(2):
        for number, cell in enumerate("abc"):
            verdict = LOSSY if cell == "c" else UNKNOWN if (cell, day) == ("b", 1) else SAFE
            run(1440 * day + number, only=True, seed=day, **{cell: verdict})
    series = only(tmp_path)
    assert [set(night.cells) for night in series.nights] == [{("s", c) for c in "abc"}] * 2
    assert [night.seconds for night in series.nights] == [150.0, 150.0]
    assert [night.count(UNKNOWN) for night in series.nights] == [0, 1]
    assert series.changes is not None
    (change,) = series.changes.verdicts
    assert change.name == ("s", "b")
    assert "it hung" in change.explanation


@pytest.mark.parametrize(
    ("minutes", "second"),
    [
        (91, {"b": SAFE, "seed": 7}),  # an hour and more apart
        (1, {"b": SAFE, "seed": 8}),
        (1, {"a": SAFE, "seed": 7}),  # the same cell again
        (1, {"b": SAFE, "seed": 7, "only": False}),
    ],
)
def test_what_is_of_another_session_stays_apart(run: Run, tmp_path: Path, minutes, second):
    run(0, only=True, a=SAFE)
    run(minutes, **{"only": True, **second})
    assert len(only(tmp_path).nights) == 2


def test_a_part_of_a_scenario_misses_nothing_and_remembers_the_rest(run: Run, tmp_path: Path):
    run(0, a=SAFE, b=SAFE, c=LOSSY)
    run(1440, only=True, a=SAFE)
    changes = only(tmp_path).changes
    assert changes is not None
    assert (changes.verdicts, changes.added, changes.gone) == ((), (), ())
    run(2880, a=SAFE, b=LOSSY, c=LOSSY)
    changes = only(tmp_path).changes
    assert changes is not None
    assert [change.name for change in changes.verdicts] == [("s", "b")]
    assert (changes.added, changes.gone) == ((), ())


def test_runs_that_cannot_be_read_are_said(run: Run, tmp_path: Path):
    run(0, a=SAFE)
    for minutes, key, value in ((1, "started", "yesterday"), (2, "seconds", 1e300)):
        path = run(minutes, a=SAFE) / "verdict.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    (run(3, a=SAFE) / "verdict.json").write_text("{")
    history = read_history(tmp_path)
    assert len(history.damaged) == 3
    assert [len(series.nights) for series in history.series] == [1]


def certificate(tmp_path: Path, name: str, **changes: object) -> Path:
    folder = tmp_path / "certify" / "quick" / name
    folder.mkdir(parents=True)
    cell = cell_of("a", UNKNOWN, cuts=0, explanation="it hung")
    made = certificate_of_cells([cell], **{"axes": {}, "as_expected": False} | changes)
    (folder / "certificate.json").write_text(made.model_dump_json())
    return folder


def test_a_certificate_that_does_not_verify_is_marked(run: Run, tmp_path: Path):
    certificate(tmp_path, "n1", started="2026-11-20T01:00:00+00:00")
    wrong = certificate(
        tmp_path, "n2", started="2026-11-21T01:00:00+00:00",
        verdicts={"safe": 1, "lossy": 0, "inconclusive": 0},
    )  # fmt: skip
    run(0, a=SAFE)
    history = read_history(tmp_path)
    assert [(series.profile, series.certified) for series in history.series] == [
        ("quick", True), ("s", False),
    ]  # fmt: skip
    good, bad = history.series[0].nights
    assert (good.problems, good.beside) == ((), False)
    assert len(bad.problems) == 1
    said = CliRunner().invoke(cli, ["history", str(tmp_path)])
    assert "The certificate of 2026-11-21 01:00 does not verify: verdicts: it counts" in said.output
    assert f"powercut verify {wrong} says all" in said.output
    page = history_html(history, tmp_path)
    assert "<td>alone</td>" in page
    assert "does not verify:" in page
    assert read_history(tmp_path, profile="s").series[0].certified is False
