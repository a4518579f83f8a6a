# SPDX-License-Identifier: Apache-2.0
"""The verdict on a captured folder, for a person."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rich.console import Console

from powercut.model.printable import printable
from powercut.model.reads import UNKNOWN_READS
from powercut.model.verdict import Verdict
from powercut.paths import as_word, command, from_here
from powercut.report import words
from powercut.report.program_cut import FindingStory, after_cut, look_on, states_like
from powercut.report.terminal.exploration import group_text
from powercut.report.terminal.program import print_facts, print_title, print_told
from powercut.scenario.program_text import title_of
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
    print_title(console, result.verdict, record.command, f"files in {record.folder}")
    print_facts(console, [*facts_of(record, result), *_failure(record, folder)])
    print_facts(console, [("not known", reason) for reason in result.reasons])
    print_told(console, finding_stories(result, folder))
    console.print()
    here, powercut = from_here(folder), command()
    facts = [
        ("recording", str(here)),
        ("report", str(here / REPORT)),
        ("more states", f"{powercut} explore {as_word(folder)}"),
        ("again", f"{powercut} verify {as_word(folder)}"),
    ]
    print_facts(console, facts, whole=True)


def finding_stories(result: CaptureResult, folder: Path) -> list[FindingStory]:
    """What was found, each with its state and what to type to look on."""
    here = from_here(folder)
    stories = []
    for found in result.explored.findings:
        first = found.examples[0]
        sentences: tuple[str, ...] = ()
        if first.id:
            at_ms = (first.instant - result.start_ns) / 1e6
            sentences = (after_cut(at_ms, first.policy, first.missing, first.volatile),)
        if found.states > 1:
            sentences += (states_like(found),)
        commands: tuple[tuple[str, str], ...] = ()
        if first.id and found.verdict is Verdict.LOSSY:
            commands = look_on(here, first.id)
        story = FindingStory(found.kind.value, found.verdict, first.message, sentences, commands)
        stories.append(story)
    return stories


def _failure(record: CaptureRecord, folder: Path) -> list[tuple[str, str]]:
    lines = CaptureDir(folder).printed_last(_CONSOLE_MAX).splitlines()
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
    console.print(f"recorded: {title_of(record.command)} ({ended})", markup=False)
    facts = [
        ("recording", str(from_here(folder))),
        ("verdict", "none: without --check it is unknown what must be there"),
    ]
    print_facts(console, facts, whole=True)


def facts_of(record: CaptureRecord, result: CaptureResult) -> list[tuple[str, str]]:
    """What the verdict rests on: a name and a text each."""
    explored, coverage = result.explored, result.explored.coverage
    policies = ", ".join(f"{name} {count:,}" for name, count in coverage.by_policy.items())
    first_lossy = coverage.lossy - coverage.recovery_lossy
    told = [
        (
            "operations",
            f"{result.acknowledged:,} acknowledged of {result.attempted:,} tried in "
            f"{result.run_s:.3g} s; {result.writes:,} writes, {result.changes:,} changes of sizes "
            f"and names, {result.syncs:,} syncs",
        ),
        ("reached", result.reached.words),
        ("the promise", PROMISES[result.promise]),
        (
            "looked at",
            f"{coverage.distinct:,} of 2^{coverage.legal_log2:.0f} legal states, "
            f"{coverage.recovered:,} different folders, at {coverage.instants:,} instants: "
            f"{policies or 'none'}",
        ),
        ("losing", f"{first_lossy:,} of these states lose data or are inconsistent"),
    ]
    if coverage.at_acks is not None and not first_lossy:
        told.append(("odds", words.odds(coverage.at_acks)))
    if explored.depth:
        deep = f", to depth {explored.depth}" if explored.depth > 1 else ""
        told.append(
            (
                "cut again",
                f"{coverage.recovery_states:,} states of {coverage.recoveries:,} recorded checks"
                f"{deep}; {coverage.recovery_lossy:,} of these lose data or are inconsistent",
            )
        )
    if coverage.groups is not None:
        told.append(("groups", group_text(coverage.groups)))
    if result.positive is not None and result.positive.passed:
        told.append(("the check", f"it found {result.positive.told}"))
    if result.positive is not None and result.reads is None:
        told.append(("not tested", UNKNOWN_READS))
    elif result.reads is not None and result.reads.words:
        told.append(("not tested", result.reads.words))
    if result.outside.words:
        told.append(("not tested", result.outside.words))
    told += (("not tested", one) for one in result.untested)
    if result.control:
        must = "as it must be" if result.control == "LOSSY" else "and it should be LOSSY"
        told.append(("control", f"on a host that ignores every sync: {result.control}, {must}"))
    if record.share:
        told.append(("in a guest", f"which has the folder by {record.share}"))
    unit = f"writes tear at multiples of {record.atomic_unit} bytes"
    return [*told, ("the host", unit)]
