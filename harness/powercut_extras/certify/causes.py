# SPDX-License-Identifier: Apache-2.0
"""Known reasons why a cell is not safe: which layer breaks which promise, and where to read it.

One table for everybody.  A reason is named only if its settings are those of the cell, and if such
a cut can take what it leaves in a cache: a loss that no entry accounts for is reported as unknown,
which is the more interesting finding.  Where what was seen on the wire names another layer, that
is said.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from powercut.model.verdict import EvidenceLevel, FindingKind, Verdict
from powercut.scenario.settings import (
    Expect,
)
from powercut.store.reasons import LIVE_ONLY, in_groups, live_words
from powercut.store.results import CellResult
from powercut_extras.certify.known_causes import UNKNOWN, USB, causes_of
from powercut_extras.certify.measurement import WireAccount

NOT_ALONE: Final = "its control `honest`, which puts that right,"
"""Begins what is said where a cell's honest twin did not come out SAFE."""

NOT_THERE: Final = "which none of the causes named accounts for: a finding to look into"


@dataclass(frozen=True)
class Explanation:
    """Why a cell is not safe; all of it is empty for one that is."""

    cause: str = ""
    """Of a loss: which layer breaks which promise.  Cells of one cause have the same words."""

    layer: str = ""
    """Of a loss with a known cause: the topmost layer that breaks its promise."""

    details: tuple[str, ...] = ()
    """What holds for this cell alone."""

    def __str__(self) -> str:
        return "; ".join(filter(None, (self.cause, *self.details)))


def explanation_of(cell: CellResult, wire: WireAccount | None = None) -> Explanation:
    """For a cell that is not safe: which layer breaks which promise, or why it is unknown."""
    if cell.verdict is Verdict.SAFE:
        return Explanation()
    if cell.verdict is Verdict.SURVIVED:
        bound = cell.loss_probability_upper_95
        return Explanation(details=(live_words(len(cell.trials), bound),))
    if cell.verdict is Verdict.INCONCLUSIVE:
        return Explanation(details=_why_unknown(cell))
    causes = causes_of(cell.parameters)
    told = [f"{cause}" for cause in causes] or [UNKNOWN]
    details: list[str] = []
    if wire is not None and wire.flush_ends_at:
        seen = f"on the wire, promises of durability end at the {wire.flush_ends_at}"
        details.append(f"{seen}: {wire.because}" if wire.because else seen)
        if causes and wire.flush_ends_at not in {cause.layer for cause in causes}:
            details.append(NOT_THERE)
    if not causes:
        details += _first_words(cell)
    if cell.evidence_level is EvidenceLevel.LIVE_ONLY:
        details.append(LIVE_ONLY)
    return Explanation(
        cause="; ".join([*told, *_of_its_twin(cell)]),
        layer=causes[0].layer if causes else "",
        details=tuple(details),
    )


def _of_its_twin(cell: CellResult) -> list[str]:
    """What its honest twin says against the causes of a loss; nothing if it kept its records."""
    verdicts = {c.verdict for c in cell.controls if c.expected is Expect.SAFE and not c.behaved}
    if Verdict.LOSSY in verdicts:
        return [f"{NOT_ALONE} is LOSSY, too: that this is the cause is not shown"]
    return (
        [f"{NOT_ALONE} came to no verdict: that this is the cause is not shown"] if verdicts else []
    )


def _why_unknown(cell: CellResult) -> tuple[str, ...]:
    """Why nothing can be said of an inconclusive cell."""
    parts = (f"{USB}",) if USB.applies(cell.parameters) and _preset_missed(cell) else ()
    told = in_groups(cell.reasons, cell.trials, several=len(cell.trials) > 1)
    return (*parts, *told) or ("no trial came to a verdict",)


def _preset_missed(cell: CellResult) -> bool:
    return FindingKind.NOT_AS_CONFIGURED in cell.findings


def _first_words(cell: CellResult) -> list[str]:
    worst = cell.worst_trial
    if worst is None:
        return []
    return [f.message for f in worst.findings if f.verdict is Verdict.LOSSY][:1]
