# SPDX-License-Identifier: Apache-2.0
"""Writes the reports of a run beside its verdict."""

from __future__ import annotations

from pathlib import Path

from powercut.report.junit import junit_xml
from powercut.report.page.run import html_report
from powercut.store.layout import ResultDir


def write_reports(result: ResultDir) -> Path:
    """Writes report.html and junit.xml; returns the former.  Raises PowercutError."""
    run = result.read_verdict()
    result.write_file("junit.xml", junit_xml(run))
    return result.write_file("report.html", html_report(result, run).encode())
