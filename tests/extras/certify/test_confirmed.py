# SPDX-License-Identifier: Apache-2.0
"""A loss is confirmed only where cut and recording name the same records."""

from __future__ import annotations

from pathlib import Path

import pytest

from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut.scenario.plan import Cell, Trial, Trigger, TriggerKind
from powercut.scenario.settings import Parameters
from powercut.store.layout import ResultDir
from powercut.store.results import CellResult
from powercut.store.trial_result import TrialResult
from powercut_extras.certify.build import confirmed
from powercut_extras.certify.confirm import is_analysed
from powercut_extras.certify.confirmation import Confirmation, write_confirmation

TRIAL = Trial(1, 7, Trigger(TriggerKind.ACKS, 10), 8)
LSNS = (LsnRange(1, 10),)


def judged(kind: FindingKind, unreachable: tuple[LsnRange, ...] = ()) -> TrialResult:
    loss = Finding(kind, Verdict.LOSSY, "gone", LSNS, unreachable=unreachable)
    return TrialResult.judged(
        TRIAL,
        verdict=Verdict.LOSSY,
        acked=10,
        attempted=11,
        findings=[loss],
        result_directory="cells/a/0001",
    )


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        (FindingKind.LOST, True),
        (FindingKind.TORN, True),
        (FindingKind.CORRUPT, True),
        (FindingKind.NOT_RECOVERED, False),  # the recording says nothing of mounts that fail
        (FindingKind.UNREADABLE, False),
        (FindingKind.EXPOSED, False),  # it might have been lost, and was not
    ],
)
def test_what_the_analysis_of_a_recording_names(kind, named):
    assert is_analysed(judged(kind)) is named
    assert not is_analysed(judged(kind, LSNS))


def of_run(tmp_path: Path, result: TrialResult) -> tuple[ResultDir, CellResult]:
    run = ResultDir.create(tmp_path, "s", 1)
    run.trial("a", 1)
    cell = Cell("a", Parameters(), (TRIAL,))
    return run, CellResult.of("s", cell, [result], verdict=Verdict.LOSSY)


def test_a_system_that_did_not_recover_is_no_confirmation_by_itself(tmp_path):
    run, cell = of_run(tmp_path, judged(FindingKind.NOT_RECOVERED))
    place = run.at("cells/a/0001")
    assert confirmed(run, cell) is False
    write_confirmation(place, Confirmation(confirmed=True, how="again", lsns=(LsnRange(1, 9),)))
    assert confirmed(run, cell) is False, "other records went"
    write_confirmation(place, Confirmation(confirmed=True, how="again", lsns=LSNS))
    assert confirmed(run, cell) is True
