# SPDX-License-Identifier: Apache-2.0
"""What controls make of a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from powercut.model.verdict import Finding, FindingKind, Verdict
from powercut.store.results import ControlResult, wanted_verdict


def with_controls(own: Verdict, controls: Sequence[ControlResult]) -> tuple[Verdict, list[str]]:
    """The verdict once the controls were heard, and why it is not better.

    A control that misbehaved says that the rig cannot be trusted.  That turns SAFE into
    INCONCLUSIVE.  A LOSSY verdict stands, with the doubt beside it: records that are gone
    are gone.
    """
    heard = [
        ControlOutcome(
            control.name,
            wanted_verdict(control.expected),
            control.verdict,
            disk=control.disk,
        )
        for control in controls
    ]
    findings = check_controls(heard, own)
    worst = max((finding.verdict for finding in findings), default=own)
    return max(own, worst), [finding.message for finding in findings]


# The controls checker: no verdict is worth more than the controls it rests on.
#
# A control is a run whose outcome is known in advance.  If it went otherwise, the rig can
# miss a loss, or sees ghosts: CONTROL, INCONCLUSIVE.  So does a verdict of SAFE or SURVIVED
# without any control that had to be LOSSY: a rig that never saw a loss may be blind.


@dataclass(frozen=True)
class ControlOutcome:
    """A control by name, what it had to come to and what it came to."""

    name: str
    expected: Verdict
    verdict: Verdict
    disk: str | None = None  # the one of several disks that it is about


_NOTHING_LOST: Final = {
    "no-flush": ": the cut did not take what lay in the disk's own cache, or it has none, so that "
    "nothing shows whether this disk keeps what it is told to flush"
}
"""What it means that such a control has lost nothing."""


def check_controls(controls: Sequence[ControlOutcome], verdict: Verdict) -> list[Finding]:
    """What `controls` say about a run that would be judged `verdict` without them."""
    findings = [
        Finding(
            FindingKind.CONTROL,
            Verdict.INCONCLUSIVE,
            f"control {control.name} had to be {control.expected.name} "
            f"and was {control.verdict.name}{_meaning(control)}",
            detail={"control": control.name},
        )
        for control in controls
        if control.verdict is not control.expected
    ]
    lossy = any(control.expected is Verdict.LOSSY for control in controls)
    if verdict in (Verdict.SAFE, Verdict.SURVIVED) and not lossy:
        findings.append(
            Finding(
                FindingKind.CONTROL,
                Verdict.INCONCLUSIVE,
                "no control had to lose anything, so nothing shows that a loss would be seen",
            )
        )
    return findings


def _meaning(control: ControlOutcome) -> str:
    if control.disk is None:
        kept = control.verdict in (Verdict.SAFE, Verdict.SURVIVED)
        return _NOTHING_LOST.get(control.name, "") if kept else ""
    return (
        f": nothing shows that a loss on disk {control.disk} would be seen; acknowledge more, or "
        "larger records, so that it holds some of them, or leave it out"
    )
