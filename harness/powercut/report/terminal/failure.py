# SPDX-License-Identifier: Apache-2.0
"""Why a cell failed, as plain text for a test's log."""

from __future__ import annotations

from pathlib import Path

from powercut.paths import as_word, command
from powercut.report import words
from powercut.report.explained import explain
from powercut.store.results import CellResult, RunResult


def failure_text(run: RunResult, cell: CellResult) -> str:
    """What was acknowledged, what came back, and the command that repeats it."""
    lines = [
        f"{run.scenario}, cell {cell.cell}: {cell.verdict.name}, "
        f"expected {cell.expected.value.upper()}"
    ]
    explanation = explain(cell)
    if explanation:
        lines.append(explanation)
    worst, unit = cell.worst_trial, words.unit_of(cell.parameters)
    if worst is not None:
        lines += [
            f"cut         {worst.trigger} (trial {worst.trial} of {len(cell.trials)})",
            f"attempted   {unit.first(worst.commits_attempted)}",
            f"acked       {unit.first(worst.commits_acked)}",
            f"lost        {words.lost(worst, unit)}",
            f"exposed     {words.exposed(worst.exposure)}",
        ]
        lines += [f"{finding.kind.value:<11} {finding.message}" for finding in worst.findings]
    lines += [
        f"control     {control.name}: {control.message}"
        for control in cell.controls
        if not control.behaved
    ]
    lines += [
        f"again       {cell.reproduce}",
        f"explain     {command()} show {as_word(Path(run.result_directory))} --cell '{cell.cell}'",
    ]
    return "\n".join(lines)
