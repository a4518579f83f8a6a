# SPDX-License-Identifier: Apache-2.0
"""What a CI is told of runs: JUnit of several, GitHub's annotations and summary, nothing twice."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from powercut.cli.run import tell_ci
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut.report.github import summary, workflow_commands
from powercut.report.junit import junit_of

LOST = Finding(FindingKind.LOST, Verdict.LOSSY, "lost", (LsnRange(3, 5),))
HUNG = Finding(FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE, "hung, 7 % in\n::error::mine")


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch):
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


def test_each_run_is_a_suite(make):
    runs = [make((), (LOST,), (LOST,)).run, make((), (LOST,), ()).run]
    suites = ET.fromstring(junit_of(runs)).findall("testsuite")
    assert [one.attrib["failures"] for one in suites] == ["0", "1"]
    assert [len(one.findall("testcase")) for one in suites] == [3, 3]


def test_a_run_as_expected_has_no_annotation(make):
    assert list(workflow_commands([make((), (LOST,), (LOST,)).run])) == []


def test_what_differs_is_an_error_and_what_is_unknown_a_warning(make):
    warning, error = workflow_commands([make((HUNG,), (LOST,), ()).run])
    assert warning.startswith("::warning file=")
    assert "title=first-light honest%3A INCONCLUSIVE::Nothing can be said" in warning
    assert error.startswith("::error file=")
    assert "title=first-light no-sync%3A SAFE%2C expected LOSSY::nothing was lost" in error


def test_no_text_of_a_stranger_ends_a_command(make):
    (warning,) = workflow_commands([make((HUNG,), (LOST,), (LOST,)).run])
    assert "\n" not in warning
    assert "7 %25 in" in warning
    assert warning.count("::") == 2 + warning.split("::", 2)[2].count("::")
    assert not any(line.startswith("::error") for line in warning.splitlines())


def test_the_summary_is_a_table_that_no_name_breaks(make):
    text = summary([make((HUNG,), (LOST,), ()).run])
    assert text.startswith("### first-light: not as expected\n")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == 5  # a head, a rule, three cells
    assert all(row.replace("\\|", "").count("|") == 7 for row in rows)
    assert "✗ LOSSY |  |" in text
    assert "SAFE, expected LOSSY. nothing was lost" in text


def test_outside_of_github_nothing_is_printed(make, capsys, tmp_path: Path):
    tell_ci([make((), (LOST,), ()).run], tmp_path / "junit.xml")
    assert capsys.readouterr().out == ""
    assert ET.parse(tmp_path / "junit.xml").getroot().tag == "testsuites"


def test_under_github_both_are_there_and_a_summary_is_added_to(
    make, capsys, tmp_path: Path, monkeypatch
):
    target = tmp_path / "summary.md"
    target.write_text("before\n")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(target))
    runs = [make((), (LOST,), ()).run]
    tell_ci(runs, None)
    assert capsys.readouterr().out.count("::error ") == 1
    assert target.read_text() == "before\n" + summary(runs)
    tell_ci(runs, None, quiet=True)  # stdout is JSON
    assert capsys.readouterr().out == ""
