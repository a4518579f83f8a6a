# SPDX-License-Identifier: Apache-2.0
"""The HTML report: one file, no network, no script."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import jinja2
from markupsafe import Markup

from powercut.model.verdict import Verdict
from powercut.report import words
from powercut.report.evidence import read_evidence
from powercut.report.story import Moment, last_moments
from powercut.report.svg import timeline_svg
from powercut.store.layout import ResultDir
from powercut.store.results import CellResult, RunResult, TrialResult

DRAWN_CELLS = 24
"""How many cells get a drawing; a campaign that fails everywhere needs no hundred."""


@dataclass(frozen=True)
class Story:
    """A cell that is not SAFE, with its worst trial drawn and told."""

    cell: CellResult
    trial: TrialResult | None
    drawing: Markup
    moments: tuple[tuple[float, str], ...]
    problems: tuple[str, ...]


def html_report(result: ResultDir, run: RunResult) -> str:
    """The report of `run`, whose recordings lie in `result`."""
    concerning = [cell for cell in run.cells if cell.verdict is not Verdict.SAFE]
    # What nobody expected comes first.
    concerning.sort(key=lambda cell: (cell.as_expected, -cell.verdict))
    return _template().render(
        run=run,
        stories=[_story(result, cell) for cell in concerning[:DRAWN_CELLS]],
        untold=len(concerning) - DRAWN_CELLS,
        environment=result.read_environment(),
        words=words,
        Verdict=Verdict,
        many=any(len(cell.trials) > 1 for cell in run.cells),
        acked=sum(cell.commits_acked for cell in run.cells),
        cuts=sum(len(cell.trials) for cell in run.cells),
    )


def _story(result: ResultDir, cell: CellResult) -> Story:
    trial = cell.worst_trial
    if trial is None or not trial.result_directory:
        return Story(cell, trial, Markup(), (), ())
    evidence = read_evidence(result.at(trial.result_directory))
    # timeline_svg escapes what it is given; everything else in it is its own.
    drawing = Markup(timeline_svg(evidence, trial.lost_lsns, cell.cell))
    return Story(
        cell,
        trial,
        drawing,
        tuple(_relative(moment, evidence.start_ns) for moment in last_moments(evidence)),
        evidence.problems,
    )


def _relative(moment: Moment, start_ns: int) -> tuple[float, str]:
    return (moment.at - start_ns) / 1e6, moment.text


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("powercut.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2")
