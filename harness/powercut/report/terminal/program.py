# SPDX-License-Identifier: Apache-2.0
"""What came of a program under test, for a person in a terminal.

The verdict first, then what it rests on, then what was lost, and how to look at it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from powercut.crash.states import CrashState
from powercut.explore.program_story import story_of
from powercut.model.errors import PowercutError
from powercut.model.operations import OperationHistory
from powercut.model.timeline import RequestKind
from powercut.model.verdict import LsnRange, Origin, Verdict
from powercut.paths import command, from_here
from powercut.recording import state_ref
from powercut.recording.disk_places import places_of
from powercut.recording.materialize import cut_state
from powercut.recording.trial_recording import TrialRecording, open_trial
from powercut.report import words
from powercut.report.terminal.table import STYLES
from powercut.scenario.settings import ProgramSettings
from powercut.store.exploration import ExplorationFinding, ExploreResult, read_exploration
from powercut.store.layout import ResultDir
from powercut.store.results import CellResult, RunResult, TrialResult
from powercut.store.trial_dir import TrialDir

_NAME_WIDTH: Final = 13
_INDENT: Final = 4


@dataclass(frozen=True)
class FindingStory:
    """One thing that was found, and in sentences where and for want of what."""

    kind: str
    verdict: Verdict
    message: str
    sentences: tuple[str, ...]
    look: str = ""
    """The command that shows the state."""


def print_program_run(console: Console, run: RunResult) -> None:
    """The run of a scenario with one cell, which is a program that was cut once."""
    (cell,) = run.cells
    folder = Path(run.result_directory)
    settings = cell.parameters.workload
    assert isinstance(settings, ProgramSettings)
    print_title(console, cell.verdict, settings.command, cell.parameters.filesystem.type.value)
    seen = [_Cut.read(ResultDir(folder).at(one.result_directory), one) for one in cell.trials]
    facts = [fact for cut in seen for fact in cut.facts()]
    print_facts(console, [*facts, *_vouching(cell)])
    print_facts(console, [("not known", reason) for reason in cell.reasons])
    for cut in seen:
        print_told(console, cut.told())
    console.print()
    here, powercut = from_here(folder), command()
    ends = [
        ("scenario", f"{here / 'scenario.yaml'}, to be edited and run again"),
        ("report", f"{here / 'report.html'}"),
        ("more states", f"{powercut} explore {here}"),
        ("judge again", f"{powercut} verify {here}"),
        ("run again", run.reproduce),
    ]
    print_facts(console, ends, whole=True)


def print_title(
    console: Console, verdict: Verdict, program: Sequence[str], filesystem: str
) -> None:
    """The verdict, and on what."""
    console.print(f"[{STYLES[verdict]} bold]{words.mark(verdict)} {verdict.name}[/]  ", end="")
    console.print(f"{' '.join(program)} on {filesystem}", markup=False, highlight=False)


def print_facts(console: Console, facts: Iterable[tuple[str, str]], *, whole: bool = False) -> None:
    """A line each: its name, and what there is to say; those to be copied are not wrapped."""
    if whole:
        for name, text in facts:
            line = f"{name:>{_NAME_WIDTH}}: {text}"
            console.print(line, soft_wrap=True, markup=False, highlight=False)
        return
    grid = Table.grid(padding=(0, 1))
    grid.add_column(justify="right", width=_NAME_WIDTH + 1, no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text in facts:
        grid.add_row(Text(f"{name}:"), Text(text))
    if grid.row_count:
        console.print(grid, highlight=False)


def print_told(console: Console, found: Iterable[FindingStory]) -> None:
    """What was found, each with its sentences below it."""
    for one in found:
        console.print(Text.assemble("\n", (one.kind, STYLES[one.verdict]), f": {one.message}"))
        for sentence in one.sentences:
            console.print(Padding(Text(sentence), (0, 0, 0, _INDENT)), highlight=False)
        if one.look:
            look = f"{'':{_INDENT}}look inside: {one.look}"
            console.print(look, soft_wrap=True, markup=False, highlight=False)


def rate_text(acked: int, attempted: int, seconds: float, writes: int, flushes: int) -> str:
    """What a program did until the cut."""
    rate = acked / seconds if seconds > 0 else 0.0
    return (
        f"{acked:,} acknowledged of {attempted:,} tried in {seconds:.1f} s ({rate:,.0f}/s); the "
        f"disk saw {writes:,} writes and {flushes:,} flushes"
    )


def after_cut(at_ms: float, policy: str, missing: int, volatile: int) -> str:
    """In which state something is lost."""
    return (
        f"after a power cut {at_ms:,.1f} ms into the run, in the state `{policy}`: {missing:,} of "
        f"the {volatile:,} writes that were not durable are missing"
    )


def disk_text(atomic_unit: int) -> str:
    """The disk under test of an honest run."""
    return f"honest, volatile cache, atomic unit {atomic_unit} bytes"


def _vouching(cell: CellResult) -> Iterator[tuple[str, str]]:
    for control in cell.controls:
        expected = control.expected.value.upper()
        must = "as it must be" if control.behaved else f"and it should be {expected}"
        what = {"lying-disk": "on a disk that ignores flushes"}.get(
            control.kind.value, control.kind.value
        )
        yield "control", f"{what}: {control.verdict.name}, {must}"
    yield "the disk", disk_text(cell.parameters.disk.atomic_unit)


@dataclass(frozen=True)
class _Cut:
    """One trial of a program, as far as its recording can be read: the verdict has said why not."""

    trial: TrialResult
    recording: TrialRecording | None = None
    explored: ExploreResult | None = None

    @classmethod
    def read(cls, directory: TrialDir, trial: TrialResult) -> _Cut:
        """What there is."""
        try:
            return cls(trial, open_trial(directory), read_exploration(directory))
        except PowercutError:
            return cls(trial)

    @property
    def _began_ns(self) -> int:
        assert self.recording is not None
        start = self.recording.promises.start_ns
        return int(self.recording.timeline.start_ns) if start is None else start

    def facts(self) -> Iterator[tuple[str, str]]:
        """What the program did, and what was looked at."""
        trial, recording = self.trial, self.recording
        if recording is not None and recording.timeline.cut is not None:
            requests = recording.timeline.requests
            yield (
                "operations",
                rate_text(
                    trial.commits_acked,
                    trial.commits_attempted,
                    (int(recording.timeline.cut.at) - self._began_ns) / 1e9,
                    int(requests.is_write.sum()),
                    int((requests.kind == RequestKind.FLUSH).sum()),
                ),
            )
        states = trial.states
        if states is None:
            return
        rate = f", {self.explored.states_per_s:,.1f}/s" if self.explored is not None else ""
        yield (
            "recovered",
            f"{words.recovered(states)} legal states, at {states.instants:,} instants{rate}: "
            f"{words.by_policy(states.by_policy)}",
        )
        yield "losing", f"{states.lossy:,} of these states lose or contradict something"

    def told(self) -> Iterator[FindingStory]:
        """What the cut lost, then one state of each kind of loss that exploration has found."""
        for finding in self.trial.findings:
            if finding.verdict is Verdict.LOSSY and finding.origin is Origin.CUT:
                state = None if self.recording is None else cut_state(self.recording.space)
                sentences = self._sentences(state, finding.lsns)
                yield FindingStory(finding.kind.value, finding.verdict, finding.message, sentences)
        for found in self.explored.findings if self.explored is not None else ():
            if found.verdict is Verdict.LOSSY:
                yield self._of_states(found)

    def _of_states(self, found: ExplorationFinding) -> FindingStory:
        first = found.examples[0]
        state = None
        if self.recording is not None and first.id:
            state = state_ref.load(self.recording.directory, first.id)
        sentences = self._sentences(state, first.lsns)
        if found.states > 1:
            policies = words.by_policy(found.by_policy)
            sentences += (f"{found.states:,} states have findings of this kind: {policies}",)
        look = f"{command()} shell {self._here} {first.id}" if first.id else ""
        return FindingStory(found.kind.value, found.verdict, first.message, sentences, look)

    @property
    def _here(self) -> Path:
        assert self.recording is not None
        return from_here(self.recording.directory.path)

    def _sentences(
        self, state: CrashState | None, operations: Sequence[LsnRange]
    ) -> tuple[str, ...]:
        recording = self.recording
        if state is None or recording is None:
            return ()
        volatile = len(recording.space.volatile(state.instant))
        at_ms = (state.instant - self._began_ns) / 1e6
        where = after_cut(at_ms, state.policy, volatile - len(state.survivors), volatile)
        history = recording.promises.requirements
        assert isinstance(history, OperationHistory)
        places = places_of(recording.base)
        return (where, *story_of(history, recording.space, state, operations, places))
