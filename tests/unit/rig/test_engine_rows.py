# SPDX-License-Identifier: Apache-2.0
"""What the table of recovery engines says of each, held against what its class can do."""

from __future__ import annotations

import re

import pytest

from powercut.paths import ROOT
from powercut.recover.port import BootsRecordedKernel
from powercut.rig.engines import ENGINES, RECOVERY_KERNEL, engine_class

PACKAGE = ROOT / "harness" / "powercut"
COMPARED = re.compile(rf'(?:engine|name) (?:==|!=) "(?:{"|".join(ENGINES)})"')
CHOOSING = ("rig/engine_choice.py", "rig/engines.py")
"""Where engines are chosen by what a scenario calls them."""

BY_RECORDING = {
    "explore/explorer.py": 'self.engine != "program"',  # whose recovery the live log is of
}


@pytest.mark.parametrize("name", ENGINES)
def test_no_engine_both_brings_a_kernel_along_and_boots_the_recorded_one(name):
    row, made = ENGINES[name], engine_class(name)
    assert not (row.boots and issubclass(made, BootsRecordedKernel))
    assert not (row.reader_alone and (row.boots or issubclass(made, BootsRecordedKernel)))
    assert row.boots in ("", RECOVERY_KERNEL)


def test_nobody_else_asks_an_engine_for_its_name():
    asked = [
        f"{place}:{number}: {line.strip()}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if (place := str(path.relative_to(PACKAGE))) not in CHOOSING
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if COMPARED.search(line) and BY_RECORDING.get(place, "\0") not in line
    ]
    assert not asked, "\n".join(asked)
