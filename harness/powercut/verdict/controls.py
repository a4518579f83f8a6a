# SPDX-License-Identifier: Apache-2.0
"""What controls make of a verdict."""

from __future__ import annotations

from collections.abc import Sequence

from powercut.checkers.controls import ControlOutcome, check_controls
from powercut.model.verdict import Verdict
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
