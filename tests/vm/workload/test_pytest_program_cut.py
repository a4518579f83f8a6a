# SPDX-License-Identifier: Apache-2.0
"""A class in a test file of a project's own is recorded, cut and judged, with its honest twin."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from own_pytest import run_pytest

from powercut.paths import ROOT
from powercut.recover.uml.boot import unavailable

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable())),
]
EXAMPLE = ROOT / "workloads/examples/test_notes.py"
FORGETS = """

class TestForgetful(TestNotes):
    def sync(self, file):
        pass


powercut_program.program(acks=6, budget=8)(TestForgetful)
"""
FEW_STATES = """
from powercut.campaign import program_try

program_try.AUTO_STATES_OF_PROGRAM = 40
"""
"""A Python of its own checks each state of the captured files; by default there are 320."""


def told(folder: Path, *argv: str) -> str:
    """What pytest says of the example, or of the same without its sync."""
    (folder / "test_notes.py").write_text(EXAMPLE.read_text() + FORGETS)
    (folder / "conftest.py").write_text(FEW_STATES)
    return run_pytest(folder, "--powercut-seed", "7", *argv, timeout=500).stdout


@pytest.mark.nightly
def test_the_example_is_safe(tmp_path):
    assert "1 passed" in told(tmp_path, "-k", "not Forgetful")


@pytest.mark.fuse  # the cause is that of captured files
def test_without_its_sync_it_fails_and_the_cause_comes_first(tmp_path):
    said = told(tmp_path, "-k", "Forgetful")
    assert re.search(
        r"^_+ TestForgetful _+\n✗ LOSSY  test_notes:TestForgetful\n"
        r" +Operations? [\d-]+ .*notes\.jsonl",
        said,
        re.MULTILINE,
    ), said
    assert "FAILED test_notes.py::TestForgetful - ✗ LOSSY" in said
