# SPDX-License-Identifier: Apache-2.0
"""The detector's detector: bugs planted outside the crash model, one by one.

    .venv/bin/pytest -m campaign tests/planted/test_mutants.py [-k capture]

Each runs in a copy of this tree against the stated tests of its part (mutants/suites.py).  None
may survive, but for those whose table says why nobody can notice them.  docs/measured/mutants.md is
written once every mutant was looked at.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from powercut.paths import ROOT

sys.path.insert(0, str(Path(__file__).parent))

from mutants import c_parts, evidence, folders, judging, levels, programs, states
from mutants.campaign import TABLE, Scratch, remember, row, write_table

MUTANTS = (
    *judging.MUTANTS,
    *evidence.MUTANTS,
    *levels.MUTANTS,
    *programs.MUTANTS,
    *folders.MUTANTS,
    *states.MUTANTS,
    *c_parts.MUTANTS,
)


def test_every_mutant_can_be_planted():
    """Its text stands in its file exactly once: code that changes takes its mutants along."""
    text = {mutant.file: (ROOT / mutant.file).read_text() for mutant in MUTANTS}
    wrong = [m.name for m in MUTANTS if text[m.file].count(m.old) != 1 or m.old == m.new]
    assert wrong == []
    assert [name for name, count in Counter(m.name for m in MUTANTS).items() if count > 1] == []
    assert len(MUTANTS) >= 100


def test_the_table_names_every_mutant_and_a_test_that_is_there():
    rows = [line for line in TABLE.read_text().splitlines() if line.startswith("| `")]
    assert [line.split("`")[1] for line in rows] == [mutant.name for mutant in MUTANTS]
    tests = {
        f"{path.stem}::{line.split('(')[0].removeprefix('def ')}"
        for path in (ROOT / "tests").rglob("test_*.py")
        for line in path.read_text().splitlines()
        if line.startswith("def test_")
    }
    for mutant, line in zip(MUTANTS, rows, strict=True):
        killed_by = line.rsplit("| ", 1)[1].removesuffix(" |").strip("`")
        assert line == row(mutant, killed_by)
        if not mutant.equivalent:
            assert killed_by in tests or killed_by.startswith(("C: ", "a test that does not end"))


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    made = Scratch(tmp_path_factory.mktemp("mutants"))
    yield made
    made.close()
    write_table(MUTANTS)


@pytest.mark.campaign
@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_planted_bug_is_noticed(scratch, mutant):
    outcome = scratch.try_mutant(mutant)
    remember(mutant, outcome)
    assert bool(outcome.killed_by) != bool(mutant.equivalent), (
        f"{mutant.file}: {mutant.what}: no test of {mutant.suite.name} notices"
        if not outcome.killed_by
        else f"{outcome.killed_by} notices a mutant that is said to be equivalent"
    )
