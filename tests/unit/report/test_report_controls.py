# SPDX-License-Identifier: Apache-2.0
"""A control is blamed only if it is to blame."""

from __future__ import annotations

import pytest

from powercut.model.verdict import Verdict
from powercut.report.terminal.table import _wrong_control
from powercut.scenario.settings import ControlKind, Expect
from powercut.store.results import ControlResult


@pytest.mark.parametrize(
    ("kind", "verdict", "lossy", "begins"),
    [
        (ControlKind.HONEST, Verdict.LOSSY, True, "On an honest disk it loses as well: the fault"),
        (ControlKind.HONEST, Verdict.LOSSY, False, "Control honest misbehaved: lost 3"),
        (ControlKind.HONEST, Verdict.INCONCLUSIVE, True, "Control honest misbehaved: lost 3"),
        (ControlKind.LYING_DISK, Verdict.SAFE, False, "Control lying-disk misbehaved: lost 3"),
    ],
)
def test_a_workload_at_fault_is_no_control_that_misbehaved(kind, verdict, lossy, begins):
    control = ControlResult(
        kind=kind, expected=Expect.SAFE, verdict=verdict, behaved=False, message="lost 3"
    )
    assert _wrong_control(control, lossy=lossy).startswith(begins)
