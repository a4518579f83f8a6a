# SPDX-License-Identifier: Apache-2.0
"""The verdict on what a workload said that runs anywhere, and its check found after a cut by hand.

Who cut the power, and whether it went at all, nothing shows: SURVIVED at best.
"""

from __future__ import annotations

from dataclasses import replace

from powercut.checkers.judge import Judgement, run_checkers
from powercut.model.confidence import too_few_operations
from powercut.model.observation import Observation
from powercut.model.verdict import Finding, FindingKind, Verdict
from powercut.workload.program.claims import sighting_of
from powercut.workload.program.promises import ProgramPromises


def verdict_of_listened(
    promises: ProgramPromises, seen: Observation, again: Observation
) -> Judgement:
    """What two runs of the check after the cut come to; SURVIVED at best.

    An operation that is there and was never announced is no phantom: the announcement may have
    been under way when the power went.
    """
    first, second = sighting_of(seen), sighting_of(again)
    gaps = [Finding.unknown(why) for why in promises.gaps]
    if few := too_few_operations(promises.acked):
        gaps.append(Finding.unknown(few))
    if first != second:
        gaps.append(Finding.unknown("the check was run twice and did not say the same"))
        checkers = {"recording": lambda: gaps}
    else:
        checkers = {"recording": lambda: gaps, "operations": lambda: _found(promises, seen)}
    judgement = run_checkers(checkers)
    return replace(judgement, verdict=max(judgement.verdict, Verdict.SURVIVED))


def _found(promises: ProgramPromises, seen: Observation) -> list[Finding]:
    found = promises.check(promises.claims_received(), seen)
    return [one for one in found if one.kind is not FindingKind.NEVER_ATTEMPTED]
