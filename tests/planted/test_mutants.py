# SPDX-License-Identifier: Apache-2.0
"""The detector's detector: bugs planted outside the crash model, one by one.

    .venv/bin/pytest -m campaign tests/planted/test_mutants.py [-k capture]

Each runs in a copy of this tree against the stated tests of its part (mutants/suites.py).  None
may survive, but for those whose table says why nobody can notice them.  docs/measured/mutants.md is
written once every mutant was looked at.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

import pytest

from powercut.paths import ROOT

sys.path.insert(0, str(Path(__file__).parent))

from mutants import (
    c_parts,
    clusters,
    edges,
    evidence,
    folders,
    judging,
    lending,
    levels,
    logs,
    orders,
    presses,
    programs,
    sandboxes,
    states,
)
from mutants.campaign import TABLE, Scratch, remember, row, write_table
from mutants.place import At, planted

MUTANTS = (
    *judging.MUTANTS,
    *evidence.MUTANTS,
    *levels.MUTANTS,
    *programs.MUTANTS,
    *folders.MUTANTS,
    *states.MUTANTS,
    *orders.MUTANTS,
    *c_parts.MUTANTS,
    *sandboxes.MUTANTS,
    *clusters.MUTANTS,
    *lending.MUTANTS,
    *presses.MUTANTS,
    *edges.MUTANTS,
    *logs.MUTANTS,
)


def test_every_mutant_can_be_planted():
    """Its code is in its function exactly once, and what it makes of the file is a program."""
    text = {mutant.file: (ROOT / mutant.file).read_text() for mutant in MUTANTS}
    wrong = {}
    for mutant in MUTANTS:
        try:
            made = planted(mutant.file, text[mutant.file], mutant.place, mutant.new)
            if mutant.file.endswith(".py"):
                same = ast.dump(ast.parse(made)) == ast.dump(ast.parse(text[mutant.file]))
            else:
                same = made.split() == text[mutant.file].split()
            if same:
                wrong[mutant.name] = "it changes nothing"
        except (LookupError, SyntaxError) as error:
            wrong[mutant.name] = str(error)
    assert wrong == {}
    assert [name for name, count in Counter(m.name for m in MUTANTS).items() if count > 1] == []
    assert len(MUTANTS) >= 100


def test_every_suite_has_its_tests():
    """pytest ends with an error where one is gone, and every mutant would be found."""
    words = {word for mutant in MUTANTS for check in mutant.suite.checks for word in check}
    named = {word.partition("::")[0] for word in words if word.startswith("tests/")}
    gone = [one for one in named if not (ROOT / one).exists()]
    assert not gone


SOURCE = """\
class Disk:
    @property
    def flush(self):
        \"\"\"Says \"\"\"
        if (self.a
                and not self.b):
            return f"{self.b}"
        return keep(self.a,
                    deep=True)

def keep(a, deep): return a
"""


@pytest.mark.parametrize(
    ("place", "new", "line"),
    [
        (At("Disk.flush", "self.a and not self.b"), "self.a", "        if (self.a):"),
        (At("Disk.flush", "deep = True"), "deep=False", "                    deep=False)"),
        (At("Disk", "return keep(self.a, deep=True)"), "pass", "        pass"),
        (At("keep", "return a"), "return None", "def keep(a, deep): return None"),
    ],
)
def test_a_place_is_found_whatever_the_layout(place, new, line):
    assert line in planted("x.py", SOURCE, place, new).replace("((", "(").replace("))", ")")


@pytest.mark.parametrize(
    "place",
    [At("Disk.flush", "self.c"), At("flush", "self.a"), At("", "self.a"), At("keep", "deep(")],
)
def test_a_place_that_is_not_there_once_is_refused(place):
    with pytest.raises(LookupError, match=r"stands there \d times"):
        planted("x.py", SOURCE, place, "None")


def test_a_place_in_c_is_found_in_its_function_whatever_the_white_space():
    text = "int one(int a)\n{\n    return a;\n}\n\nint two(int a)\n{\n    return\n        a;\n}\n"
    assert planted("x.c", text, At("two", "return a;"), "return 2;").endswith("    return 2;\n}\n")
    with pytest.raises(LookupError, match="2 times"):
        planted("x.c", text, At("", "return a;"), "return 2;")


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
