# SPDX-License-Identifier: Apache-2.0
"""One cut of a program, told: what it did, what its check found, what was lost and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from powercut.explore.program_cut import ProgramCut, StateLoss
from powercut.model.verdict import Difference, Origin, Verdict
from powercut.paths import as_word, command, from_here
from powercut.report import words
from powercut.report.difference import check_words, difference_sentence
from powercut.store.exploration import ExplorationFinding
from powercut.store.trial_dir import TrialDir
from powercut.store.trial_result import TrialResult


@dataclass(frozen=True)
class FindingStory:
    """One thing that was found, and in sentences where and for want of what."""

    kind: str
    verdict: Verdict
    message: str
    sentences: tuple[str, ...]
    commands: tuple[tuple[str, str], ...] = ()
    """What to type, each with what it is for."""


def rate_text(acked: int, attempted: int, seconds: float, writes: int, flushes: int) -> str:
    """What a program did until the cut."""
    rate = acked / seconds if seconds > 0 else 0.0
    return (
        f"{acked:,} acknowledged of {attempted:,} tried in {seconds:.1f} s ({rate:,.0f}/s); the "
        f"disk saw {words.count(writes, 'write')} and {_flushes(flushes)}"
    )


def _flushes(number: int) -> str:
    return "1 flush" if number == 1 else f"{number:,} flushes"


def after_cut(at_ms: float, policy: str, missing: int, volatile: int) -> str:
    """In which state something is lost."""
    where = f"after a power cut {at_ms:,.1f} ms into the run, in the state `{policy}`"
    if not volatile:
        return where
    return f"{where}: {missing:,} of the {volatile:,} writes that were not durable are missing"


def facts_of(cut: ProgramCut) -> Iterator[tuple[str, str]]:
    """What the program did, and what was looked at."""
    trial, use = cut.trial, cut.disk_use
    if trial is None:
        return
    if use is not None:
        acked, attempted = trial.commits_acked, trial.commits_attempted
        yield "operations", rate_text(acked, attempted, use.seconds, use.writes, use.flushes)
    if trial.reached is not None:
        yield "reached", trial.reached.words
    if trial.positive is not None and trial.positive.passed:
        yield "the check", f"it found {trial.positive.told}"
    yield from (("injected", one) for one in trial.injected)
    yield from (("not tested", one) for one in trial.untested)
    states = trial.states
    if states is None:
        return
    rate = f", {cut.explored.states_per_s:,.1f}/s" if cut.explored is not None else ""
    yield (
        "recovered",
        f"{words.recovered(states)} legal states, at {states.instants:,} instants{rate}: "
        f"{words.by_policy(states.by_policy)}",
    )
    yield "losing", f"{states.lossy:,} of these states lose data or are inconsistent"
    if states.at_acks is not None and not states.lossy:
        yield "odds", words.odds(states.at_acks)


def told_of(
    directory: TrialDir, trial: TrialResult
) -> tuple[list[tuple[str, str]], list[FindingStory]]:
    """What one trial did and what was looked at, and what was lost; of a log of records in the
    words of its findings alone.
    """
    cut = ProgramCut.read(directory, trial)
    if cut.of_program:
        return [*facts_of(cut)], [*stories_of(cut)]
    found = [FindingStory(one.kind.value, one.verdict, one.message, ()) for one in trial.findings]
    return [*facts_of(replace(cut, recording=None))], found


def stories_of_trial(directory: TrialDir, trial: TrialResult) -> list[FindingStory]:
    """What one trial of a program lost."""
    return [*stories_of(ProgramCut.read(directory, trial))]


def stories_of(cut: ProgramCut) -> Iterator[FindingStory]:
    """What the cut lost, then one state of each kind of loss that exploration has found."""
    for finding in cut.trial.findings if cut.trial is not None else ():
        if finding.verdict is Verdict.LOSSY and finding.origin is Origin.CUT:
            sentences = _sentences(cut.at_cut(finding.lsns), finding.difference)
            yield FindingStory(finding.kind.value, finding.verdict, finding.message, sentences)
    for found in cut.explored.findings if cut.explored is not None else ():
        if found.verdict is Verdict.LOSSY:
            yield _of_states(cut, found)


def states_like(found: ExplorationFinding) -> str:
    """How many states have a finding of its kind."""
    return f"{found.states:,} states have findings of this kind: {words.by_policy(found.by_policy)}"


def look_on(recording: Path, state: str) -> tuple[tuple[str, str], ...]:
    """What to type to look into a state."""
    powercut, word = command(), as_word(recording)
    return (
        ("look inside", f"{powercut} shell {word} {state}"),
        ("fewest writes", f"{powercut} minimize {word} {state}"),
    )


def _of_states(cut: ProgramCut, found: ExplorationFinding) -> FindingStory:
    first = found.examples[0]
    sentences = _sentences(cut.in_state(first), first.difference)
    if found.states > 1:
        sentences += (states_like(found),)
    commands: tuple[tuple[str, str], ...] = ()
    if first.id and cut.recording is not None:
        commands = look_on(from_here(cut.recording.directory.path), first.id)
    return FindingStory(found.kind.value, found.verdict, first.message, sentences, commands)


def _sentences(loss: StateLoss | None, difference: Difference | None) -> tuple[str, ...]:
    if loss is None:
        return ()
    where = after_cut(loss.at_ms, loss.policy, loss.missing, loss.volatile)
    return (where, *loss.story, *(() if difference is None else _found(difference)))


def _found(difference: Difference) -> Iterator[str]:
    yield difference_sentence(difference)
    for text in check_words(difference):
        yield f"the check says: {text}"
