# SPDX-License-Identifier: Apache-2.0
"""What came of a program under test, for a person in a terminal."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from powercut.model.verdict import Verdict
from powercut.store.program import ProgramFinding, ProgramRecord, ProgramResult

_STYLE = {Verdict.SAFE: "green", Verdict.INCONCLUSIVE: "yellow", Verdict.LOSSY: "red"}
_MARK = {Verdict.SAFE: "✓", Verdict.INCONCLUSIVE: "?", Verdict.LOSSY: "✗"}


def print_program(
    console: Console, record: ProgramRecord, result: ProgramResult, folder: Path
) -> None:
    """The verdict first, then what it rests on, then what was lost and how to look at it."""
    verdict = result.outcome
    style = _STYLE[verdict]
    words = " ".join(record.command)
    console.print(f"[{style} bold]{_MARK[verdict]} {verdict.name}[/]  ", end="")
    console.print(f"{words} on {record.filesystem}", markup=False, highlight=False)
    for name, text in _facts(record, result):
        console.print(f"{name:>13}: {text}", markup=False, highlight=False)
    for reason in result.reasons:
        console.print(f"{'not known':>13}: {reason}", markup=False, highlight=False)
    for finding in result.findings:
        console.print()
        _print_finding(console, finding)
    console.print(f"\n{'recording':>13}: {folder}", soft_wrap=True, markup=False, highlight=False)
    again = f"powercut verify {folder}"
    console.print(f"{'judge again':>13}: {again}", soft_wrap=True, markup=False, highlight=False)


def _facts(record: ProgramRecord, result: ProgramResult) -> list[tuple[str, str]]:
    rate = result.acknowledged / result.run_s if result.run_s > 0 else 0.0
    per_s = result.states / result.seconds if result.seconds > 0 else 0.0
    policies = ", ".join(f"{name} {count:,}" for name, count in result.by_policy.items())
    told = [
        (
            "operations",
            f"{result.acknowledged:,} acknowledged of {result.attempted:,} tried in "
            f"{result.run_s:.1f} s ({rate:,.0f}/s); the disk saw {result.writes:,} writes and "
            f"{result.flushes:,} flushes",
        ),
        (
            "recovered",
            f"{result.states:,} of 2^{result.legal_log2:.0f} legal states, at {result.instants:,} "
            f"instants, {per_s:,.1f}/s: {policies}",
        ),
        ("checked", _where_checked(result)),
        ("losing", f"{result.lossy_states:,} of these states lose or contradict something"),
    ]
    for name, verdict in result.controls.items():
        what = "on a disk that ignores flushes" if name == "lying" else name
        must = "as it must be" if verdict == "LOSSY" else "and it should be LOSSY"
        told.append(("control", f"{what}: {verdict}, {must}"))
    unit = record.contract.atomic_unit
    told.append(("the disk", f"honest, volatile cache, atomic unit {unit} bytes"))
    return told


def _where_checked(result: ProgramResult) -> str:
    shared = result.states_pruned + result.states_same_files
    guest = max(0, result.states - shared - result.states_on_host)
    text = (
        f"{guest:,} states in User-Mode Linux"
        if not result.states_on_host
        else (
            f"{result.states_on_host:,} states on this host, a sample in User-Mode Linux as well"
            + (f"; {guest:,} there only" if guest else "")
        )
    )
    return text + (f"; {shared:,} had the disk or the files of an earlier one" if shared else "")


def _print_finding(console: Console, finding: ProgramFinding) -> None:
    style = _STYLE[Verdict[finding.verdict]]
    console.print(f"[{style}]{finding.kind}[/]: ", end="")
    console.print(finding.message, markup=False, highlight=False)
    console.print(
        f"    after a power cut {finding.at_ms:,.1f} ms into the run, in the state "
        f"`{finding.policy}`: {finding.missing_writes} of the {finding.volatile_writes} writes "
        "that were not durable are missing",
        markup=False,
        highlight=False,
    )
    for sentence in finding.story:
        console.print(f"    {sentence}", markup=False, highlight=False)
