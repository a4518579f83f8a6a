# SPDX-License-Identifier: Apache-2.0
"""A table of the verdicts that one scenario got on many machines, as text."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from powercut.model.verdict import Verdict
from powercut.store.folder import CaptureResult
from powercut.store.results import CellResult


@dataclass(frozen=True)
class Side:
    """What was found on one disk: honest, or lying."""

    verdict: str
    acked: int
    lost: int
    evidence: str
    reasons: tuple[str, ...]

    @classmethod
    def of_cell(cls, cell: CellResult) -> Side:
        """A cell of a run; what its trials acknowledged and lost is added up."""
        return cls(
            cell.verdict.name,
            cell.commits_acked,
            cell.commits_lost,
            cell.evidence_level.value,
            cell.reasons,
        )

    @classmethod
    def of_capture(cls, result: CaptureResult) -> Side:
        """What a captured folder lost in its worst state."""
        losses = (f for f in result.explored.findings if f.verdict is Verdict.LOSSY)
        worst = (one.lsns for found in losses for one in found.examples)
        lost = max((sum(map(len, lsns)) for lsns in worst), default=0)
        return cls(result.verdict.name, result.acknowledged, lost, "recorded", result.reasons)

    @property
    def told(self) -> str:
        """The verdict with its level of evidence."""
        return f"{self.verdict}, {self.evidence}"


@dataclass
class VerdictTable:
    """Rows in the order in which they were made."""

    lines: list[str] = field(default_factory=list)

    def add(self, row: str, honest: Side, lying: Side, seconds: float) -> None:
        """A row of which both sides were run."""
        cells = [row]
        for side in (honest, lying):
            cells += [side.told, f"{side.acked}/{side.lost}"]
        cells.append(f"{seconds:.0f}")
        self.lines.append(f"| {' | '.join(cells)} |")

    def add_missing(self, row: str, why: str) -> None:
        """A row that could not be run here."""
        self.lines.append(f"| {row} | not run: {why} | | | | |")

    @property
    def text(self) -> str:
        """The table in Markdown."""
        head = ("machine", "honest disk", "acked/lost", "lying disk", "acked/lost", "seconds")
        rule = ("---", "---", "---:", "---", "---:", "---:")
        lines = [f"| {' | '.join(words)} |" for words in (head, rule)]
        return "\n".join([*lines, *self.lines]) + "\n"

    def write(self, path: Path) -> None:
        """Writes it, if there is anything in it."""
        if self.lines:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.text)
