# SPDX-License-Identifier: Apache-2.0
"""Forty undecided cuts have few reasons, and each is told once."""

from __future__ import annotations

from powercut.model.verdict import Finding, FindingKind, Verdict
from powercut.scenario.plan import Trial, Trigger, TriggerKind
from powercut.store.reasons import SHOWN_MAX, in_groups
from powercut.store.trial_result import TrialResult

EARLY = (
    "records {} may have been acknowledged before their sync began: the instant of an ack is known "
    "to within {} µs"
)


def trial(number: int, *messages: str) -> TrialResult:
    findings = [Finding(FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE, text) for text in messages]
    return TrialResult.judged(
        Trial(number, 7, Trigger(TriggerKind.ACKS, 10), 8),
        verdict=Verdict.INCONCLUSIVE if messages else Verdict.SAFE,
        acked=10,
        attempted=11,
        findings=findings,
    )


def reasons(trials: list[TrialResult], *more: str) -> tuple[str, ...]:
    said = dict.fromkeys((*more, *(f.message for one in trials for f in one.findings)))
    return in_groups(tuple(said), trials, several=len(trials) > 1)


def test_reasons_that_differ_in_numbers_alone_are_one():
    ranges = ("5", "1-3, 7", "2-9, 11, 13-14 and 1,200 more", "1,024-2,048")
    early = [trial(n, EARLY.format(text, f"{n},{n}00")) for n, text in enumerate(ranges, 1)]
    others = [trial(5), trial(6, "the guest never booted"), trial(7, "the guest never booted")]
    assert reasons([*early, *others], "control no-sync had to be LOSSY and was SAFE") == (
        "control no-sync had to be LOSSY and was SAFE",
        f"4 cuts: {EARLY.format('5', '1,100')}",
        "2 cuts: the guest never booted",
    )


def test_the_most_frequent_come_first_and_the_rest_is_counted():
    words = ["the", "guest", "never", "booted,", "oh", "dear", "me", "now"]
    trials = [trial(1, *words), trial(2, words[3]), trial(3, words[-1])]
    told = reasons(trials)
    assert told[:2] == ("2 cuts: booted,", "2 cuts: now")
    assert len(told) == SHOWN_MAX + 1
    assert told[-1] == f"1 cut: {len(words) - SHOWN_MAX} more reasons"


def test_one_cut_says_what_it_said():
    assert reasons([trial(1, "a 1", "a 2")], "b") == ("b", "a 1", "a 2")
    assert in_groups((), [], several=False) == ()
