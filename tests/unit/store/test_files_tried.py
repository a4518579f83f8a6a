# SPDX-License-Identifier: Apache-2.0
"""What the captured files of a program mean for the verdict of its run, and for a CI."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from captured_result import RESULT
from hypothesis import given
from hypothesis import strategies as st

from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut.report.github import summary, workflow_commands
from powercut.report.junit import junit_xml
from powercut.scenario.load import expand, parse_scenario
from powercut.store.files_tried import JOURNAL, POSIX, FilesTried
from powercut.store.results import CampaignOutcome, CellResult, RunResult
from powercut.store.trial_result import TrialResult

(CELL,) = expand(
    parse_scenario("powercut: 1\nname: s\ncells: [{name: disk}]\n", Path("s")), seed=3
).cells
JUDGED = (Verdict.SAFE, Verdict.INCONCLUSIVE, Verdict.LOSSY)
CAUSE = "Operation 3 was acknowledged while the renaming of new to store could be lost"
LOST = Finding(FindingKind.LOST, Verdict.LOSSY, "record 7 is gone", (LsnRange(7, 7),))
STATUS = {Verdict.SAFE: 0, Verdict.INCONCLUSIVE: 3, Verdict.LOSSY: 1}


def run_of(disk: Verdict, files: FilesTried | None) -> RunResult:
    trial = TrialResult.judged(
        CELL.trials[0],
        verdict=disk,
        acked=10,
        attempted=10,
        findings=(LOST,) if disk is Verdict.LOSSY else (),
    )
    return RunResult.of(
        powercut="0",
        scenario="s",
        seed=3,
        started="2026-11-29T10:15:02+00:00",
        seconds=1.5,
        cells=[CellResult.of("s", CELL, [trial], verdict=disk)],
        files=files,
    )


def files_of(
    journal: Verdict | None, posix: Verdict | None, *, portable: bool = False, recorded: bool = True
) -> FilesTried:
    def result(verdict: Verdict | None):
        return None if verdict is None else RESULT.model_copy(update={"verdict": verdict})

    return FilesTried(
        recording="files" if recorded else "",
        portable=portable,
        journal=result(journal),
        posix=result(posix),
        cause=CAUSE if Verdict.LOSSY in (journal, posix) else "",
        reason="no room" if None in (journal, posix) else "",
    )


@pytest.mark.parametrize(("disk", "journal"), [*product(JUDGED, JUDGED)])
def test_the_worse_of_disk_and_files_is_that_of_the_run(disk: Verdict, journal: Verdict) -> None:
    run = run_of(disk, files_of(journal, Verdict.SAFE))
    assert run.verdict is max(disk, journal)
    assert run.exit_status == STATUS[run.verdict] == CampaignOutcome(runs=(run,)).exit_status
    assert run.as_expected == (run.verdict is Verdict.SAFE)


@pytest.mark.parametrize("posix", JUDGED)
def test_posix_alone_counts_where_the_answer_is_to_be_portable(posix: Verdict) -> None:
    assert run_of(Verdict.SAFE, files_of(Verdict.SAFE, posix)).verdict is Verdict.SAFE
    portable = files_of(Verdict.SAFE, posix, portable=True)
    assert run_of(Verdict.SAFE, portable).verdict is posix


def test_files_that_were_recorded_and_not_judged_are_no_pass() -> None:
    unjudged = run_of(Verdict.SAFE, files_of(None, None))
    assert (unjudged.verdict, unjudged.exit_status) == (Verdict.INCONCLUSIVE, 3)
    unrecorded = files_of(None, None, recorded=False)
    assert run_of(Verdict.SAFE, unrecorded).verdict is Verdict.SAFE
    portable = files_of(None, None, portable=True, recorded=False)
    assert run_of(Verdict.SAFE, portable).verdict is Verdict.INCONCLUSIVE


def test_the_cause_is_that_of_what_counts() -> None:
    assert run_of(Verdict.SAFE, files_of(Verdict.LOSSY, Verdict.LOSSY)).cause == CAUSE
    assert run_of(Verdict.SAFE, files_of(Verdict.SAFE, Verdict.LOSSY)).cause == ""
    portable = files_of(Verdict.SAFE, Verdict.LOSSY, portable=True)
    assert run_of(Verdict.SAFE, portable).cause == CAUSE
    assert run_of(Verdict.LOSSY, files_of(Verdict.SAFE, Verdict.LOSSY)).cause == LOST.message
    assert run_of(Verdict.LOSSY, None).cause == LOST.message
    assert run_of(Verdict.SAFE, None).cause == ""


VERDICTS = st.sampled_from((None, *JUDGED))


@given(st.sampled_from(JUDGED), VERDICTS, VERDICTS, st.booleans(), st.booleans())
def test_a_ci_hears_of_each_verdict_that_counts(disk, journal, posix, portable, recorded) -> None:
    files = files_of(journal, posix, portable=portable, recorded=recorded or journal is not None)
    run = run_of(disk, files)
    suite = ET.fromstring(junit_xml(run))
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    assert set(cases) - {"disk"} == {name for name, *_ in files.counted_rows}
    said = [_verdict_of(case) for case in cases.values()]
    assert Verdict.worst(said) is run.verdict
    counts = (len(said), said.count(Verdict.LOSSY), said.count(Verdict.INCONCLUSIVE))
    assert tuple(int(suite.get(key, "")) for key in ("tests", "failures", "errors")) == counts
    assert list(_texts(cases, JOURNAL)) == [*_expected(journal, files)]
    assert RunResult.model_validate_json(run.model_dump_json()) == run
    assert POSIX not in cases or portable


def _verdict_of(case: ET.Element) -> Verdict:
    if case.find("failure") is not None:
        return Verdict.LOSSY
    return Verdict.SAFE if case.find("error") is None else Verdict.INCONCLUSIVE


def _texts(cases: dict[str | None, ET.Element], name: str) -> Iterator[str]:
    if name in cases:
        yield from (problem.text or "" for problem in cases[name])


def _expected(verdict: Verdict | None, files: FilesTried) -> Iterator[str]:
    if verdict is Verdict.LOSSY:
        yield CAUSE
    elif verdict is Verdict.INCONCLUSIVE:
        yield ""
    elif verdict is None and files.recording:
        yield files.reason


@pytest.mark.parametrize("journal", JUDGED)
def test_github_shows_files_that_count_as_it_does_cells(journal: Verdict) -> None:
    run = run_of(Verdict.SAFE, files_of(journal, Verdict.SAFE))
    commands = [line.partition("::")[2].partition(" ")[0] for line in workflow_commands([run])]
    level = {Verdict.SAFE: [], Verdict.INCONCLUSIVE: ["warning"], Verdict.LOSSY: ["error"]}
    assert commands == level[journal]
    (row,) = (line for line in summary([run]).splitlines() if line.startswith(f"| {JOURNAL} |"))
    assert row.count("|") == 7
    assert f" {journal.name} |" in row
    assert (CAUSE in row) == (journal is Verdict.LOSSY)


def test_github_is_told_loudly_that_files_were_not_recorded() -> None:
    run = run_of(Verdict.SAFE, files_of(None, None, recorded=False))
    (warning,) = workflow_commands([run])
    assert warning.startswith("::warning ")
    assert warning.endswith("::no room")
