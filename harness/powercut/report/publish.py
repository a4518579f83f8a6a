# SPDX-License-Identifier: Apache-2.0
"""Writes the reports of a run beside its verdict."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from powercut.model.errors import HostError, UsageError
from powercut.model.extras import provided
from powercut.report.junit import junit_xml
from powercut.report.page.run import html_report
from powercut.store.files import write_atomic
from powercut.store.folder import REPORT
from powercut.store.layout import ResultDir


def write_reports(result: ResultDir) -> Path:
    """Writes report.html and junit.xml, and the page of its captured files; returns the first.

    Raises PowercutError.
    """
    run = result.read_verdict()
    if run.files is not None and run.files.recording:
        write_recording_page(result.path / run.files.recording)
    result.write_file("junit.xml", junit_xml(run))
    return result.write_file("report.html", html_report(result, run).encode())


def recording_page(folder: Path) -> str:
    """As HTML, made by an extra's `powercut.pages`.

    Raises UsageError where none has them, HostError for a broken one, DamagedRecording.
    """
    if (made := provided("powercut.pages")) is not None:
        return cast(str, made(folder))
    raise UsageError("powercut's extra `pages`, which makes pages of recordings, is not installed")


def write_recording_page(folder: Path) -> None:
    """Makes report.html of what the recording's folder holds, if an extra can.

    Raises HostError, DamagedRecording.
    """
    try:
        made = provided("powercut.pages")
    except HostError:  # `powercut doctor` says why
        return
    if made is not None:
        write_atomic(folder / REPORT, made(folder).encode())
