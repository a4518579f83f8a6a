# SPDX-License-Identifier: Apache-2.0
"""Why nothing can be said of a cell: many cuts, few reasons."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from powercut.model.units import count
from powercut.model.verdict import Verdict
from powercut.store.trial_result import TrialResult

SHOWN_MAX: Final = 5
"""Reasons that are told; the rest is counted."""

_NUMBERS: Final = re.compile(r"\d[\d,.]*(?:[-, ]+\d[\d,.]*)*(?: and \d+ more ranges?)?")
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
