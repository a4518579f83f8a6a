# SPDX-License-Identifier: Apache-2.0
"""Explorations for a person in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from powercut.model.contract import ATOMIC_UNIT
from powercut.report import words
from powercut.report.program_cut import FindingStory
from powercut.report.terminal.program import print_sentences
from powercut.report.words import STYLES
from powercut.store.exploration import ExplorationFinding, ExploreResult, FoundState, StateGroups
from powercut.store.trial_result import TrialResult


def print_exploration(
    console: Console,
    result: ExploreResult,
    unit: words.Unit = words.RECORDS,
    stories: Sequence[FindingStory] = (),
    judged: TrialResult | None = None,
) -> None:
    """What was found in the crash states of one recording, and in how many of them.

    `unit` is what its workload acknowledges; `stories` tell of the first state of a kind of loss.
    `judged` is the verdict on the recording with these states; without, that on them alone.
    """
    verdict = result.verdict if judged is None else judged.verdict
    console.print(
        Text.assemble(
            (f"{words.mark(verdict)} {verdict.name}", STYLES[verdict]),
            f"  {result.scenario}, {result.cell}, trial {result.trial}",
        )
    )
    for line in _besides_states(result, judged):
        console.print(line, markup=False, highlight=False)
    if result.findings:
        console.print(_findings(result.findings, unit))
        for finding in result.findings:
            first = finding.examples[0]
            console.print(f"{finding.kind.value}: {escape(first.message)}", highlight=False)
            for story in stories:
                if (story.kind, story.verdict) == (finding.kind.value, finding.verdict):
                    print_sentences(console, story)
            if finding.torn_within:
                console.print(f"  {_torn_within(finding)}", highlight=False)
            if told := _last_word(first, unit):
                console.print(f"  {escape(told)}", highlight=False)
    for line in coverage_lines(result, unit):
        console.print(line, highlight=False)
    console.print()


def _last_word(first: FoundState, unit: words.Unit) -> str:
    """What whoever was asked last has said of a state, if it was asked."""
    program = unit is not words.RECORDS
    who = "the check, asked again," if program else "the recorded kernel"
    if first.confirmed == "yes":
        return "the check lost the same each time" if program else f"{who} agrees"
    if first.confirmed == "no":
        return f"{who} does not agree: {first.confirmation}"
    return f"{who} could not say: {first.confirmation}" if first.confirmation else ""


def _besides_states(result: ExploreResult, judged: TrialResult | None) -> Iterator[str]:
    if judged is None:
        yield "These are states of a disk that promises something else than the recorded one."
    elif judged.verdict is not result.verdict:
        yield f"The states alone are {result.verdict.name}.  The recording with them:"
        for finding in judged.findings:
            if finding.verdict is judged.verdict:
                yield f"{finding.kind.value}: {finding.message}"


def _torn_within(finding: ExplorationFinding) -> str:
    """Which promise of a disk would rule states of the finding out."""
    whole = finding.torn_within == finding.states
    what = "it takes a disk" if whole else f"{finding.torn_within:,} of its states take a disk"
    return (
        f"{what} that tears an aligned block of {ATOMIC_UNIT:,} bytes; one that promises to write "
        "such a block whole or not at all (disk.atomic_unit) cannot leave "
        f"{'any of its states' if whole else 'those'}"
    )


def coverage_lines(result: ExploreResult, unit: words.Unit = words.RECORDS) -> list[str]:
    """What was looked at, and what was not."""
    coverage = result.coverage
    policies = ", ".join(f"{name} {n:,}" for name, n in coverage.by_policy.items())
    rate = f"{result.states_per_s:,.0f}/s" if result.seconds else "-"
    if result.states_per_processor_s:
        rate += f" ({result.states_per_processor_s:,.1f} a second of processor time)"
    engine = result.engine
    if result.engine_kernel:
        engine += f" of {result.engine_kernel}"
    at_work = words.count(result.jobs, "job")
    lines = [
        f"checked: {words.count(coverage.distinct, 'distinct state')} of 2^"
        f"{coverage.legal_log2:.1f} legal ones ({result.model} model), at "
        f"{coverage.instants:,} of {words.count(coverage.instants_all, 'instant')}",
        f"   with: engine {engine}, {at_work}, {result.seconds:.1f} s, {rate}, seed {result.seed}",
        f"     by: {policies or 'none'}",
    ]
    if coverage.groups is not None:
        lines.append(f" groups: {group_text(coverage.groups)}")
    if coverage.at_acks is not None and not coverage.lossy:
        lines.append(f"   odds: {words.odds(coverage.at_acks)}")
    if coverage.pruned:
        lines.append(
            f"decided: {words.count(coverage.pruned, 'state')} by an earlier one that has the "
            f"same bytes; {coverage.pruned_rerun:,} of them were recovered all the same"
        )
    if coverage.same_files:
        lines.append(
            f"  files: {coverage.same_files:,} of {coverage.recovered:,} recovered states had "
            "those of an earlier one, whose check holds for them"
        )
    if coverage.compared:
        lines.append(
            f"compared: {words.count(coverage.compared, 'state')} with the log reader on an image"
        )
    if result.engine_reason:
        lines.append(f" engine: {result.engine}, since {result.engine_reason}")
    lines += _life_after(result, unit)
    if result.atomic_unit is not None:
        lines.append(f"the disk has to promise: {words.promise(result.atomic_unit)}")
    lines.append(f"left out: {coverage.not_looked_at}")
    return lines


def group_text(seen: StateGroups) -> str:
    """How many groups of like states were seen, and what grouping assumes."""
    return (
        f"{seen.seen:,} of {seen.groups:,} seen, at {words.count(seen.stages, 'stage')} of the "
        "work; assumed: states that were cut at one stage and lack the same kinds of writes fail "
        "alike"
    )


def _life_after(result: ExploreResult, unit: words.Unit) -> list[str]:
    coverage = result.coverage
    lines = []
    if result.after:
        full = f"; in {coverage.no_room:,} there was no room" if coverage.no_room else ""
        ended = coverage.recovery_states_ended
        lines.append(
            f"went on: after {_recoveries(coverage.went_on)}, by "
            f"{words.count(result.after, unit.noun)} each{full}; a second cut in {ended:,}"
        )
    if result.depth:
        live = ", the recorded one among them" if coverage.recoveries_live else ""
        lines.append(
            f"cut again: {words.count(coverage.recovery_states, 'state')} of 2^"
            f"{coverage.recovery_log2:.1f} legal ones, of "
            f"{_recoveries(coverage.recoveries)} on record{live}, to "
            f"depth {coverage.recovery_depth} of {result.depth}"
        )
    if coverage.recoveries_unrecorded:
        lost = _recoveries(coverage.recoveries_unrecorded)
        lines.append(f"not recorded: {lost}, since the kernel died")
    return lines


def _recoveries(number: int) -> str:
    return f"{number:,} {'recovery' if number == 1 else 'recoveries'}"


def _findings(findings: Sequence[ExplorationFinding], unit: words.Unit) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("finding", "verdict", "states", f"{unit.noun}s", "first state", "drawn by"):
        table.add_column(name, justify="right" if name == "states" else "left")
    for finding in findings:
        first = finding.examples[0]
        table.add_row(
            finding.kind.value,
            Text(finding.verdict.name, style=STYLES[finding.verdict]),
            f"{finding.states:,}" if finding.states else "-",
            words.ranges(finding.lsns) or "-",
            first.id or "-",
            first.policy or "-",
        )
    return table
