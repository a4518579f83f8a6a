# SPDX-License-Identifier: Apache-2.0
"""Why nothing, or nothing but what its cuts showed, can be said of a cell."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from powercut.model.confidence import percent
from powercut.model.units import count
from powercut.model.verdict import Verdict
from powercut.store.trial_result import TrialResult

SHOWN_MAX: Final = 5
"""Reasons that are told; the rest is counted."""

_NUMBERS: Final = re.compile(r"\d[\d,.]*(?:[-, ]+\d[\d,.]*)*(?: and \d[\d,]* more)?")
"""A number, or a list of ranges: what one reason says differently of each cut."""


def in_groups(
    reasons: Sequence[str], trials: Sequence[TrialResult], *, several: bool
) -> tuple[str, ...]:
    """The `reasons` of a cell, those of its trials that differ in numbers alone as one.

    Of one trial they are told as they are.  Of `several`, each group says of how many cuts it is,
    in the words of the first; the most frequent come first, after what is no trial's own.
    """
    if not several:
        return tuple(reasons)
    of_trials: dict[str, tuple[str, set[int]]] = {}
    messages = set()
    for trial in trials:
        for finding in trial.findings:
            if finding.verdict is Verdict.INCONCLUSIVE:
                messages.add(finding.message)
                key = _NUMBERS.sub("#", finding.message)
                of_trials.setdefault(key, (finding.message, set()))[1].add(trial.trial)
    groups = sorted(of_trials.values(), key=lambda group: -len(group[1]))
    told = [reason for reason in reasons if reason not in messages]
    for first, cuts in groups[:SHOWN_MAX]:
        told.append(f"{count(len(cuts), 'cut')}: {first}")
    left = groups[SHOWN_MAX:]
    if left:
        cuts = set().union(*(numbers for _, numbers in left))
        told.append(f"{count(len(cuts), 'cut')}: {count(len(left), 'more reason')}")
    return tuple(told)


LIVE_ONLY: Final = "live only: its disk was not recorded"
"""What is to be said of every verdict on such trials."""


def live_words(cuts: int, bound: float | None) -> str:
    """What it means that `cuts` cuts lost nothing; `bound` is the upper limit of the probability
    that such a cut does, at 95 %.  Without a control that lost something nothing of it is said."""
    said = f"no acknowledged record was lost in {count(cuts, 'cut')}"
    if bound is not None:
        said += (
            f", which by itself only shows (95 % confidence) that fewer than {percent(bound)} of "
            "such cuts lose one"
        )
    return (
        f"{LIVE_ONLY[:1].upper()}{LIVE_ONLY[1:]}; {said}. Of what another cut may leave, and of "
        "records acknowledged too early, nothing is known. Such a cut takes what was not synced, "
        "as the control without syncs shows; nothing shows whether it takes the disk's own cache"
    )
