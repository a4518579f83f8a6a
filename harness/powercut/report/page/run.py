# SPDX-License-Identifier: Apache-2.0
"""The HTML report: one file, no network, no script."""

from __future__ import annotations

from dataclasses import dataclass

from powercut.model.verdict import Verdict
from powercut.report import words
from powercut.report.explained import explain
from powercut.report.page.facts import facts_of
from powercut.report.page.glossary import GLOSSARY
from powercut.report.page.pages import page
from powercut.report.page.telling import TrialStory, tell_trial
from powercut.store.layout import ResultDir
from powercut.store.results import CellResult, RunResult, TrialResult

DRAWN_CELLS = 24
"""How many cells get a drawing; a campaign that fails everywhere needs no hundred."""


@dataclass(frozen=True)
class Story:
    """A cell that is not SAFE, with its worst trial drawn and told."""

    cell: CellResult
    trial: TrialResult | None
    told: TrialStory | None


def html_report(result: ResultDir, run: RunResult, *, linked: bool = False) -> str:
    """The report of `run`, whose recordings lie in `result`; `linked` to their pages, which a
    server has.
    """
    concerning = [cell for cell in run.cells if cell.verdict is not Verdict.SAFE]
    # The unexpected comes first.
    concerning.sort(key=lambda cell: (cell.as_expected, -cell.verdict))
    return page("report.html.j2").render(
        run=run,
        linked=linked,
        stories=[_story(result, cell) for cell in concerning[:DRAWN_CELLS]],
        untold=len(concerning) - DRAWN_CELLS,
        facts=facts_of(run, result.read_environment()),
        counts=[(v, number) for v in sorted(Verdict) if (number := _count(run, v))],
        surprises=[cell for cell in run.cells if not cell.as_expected],
        glossary=GLOSSARY,
        words=words,
        explain=explain,
        Verdict=Verdict,
        many=any(len(cell.trials) > 1 for cell in run.cells),
        acked=sum(cell.commits_acked for cell in run.cells),
        cuts=sum(len(cell.trials) for cell in run.cells),
    )


def _count(run: RunResult, verdict: Verdict) -> int:
    return sum(cell.verdict is verdict for cell in run.cells)


def _story(result: ResultDir, cell: CellResult) -> Story:
    trial = cell.worst_trial
    if trial is None or not trial.result_directory:
        return Story(cell, trial, None)
    told = tell_trial(result.at(trial.result_directory), trial, cell.cell)
    return Story(cell, trial, told)
