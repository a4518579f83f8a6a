# SPDX-License-Identifier: Apache-2.0
"""What a restart may have lost has to stay where it can be missed."""

from __future__ import annotations

from powercut.model.history import History
from powercut.model.verdict import Finding, FindingKind, Verdict
from powercut.wal.layout import WalLayout


def wrapped_after_restart(history: History, layout: WalLayout, attempted: int) -> str:
    """Why a loss at a restart may not be seen, in words; empty if it would be.

    A log that wraps after its guest was restarted takes the places of records that were to be
    there when it booted, which was not observed.
    """
    restarts = [each for each in history.handovers if each.restarted]
    if not restarts or not layout.wraps:
        return ""
    before = int(history.attempt_lsn[: restarts[-1].attempts].max(initial=0))
    if layout.oldest_required(attempted) == layout.oldest_required(before):
        return ""
    return "the log wrapped after a restart, over records that the restart may have lost"


def check_restarts(history: History, layout: WalLayout, attempted: int) -> list[Finding]:
    """INCONCLUSIVE if a loss at a restart may not be seen."""
    why = wrapped_after_restart(history, layout, attempted)
    return [Finding(FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE, why)] if why else []
