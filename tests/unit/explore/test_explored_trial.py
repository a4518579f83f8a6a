# SPDX-License-Identifier: Apache-2.0
"""What an exploration adds to a trial and to a certificate, and no more than that."""

from __future__ import annotations

from dataclasses import replace

from powercut.certify.build import coverage_of
from powercut.explore import trial as explore_trial
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut.scenario.settings import ExploreSettings
from powercut.store.exploration import write_exploration
from powercut.store.trial_result import TrialResult


def explored_recording(world):
    made = world.disk()
    recorded = world.recorded(made, world.commits(made, 4))
    settings = ExploreSettings(budget="100")
    parameters = recorded.parameters.model_copy(update={"explore": settings})
    record = recorded.record.model_copy(update={"parameters": parameters})
    recorded.trial.write_record(record)
    return replace(recorded, record=record), world.explore(recorded)


def test_what_went_after_a_recovery_is_no_record_of_the_trial(world, monkeypatch):
    """Else a trial of 4 acknowledged records would have lost 9."""
    recorded, seen = explored_recording(world)
    later = Finding(FindingKind.LOST, Verdict.LOSSY, "gone", (LsnRange(3, 11),))
    monkeypatch.setattr(explore_trial, "explore", lambda *_, **__: seen)
    monkeypatch.setattr(explore_trial, "findings_of", lambda _: [later])
    plain = TrialResult.judged(
        recorded.record.trial, verdict=Verdict.SAFE, acked=4, attempted=4, findings=()
    )
    result = explore_trial.explored(recorded.trial, plain)
    assert (result.verdict, result.commits_lost) == (Verdict.LOSSY, 2)
    assert result.lost_lsns == (LsnRange(3, 4),)
    assert result.findings[0].lsns == (LsnRange(3, 11),), "nothing is hidden"


def test_a_certificate_sets_what_was_checked_against_all_that_was_legal(world):
    recorded, seen = explored_recording(world)
    trial = recorded.trial
    plain = seen.coverage.model_copy(update={"legal_log2": 10.0, "recovered": 600})
    write_exploration(trial, seen.model_copy(update={"coverage": plain}))
    one = coverage_of([trial])
    two = coverage_of([trial, trial])
    assert one is not None
    assert two is not None
    assert (one.legal_log2, one.checked) == (10.0, 600)
    assert (two.legal_log2, two.checked) == (11.0, 1200), "not 1,200 of 1,024"
    again = plain.model_copy(update={"recovery_log2": 10.0, "recovery_states": 7})
    write_exploration(trial, seen.model_copy(update={"coverage": again}))
    cut = coverage_of([trial])
    assert cut is not None
    assert (cut.legal_log2, cut.checked) == (11.0, 607)
