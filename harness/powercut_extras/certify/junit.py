# SPDX-License-Identifier: Apache-2.0
"""A certificate as JUnit XML: each scenario is a suite, each cell a test case."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

from powercut.model.verdict import Verdict
from powercut.report.junit import clean
from powercut_extras.certify.certificate import Certificate, CertifiedCell, Definition


def certificate_junit(certificate: Certificate) -> bytes:
    """Fails a cell whose verdict is not the expected one, and is an error if nothing is known."""
    suites = ET.Element("testsuites", name=f"powercut certify {certificate.title}")
    for scenario in dict.fromkeys(cell.scenario for cell in certificate.cells):
        cells = [cell for cell in certificate.cells if cell.scenario == scenario]
        suite = ET.SubElement(
            suites,
            "testsuite",
            name=f"powercut.{scenario}",
            timestamp=certificate.started,
            tests=str(len(cells)),
            failures=str(sum(_failed(cell) for cell in cells)),
            errors=str(sum(cell.verdict is Verdict.INCONCLUSIVE for cell in cells)),
        )
        for cell in cells:
            _case(suite, cell)
    if definition := certificate.definition:
        _disks(suites, definition)
    ET.indent(suites)
    text = ET.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'.encode()


def _disks(suites: ET.Element, definition: Definition) -> None:
    """A test case for each disk that was left out, which is an error; settings as output."""
    missing = definition.disks_left_out
    name = f"powercut.{definition.machine}"
    suite = ET.SubElement(
        suites,
        "testsuite",
        name=clean(name),
        tests=str(len(missing)),
        failures="0",
        errors=str(len(missing)),
    )
    for one in missing:
        case = ET.SubElement(suite, "testcase", classname=clean(name), name=clean(one.what))
        ET.SubElement(case, "error", message="NOT TESTED").text = clean(one.why)
    told = "".join(f"left out: {one.what}: {one.why}\n" for one in definition.left_out)
    ET.SubElement(suite, "system-out").text = clean(told)


def _failed(cell: CertifiedCell) -> bool:
    return not cell.as_expected and cell.verdict is not Verdict.INCONCLUSIVE


def _case(suite: ET.Element, cell: CertifiedCell) -> None:
    case = ET.SubElement(
        suite, "testcase", classname=f"powercut.{cell.scenario}", name=clean(cell.cell)
    )
    group = ET.SubElement(case, "properties")
    facts = {
        "verdict": cell.verdict.name.lower(),
        "evidence_level": cell.evidence_level.value,
        "expected": cell.expected.value,
        "cuts": str(cell.cuts),
        "commits_acked": str(cell.acked),
        "commits_lost": str(cell.lost),
        "settings": json.dumps(cell.settings),
        "reproduce": cell.reproduce,
    }
    for name, value in facts.items():
        ET.SubElement(group, "property", name=name, value=clean(value))
    if cell.verdict is Verdict.INCONCLUSIVE:
        problem = ET.SubElement(case, "error", message="INCONCLUSIVE")
    elif not cell.as_expected:
        message = f"{cell.verdict.name}, expected {cell.expected.value.upper()}"
        problem = ET.SubElement(case, "failure", message=message)
    else:
        if cell.verdict is Verdict.SURVIVED:  # it passes, and proves less than others that do
            ET.SubElement(case, "system-out").text = clean(cell.explanation)
        return
    problem.text = clean(f"{cell.explanation}\n{cell.reproduce}\n")
