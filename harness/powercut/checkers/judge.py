# SPDX-License-Identifier: Apache-2.0
"""Runs checkers and adds up what they find.

`SAFE < INCONCLUSIVE < LOSSY`, the worst wins.  A checker that fails has not passed: its
failure is a finding.  Nothing was checked: nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from powercut.model.verdict import Confirmed, Finding, Verdict, losses

Checker = Callable[[], list[Finding]]
"""A checker with its arguments bound."""


@dataclass(frozen=True)
class Judgement:
    """All findings, in the order of the checkers, and what they add up to."""

    findings: tuple[Finding, ...]
    verdict: Verdict


def judge(findings: Iterable[Finding]) -> Verdict:
    """The verdict of checkers that all ran to their end: SAFE if none found anything."""
    return max((finding.verdict for finding in findings), default=Verdict.SAFE)


def without_conviction(judgement: Judgement, why: str) -> Judgement:
    """The same findings where they cannot convict: no loss, but no SAFE either."""
    findings = tuple(
        replace(
            finding,
            verdict=Verdict.INCONCLUSIVE,
            message=f"{finding.message}; no loss, since {why}",
        )
        if finding.verdict is Verdict.LOSSY
        else finding
        for finding in judgement.findings
    )
    return Judgement(findings, max(judge(findings), Verdict.INCONCLUSIVE))


def confirms(seen: Sequence[Finding], found: Iterable[Finding]) -> Confirmed:
    """Whether a second recovery, of which `seen` was found, bears out what the first one lost.

    One record that is lost in the same way is enough.  What is unknown contradicts nothing.
    """
    if losses(seen) & losses(found):
        return "yes"
    return "not tried" if judge(seen) is Verdict.INCONCLUSIVE else "no"


def run_checkers(checkers: Mapping[str, Checker]) -> Judgement:
    """Runs each of the named checkers; INCONCLUSIVE if there is none."""
    findings: list[Finding] = []
    for name, checker in checkers.items():
        try:
            findings += checker()
        except Exception as error:  # whatever it was, the checker has not passed
            findings.append(_failed(name, error))
    if not checkers:
        findings.append(Finding.unknown("nothing was checked"))
    return Judgement(tuple(findings), judge(findings))


def _failed(name: str, error: Exception) -> Finding:
    return Finding.unknown(
        f"the {name} checker failed: {type(error).__name__}: {error}",
        detail={"checker": name, "exception": type(error).__name__},
    )
