# SPDX-License-Identifier: Apache-2.0
"""JUnit XML, which every CI can show.

A cell is a test case: it fails if its verdict is not the expected one, and is an error
if nothing could be said.  Captured files are one for each promise that counts.  Nothing is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from powercut.model.verdict import Verdict
from powercut.report import words
from powercut.report.explained import explain
from powercut.store.results import CellResult, RunResult

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold; a guest's console may."""


def junit_xml(run: RunResult) -> bytes:
    """The result of `run` as a JUnit test suite."""
    return _document(_suite(run))


def junit_of(runs: Sequence[RunResult]) -> bytes:
    """The results of several runs: a suite for each."""
    suites = ET.Element("testsuites", name="powercut")
    suites.extend(_suite(run) for run in runs)
    return _document(suites)


def _document(root: ET.Element) -> bytes:
    ET.indent(root)
    text = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'.encode()


def _suite(run: RunResult) -> ET.Element:
    files = [] if run.files is None else [*run.files.counted_rows]
    verdicts = [verdict for _, verdict, _ in files]
    unknown = [*verdicts, *(cell.verdict for cell in run.cells)].count(Verdict.INCONCLUSIVE)
    suite = ET.Element(
        "testsuite",
        name=f"powercut.{run.scenario}",
        timestamp=run.started,
        time=f"{run.seconds:.3f}",
        tests=str(len(run.cells) + len(files)),
        failures=str(sum(map(_failed, run.cells)) + verdicts.count(Verdict.LOSSY)),
        errors=str(unknown),
    )
    _properties(
        suite,
        {
            "powercut": run.powercut,
            "seed": str(run.seed),
            "result_directory": run.result_directory,
            "reproduce": run.reproduce,
        },
    )
    for cell in run.cells:
        _case(suite, run, cell)
    for name, verdict, text in files:
        case = ET.SubElement(suite, "testcase", classname=f"powercut.{run.scenario}", name=name)
        if verdict is not Verdict.SAFE:
            kind = "failure" if verdict is Verdict.LOSSY else "error"
            problem = ET.SubElement(case, kind, message=verdict.name)
            problem.text = clean(text)
    return suite


def properties(cell: CellResult) -> dict[str, str]:
    """What a CI may want to sort test cases by."""
    return {
        "verdict": cell.verdict.name.lower(),
        "evidence_level": cell.evidence_level.value,
        "expected": cell.expected.value,
        "commits_acked": str(cell.commits_acked),
        "commits_lost": str(cell.commits_lost),
        "lost_lsns": words.ranges(cell.lost_lsns, shown=len(cell.lost_lsns)),
        "loss_probability_upper_95": ""
        if cell.loss_probability_upper_95 is None
        else f"{cell.loss_probability_upper_95:.6g}",
        "exposed_records": "" if cell.exposure is None else str(cell.exposure.records),
        "states_recovered": "0" if cell.states is None else str(cell.states.states),
        "reproduce": cell.reproduce,
    }


def _failed(cell: CellResult) -> bool:
    return not cell.as_expected and cell.verdict is not Verdict.INCONCLUSIVE


def _case(suite: ET.Element, run: RunResult, cell: CellResult) -> None:
    case = ET.SubElement(
        suite,
        "testcase",
        classname=f"powercut.{run.scenario}",
        name=clean(cell.cell),
        time=f"{sum(cell.timings_s.values()):.3f}",
    )
    _properties(case, properties(cell))
    if cell.verdict is Verdict.INCONCLUSIVE:
        problem = ET.SubElement(case, "error", message="INCONCLUSIVE")
    elif not cell.as_expected:
        message = f"{cell.verdict.name}, expected {cell.expected.value.upper()}"
        problem = ET.SubElement(case, "failure", message=message)
    else:
        if cell.verdict is Verdict.SURVIVED:  # it passes, and proves less than others that do
            ET.SubElement(case, "system-out").text = clean(explain(cell))
        return
    problem.text = clean(f"{explain(cell)}\n{cell.reproduce}\n")


def _properties(parent: ET.Element, values: dict[str, str]) -> None:
    group = ET.SubElement(parent, "properties")
    for name, value in values.items():
        ET.SubElement(group, "property", name=name, value=clean(value))


def clean(text: str) -> str:
    """`text` without what XML 1.0 cannot hold."""
    return _NOT_XML.sub("�", text)
