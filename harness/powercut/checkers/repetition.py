# SPDX-License-Identifier: Apache-2.0
"""The rule of repetition: a state that loses something is recovered a second time, and counts only
if the same is lost again.

A check may fail for reasons of its own, and so may a recovery.  What does not repeat itself is a
disagreement, which does not convict and lets nothing be SAFE.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict, losses, merged_ranges


def loses(findings: Sequence[Finding]) -> bool:
    """Whether one of them is a loss."""
    return any(finding.verdict is Verdict.LOSSY for finding in findings)


def lose_the_same(one: Sequence[Finding], other: Sequence[Finding]) -> bool:
    """Whether two looks at one state lost the same records, or both nothing."""
    return losses(one) == losses(other)


def repeated(
    first: Sequence[Finding], look_again: Callable[[], Sequence[Finding]]
) -> tuple[Finding, ...]:
    """The findings that count of a state of which `first` was found.

    Only a state that loses something is looked at again.
    """
    if not loses(first):
        return tuple(first)
    second = look_again()
    if lose_the_same(first, second):
        return tuple(first)
    kept = (finding for finding in first if finding.verdict is not Verdict.LOSSY)
    return (*kept, _not_repeated(first, second))


def _not_repeated(first: Sequence[Finding], second: Sequence[Finding]) -> Finding:
    lost = [finding for finding in first if finding.verdict is Verdict.LOSSY]
    said = "; ".join(finding.message for finding in second if finding.verdict is not Verdict.SAFE)
    spans: list[LsnRange] = [span for finding in lost for span in finding.lsns]
    return Finding(
        FindingKind.DISAGREEMENT,
        Verdict.INCONCLUSIVE,
        "not repeated: the state was recovered twice, and what it loses differs: first "
        f"({'; '.join(finding.message for finding in lost)}), then ({said or 'nothing'})",
        merged_ranges(spans),
    )
