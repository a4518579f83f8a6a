# SPDX-License-Identifier: Apache-2.0
"""The verdict on a captured folder, for a person."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rich.console import Console

from powercut.machine.process import tail
from powercut.model.printable import printable
from powercut.model.reads import UNKNOWN_READS
from powercut.model.verdict import Verdict
from powercut.paths import command, from_here
from powercut.report import words
from powercut.report.program_cut import FindingStory, after_cut
from powercut.report.terminal.exploration import group_text
from powercut.report.terminal.program import print_facts, print_title, print_told
from powercut.store.folder import REPORT, CaptureDir, CaptureRecord, CaptureResult

_LAST_WORDS: Final = 300
_CONSOLE_MAX: Final = 1 << 20
_GUEST_SAID: Final = "powercut agent: "  # guests/agent/share.c
PROMISES: Final = {
    "posix": "POSIX alone: names are durable when their folder is synced",
    "journal": "of a journalling file system: names and truncations keep their order",
}


def print_capture(
    console: Console, record: CaptureRecord, result: CaptureResult, folder: Path
) -> None:
    """The verdict first, then what it rests on, then what was lost."""
    print_title(console, result.outcome, record.command, f"files in {record.folder}")
    print_facts(console, [*facts_of(record, result), *_failure(record, folder)])
    print_facts(console, [("not known", reason) for reason in result.reasons])
    print_told(console, finding_stories(result, folder))
    console.print()
    here, powercut = from_here(folder), command()
    facts = [
        ("recording", str(here)),
        ("report", str(here / REPORT)),
        ("more states", f"{powercut} explore {here}"),
        ("again", f"{powercut} verify {here}"),
    ]
    print_facts(console, facts, whole=True)


def finding_stories(result: CaptureResult, folder: Path) -> list[FindingStory]:
    """What was found, each with its state and what to type to look on."""
    here, powercut = from_here(folder), command()
    stories = []
    for finding in result.findings:
        where = after_cut(
            finding.at_ms, finding.policy, finding.missing_writes, finding.volatile_writes
        )
        verdict = Verdict[finding.verdict]
        commands: tuple[tuple[str, str], ...] = ()
        if finding.state and verdict is Verdict.LOSSY:
            commands = (
                ("look inside", f"{powercut} shell {here} {finding.state}"),
                ("fewest writes", f"{powercut} minimize {here} {finding.state}"),
            )
        stories.append(FindingStory(finding.kind, verdict, finding.message, (where,), commands))
    return stories


def _failure(record: CaptureRecord, folder: Path) -> list[tuple[str, str]]:
    """How the command failed, by itself, and its last words."""
    lines = tail(CaptureDir(folder).console, _CONSOLE_MAX).splitlines()
    if record.share and record.status is not None:
        return [("the guest", printable(line)) for line in lines if _GUEST_SAID in line][-1:]
    if not record.status:
        return []
    said = next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")
    told = said if len(said) <= _LAST_WORDS else f"{said[:_LAST_WORDS]}..."
    return [("the command", f"it ended with status {record.status}: {printable(told)}")]


def print_recorded(console: Console, record: CaptureRecord, folder: Path) -> None:
    """What there is where nothing was to be judged."""
    ended = "the cut ended it" if record.status is None else f"its status was {record.status}"
    console.print(f"recorded: {' '.join(record.command)} ({ended})", markup=False)
    facts = [
        ("recording", str(from_here(folder))),
        ("verdict", "none: without --check nobody can say what must be there"),
    ]
    print_facts(console, facts, whole=True)


def facts_of(record: CaptureRecord, result: CaptureResult) -> list[tuple[str, str]]:
    """What the verdict rests on: a name and a text each."""
    policies = ", ".join(f"{name} {count:,}" for name, count in result.by_policy.items())
    told = [
        (
            "operations",
            f"{result.acknowledged:,} acknowledged of {result.attempted:,} tried in "
            f"{result.run_s:.3g} s; {result.writes:,} writes, {result.changes:,} changes of sizes "
            f"and names, {result.syncs:,} syncs",
        ),
        ("the promise", PROMISES[result.promise]),
        (
            "looked at",
            f"{result.states:,} of 2^{result.legal_log2:.0f} legal states, {result.distinct:,} "
            f"different folders, at {result.instants:,} instants: {policies or 'none'}",
        ),
        ("losing", f"{result.lossy_states:,} of these states lose or contradict something"),
    ]
    if result.at_acks is not None and not result.lossy_states:
        told.append(("odds", words.odds(result.at_acks)))
    if result.depth:
        deep = f", to depth {result.depth}" if result.depth > 1 else ""
        told.append(
            (
                "cut again",
                f"{result.second_states:,} states of {result.recorded_checks:,} recorded checks"
                f"{deep}; {result.second_lossy:,} of these lose or contradict something",
            )
        )
    if result.groups is not None:
        told.append(("groups", group_text(result.groups)))
    if result.positive is not None and result.positive.passed:
        told.append(("the check", f"it found {result.positive.told}"))
    if result.positive is not None and result.reads is None:
        told.append(("not tested", UNKNOWN_READS))
    elif result.reads is not None and result.reads.words:
        told.append(("not tested", result.reads.words))
    if result.control:
        must = "as it must be" if result.control == "LOSSY" else "and it should be LOSSY"
        told.append(("control", f"on a host that ignores every sync: {result.control}, {must}"))
    if record.share:
        told.append(("in a guest", f"which has the folder by {record.share}"))
    unit = f"writes tear at multiples of {record.atomic_unit} bytes"
    return [*told, ("the host", unit)]
