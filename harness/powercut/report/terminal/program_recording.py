# SPDX-License-Identifier: Apache-2.0
"""Recordings that `powercut record` made until version 0.2, in the form of today's."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from powercut.model.verdict import Verdict
from powercut.report.program_cut import FindingStory, after_cut, rate_text
from powercut.report.terminal.program import disk_text, print_facts, print_title, print_told
from powercut.store.program import ProgramFinding, ProgramRecord, ProgramResult


def print_program(
    console: Console, record: ProgramRecord, result: ProgramResult, folder: Path
) -> None:
    """The verdict first, then what it rests on, then what was lost."""
    print_title(console, result.outcome, record.command, record.filesystem)
    print_facts(console, _facts(record, result))
    print_facts(console, [("not known", reason) for reason in result.reasons])
    print_told(console, map(_told, result.findings))
    console.print()
    print_facts(console, [("recording", str(folder))], whole=True)


def _facts(record: ProgramRecord, result: ProgramResult) -> list[tuple[str, str]]:
    per_s = result.states / result.seconds if result.seconds > 0 else 0.0
    policies = ", ".join(f"{name} {count:,}" for name, count in result.by_policy.items())
    counts = result.acknowledged, result.attempted, result.run_s, result.writes, result.flushes
    told = [
        ("operations", rate_text(*counts)),
        (
            "recovered",
            f"{result.states:,} of 2^{result.legal_log2:.0f} legal states, at {result.instants:,} "
            f"instants, {per_s:,.1f}/s: {policies}",
        ),
        ("losing", f"{result.lossy_states:,} of these states lose or contradict something"),
    ]
    for name, verdict in result.controls.items():
        what = "on a disk that ignores flushes" if name == "lying" else name
        must = "as it must be" if verdict == "LOSSY" else "and it should be LOSSY"
        told.append(("control", f"{what}: {verdict}, {must}"))
    return [*told, ("the disk", disk_text(record.contract.atomic_unit))]


def _told(finding: ProgramFinding) -> FindingStory:
    where = after_cut(
        finding.at_ms, finding.policy, finding.missing_writes, finding.volatile_writes
    )
    verdict = Verdict[finding.verdict]
    return FindingStory(finding.kind, verdict, finding.message, (where, *finding.story))
