# SPDX-License-Identifier: Apache-2.0
"""The cells of a certificate that are not SAFE, by kind; each kind is drawn and told once.

Two cells are of one kind if the same layer ends the promise and they have the same cause; those
without one, if the same explanation is given, whatever its figures.  The story is that of the
cell of the kind that lost the most.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from powercut.model.errors import PowercutError
from powercut.model.verdict import Verdict
from powercut.report.page.telling import TrialStory, tell_trial
from powercut.store.trial_dir import TrialDir
from powercut.store.trial_result import TrialResult
from powercut_extras.certify.certificate import Certificate, CertifiedCell

DRAWN_MAX: Final = 24
"""Kinds that are drawn; a drawing has about 10 KB."""

_NUMBERS: Final = re.compile(r"\d[\d,.]*")


@dataclass(frozen=True)
class Kind:
    """Cells that are not SAFE for the same reason; `members` are their numbers, worst first."""

    number: int
    verdict: Verdict
    flush_ends_at: str
    members: tuple[int, ...]
    cell: CertifiedCell
    surprises: int
    told: TrialStory | None

    @property
    def heading(self) -> str:
        """What it is about, in a few words."""
        if self.verdict is Verdict.INCONCLUSIVE:
            return "Nothing can be said"
        if self.verdict is Verdict.SURVIVED:
            return "Survived the cuts, and nothing more is known"
        if self.flush_ends_at:
            return f"The promise ends at the {self.flush_ends_at}"
        return "Acknowledged and lost"


def kinds_of(certificate: Certificate, directory: Path) -> list[Kind]:
    """Every kind: unexpected ones first, losses before unknowns, then the larger ones.

    `directory` is that of the certificate, below which the evidence lies.
    """
    groups: dict[tuple[Verdict, str, str], list[int]] = {}
    for number, cell in enumerate(certificate.cells):
        if cell.verdict is not Verdict.SAFE:
            groups.setdefault(_key(cell), []).append(number)

    def loss(number: int) -> tuple[bool, int, int]:
        cell = certificate.cells[number]
        return (cell.as_expected, -cell.lost, number)

    def weight(item: tuple[tuple[Verdict, str, str], list[int]]) -> tuple[bool, int, int]:
        (verdict, _, _), numbers = item
        surprise = any(not certificate.cells[number].as_expected for number in numbers)
        return (not (surprise and verdict is Verdict.LOSSY), -verdict, -len(numbers))

    kinds = []
    for number, ((verdict, layer, _), numbers) in enumerate(sorted(groups.items(), key=weight), 1):
        members = sorted(numbers, key=loss)
        chosen = _with_evidence([certificate.cells[index] for index in members])
        drawn = verdict is Verdict.LOSSY and number <= DRAWN_MAX
        kinds.append(
            Kind(
                number=number,
                verdict=verdict,
                flush_ends_at=layer,
                members=tuple(members),
                cell=chosen,
                surprises=sum(not certificate.cells[index].as_expected for index in members),
                told=tell(chosen, directory) if drawn else None,
            )
        )
    return kinds


def layer_of(cell: CertifiedCell) -> str:
    """The layer at which the promise of a lossy cell ends: as measured, else as explained."""
    if cell.verdict is not Verdict.LOSSY:
        return ""
    if cell.wire is not None and cell.wire.flush_ends_at:
        return cell.wire.flush_ends_at
    return cell.cause_layer


def _key(cell: CertifiedCell) -> tuple[Verdict, str, str]:
    return (cell.verdict, layer_of(cell), cell.cause or _NUMBERS.sub("#", cell.explanation))


def _with_evidence(cells: Sequence[CertifiedCell]) -> CertifiedCell:
    """The first whose recording was kept, else the first."""
    kept = (cell for cell in cells if any(evidence.kept for evidence in cell.evidence))
    return next(kept, cells[0])


def tell(cell: CertifiedCell, directory: Path) -> TrialStory | None:
    """The story of the worst trial of `cell`; None if none of its recordings was kept."""
    worst: tuple[tuple[Verdict, int], TrialDir, TrialResult] | None = None
    problems: list[str] = []
    for evidence in cell.evidence:
        if not evidence.kept:
            continue
        trial = TrialDir(directory / evidence.directory, directory)
        try:
            result = trial.read_verdict()
        except PowercutError as error:
            problems.append(str(error))
            continue
        rank = (result.verdict, result.commits_lost)
        if worst is None or rank > worst[0]:
            worst = (rank, trial, result)
    if worst is None:
        return TrialStory("", problems=tuple(problems)) if problems else None
    _, trial, result = worst
    return tell_trial(trial, result, cell.cell, problems)
