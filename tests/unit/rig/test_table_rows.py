# SPDX-License-Identifier: Apache-2.0
"""What the tables of engines and machines say of each row, held against the code."""

from __future__ import annotations

import re

import pytest

from powercut.paths import ROOT
from powercut.recover.port import BootsRecordedKernel
from powercut.rig.engines import ENGINES, RECOVERY_KERNEL, engine_class
from powercut.scenario.machines import MACHINES

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


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_backend_is_known_to_its_room_and_to_one_row_of_the_table(name):
    """So another is added by a folder and a row; the doctor examines what is installed."""
    package = MACHINES[name].place.partition(":")[0]
    if package.startswith("powercut.machine."):
        package = package.rpartition(".")[0]
    knows = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if package in path.read_text()
        and path.relative_to(PACKAGE).parts[0] not in ("machine", "doctor")
    }
    assert knows == {"scenario/machines.py"}
