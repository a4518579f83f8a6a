# SPDX-License-Identifier: Apache-2.0
"""Mutants that nobody thought of: a seed draws them, and the survivors are reported.

    .venv/bin/pytest -m campaign -s tests/planted/test_drawn_mutants.py

POWERCUT_MUTANTS="seed=7 count=50 minutes=60 rooms=crash,checkers" says which; by default the seed
is the day's, so that each night tries others.  build/drawn-mutants.json has all of them.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import pytest

from powercut.paths import BUILD, ROOT
from powercut.store.files import write_atomic

sys.path.insert(0, str(Path(__file__).parent))

from mutants.campaign import Scratch
from mutants.drawn import EQUIVALENT, ROOMS, _differs, _drawn, draw, files, nearest

REPORT = BUILD / "drawn-mutants.json"
DEFAULTS = {"seed": "", "count": "40", "minutes": "240", "rooms": ",".join(ROOMS)}


def test_what_a_program_does_not_do_is_no_mutant():
    text = 'def keep(a: int | None) -> int:\n    """Says."""\n    return a + 1\n'
    assert _differs(text, text.replace("a + 1", "a - 1"))
    assert not _differs(text, text.replace("int | None", "int & None"))
    assert not _differs(text, text.replace("a + 1", "a + + "))


def test_a_mutant_is_named_by_the_line_that_it_changes():
    text = "def keep(a):\n    b = 1\n    return a + b\n"
    drawn = _drawn("x.py", "core/Some", text, text.replace("a + b", "a - b"))
    assert (drawn.line, drawn.before, drawn.after) == (3, "return a + b", "return a - b")


def test_each_room_has_modules_and_each_equivalent_its_line():
    assert all(files([room]) for room in ROOMS)
    assert nearest("harness/powercut/crash/order.py")
    lines = {
        (file, before)
        for file, before, _ in EQUIVALENT
        if before in " ".join(line.strip() for line in (ROOT / file).read_text().splitlines())
    }
    assert lines == {(file, before) for file, before, _ in EQUIVALENT}


@pytest.mark.campaign
def test_drawn_mutants_are_noticed(tmp_path):
    given = os.environ.get("POWERCUT_MUTANTS", "").split()
    told = DEFAULTS | dict(word.split("=", 1) for word in given)
    seed = int(told["seed"] or datetime.now(UTC).strftime("%Y%m%d"))
    ends = time.monotonic() + 60 * float(told["minutes"])
    sys.stdout.write(f"\nseed {seed}\n")
    outcomes, survivors = [], []
    scratch = Scratch(tmp_path)
    try:
        for drawn in itertools.islice(draw(seed, told["rooms"].split(",")), int(told["count"])):
            if time.monotonic() > ends:
                break
            begun = time.monotonic()
            killed_by = "" if drawn.equivalent else _killed_by(scratch, drawn)
            one = asdict(drawn) | {"killed_by": killed_by, "equivalent": drawn.equivalent}
            one["seconds"] = round(time.monotonic() - begun, 1)
            outcomes.append({key: value for key, value in one.items() if key != "text"})
            write_atomic(REPORT, _report(seed, outcomes).encode())
            became = killed_by or drawn.equivalent or "SURVIVED"
            sys.stdout.write(f"{drawn}\n  {became}\n")
            sys.stdout.flush()
            if not killed_by and not drawn.equivalent:
                survivors.append(str(drawn))
    finally:
        scratch.close()
    assert survivors == [], f"{len(survivors)} of {len(outcomes)} survived:\n" + "\n".join(
        survivors
    )


def _killed_by(scratch, drawn):
    try:
        return scratch.try_text(drawn.file, drawn.text, drawn.suite).killed_by
    except RuntimeError as error:
        if "without any mutant" in str(error):
            raise
        return f"tests that do not begin: {str(error).splitlines()[0][:80]}"


def _report(seed, outcomes):
    return json.dumps({"seed": seed, "mutants": outcomes}, indent=1) + "\n"
