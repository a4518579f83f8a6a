# SPDX-License-Identifier: Apache-2.0
"""The HTML report: one file, no network, no script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from powercut.model.verdict import Verdict
from powercut.report import words
from powercut.report.explained import explain
from powercut.report.page.pages import GLOSSARY, page
from powercut.report.page.telling import TrialStory, tell_trial
from powercut.report.terminal.program_try import answer_lines
from powercut.store.layout import ResultDir
from powercut.store.results import CellResult, RunResult
from powercut.store.trial_result import TrialResult

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
        answer=[] if run.files is None else [*answer_lines(run, run.files)],
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
    counted = () if run.files is None else run.files.counted
    return sum(one is verdict for one in (*(cell.verdict for cell in run.cells), *counted))


def _story(result: ResultDir, cell: CellResult) -> Story:
    trial = cell.worst_trial
    if trial is None or not trial.result_directory:
        return Story(cell, trial, None)
    told = tell_trial(result.at(trial.result_directory), trial, cell.cell)
    return Story(cell, trial, told)


# What a run was made on, in rows for a person: environment.json without its brackets.

_SAID_ELSEWHERE: Final = ("powercut", "seed", "started", "selection", "options")
"""Keys of environment.json that other rows, or the command that repeats the run, say."""

_NAMES: Final = {"qemu": "QEMU", "guest": "guest image", "python": "Python"}


def facts_of(run: RunResult, environment: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Pairs of a name and what is to be known, in the order in which a person asks."""
    return [
        ("started", run.started),
        ("seed", str(run.seed)),
        ("powercut", run.powercut),
        *_of_environment(environment),
        *([("host load", words.host_load(run.load))] if run.load is not None else []),
    ]


def _of_environment(environment: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in environment.items():
        if name in _SAID_ELSEWHERE:
            continue
        if name == "versions" and isinstance(value, list):
            yield from (("machine", _machine(one)) for one in value if isinstance(one, Mapping))
        elif name == "sessions":
            if len(value) > 1:
                starts = [str(one.get("started")) for one in value if isinstance(one, Mapping)]
                yield "gone on with", ", ".join(starts[1:])
        elif text := plain(value):
            yield _NAMES.get(name, name), text


def _machine(versions: Mapping[str, Any]) -> str:
    """The versions of one machine; its other entries follow, so that none is lost."""
    rest = dict(versions)
    qemu, package = rest.pop("qemu_version", ""), rest.pop("qemu_package", "")
    kernel, kernel_package = rest.pop("kernel_release", ""), rest.pop("kernel_package", "")
    said = []
    if qemu:
        said.append(f"QEMU {qemu}" + (f" ({package})" if package else ""))
    if kernel:
        said.append(f"Linux {kernel}" + (f" ({kernel_package})" if kernel_package else ""))
    return "; ".join([*said, *([plain(rest)] if rest else [])])


def plain(value: Any) -> str:
    """A value of JSON as a person writes it."""
    if isinstance(value, Mapping):
        pairs = ((name, plain(item)) for name, item in value.items())
        return "; ".join(f"{name}: {text}" for name, text in pairs if text)
    if isinstance(value, list | tuple):
        return ", ".join(text for item in value if (text := plain(item)))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)
