# SPDX-License-Identifier: Apache-2.0
"""One cut of a program, told: what it did, what its check found, what was lost and why.

From what is stored alone; what cannot be read is left out, and the verdict has said why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from powercut.crash.states import CrashState
from powercut.explore.program_story import story_of
from powercut.model.errors import PowercutError
from powercut.model.operations import OperationHistory
from powercut.model.timeline import RequestKind
from powercut.model.verdict import Difference, LsnRange, Origin, Verdict
from powercut.paths import command, from_here
from powercut.recording import state_ref
from powercut.recording.disk_files import names_of
from powercut.recording.materialize import cut_state
from powercut.recording.trial_recording import TrialRecording, open_trial
from powercut.report import words
from powercut.report.difference import check_words, difference_sentence
from powercut.store.exploration import ExplorationFinding, ExploreResult, read_exploration
from powercut.store.results import TrialResult
from powercut.store.trial_dir import TrialDir


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


@dataclass(frozen=True)
class ProgramCut:
    """One trial of a program, as far as its recording can be read: the verdict has said why not.

    `trial` is None where its states alone are told of.
    """

    trial: TrialResult | None
    recording: TrialRecording | None = None
    explored: ExploreResult | None = None

    @classmethod
    def read(cls, directory: TrialDir, trial: TrialResult) -> ProgramCut:
        """What there is."""
        try:
            return cls(trial, open_trial(directory), read_exploration(directory))
        except PowercutError:
            return cls(trial)

    @classmethod
    def of_states(cls, directory: TrialDir, explored: ExploreResult) -> ProgramCut:
        """The same of an exploration that has just been made."""
        try:
            return cls(None, open_trial(directory), explored)
        except PowercutError:
            return cls(None, None, explored)

    @property
    def _began_ns(self) -> int:
        assert self.recording is not None
        start = self.recording.promises.start_ns
        return int(self.recording.timeline.start_ns) if start is None else start

    def facts(self) -> Iterator[tuple[str, str]]:
        """What the program did, and what was looked at."""
        trial, recording = self.trial, self.recording
        if trial is None:
            return
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
        for finding in self.trial.findings if self.trial is not None else ():
            if finding.verdict is Verdict.LOSSY and finding.origin is Origin.CUT:
                state = None if self.recording is None else cut_state(self.recording.space)
                sentences = self._sentences(state, finding.lsns, finding.difference)
                yield FindingStory(finding.kind.value, finding.verdict, finding.message, sentences)
        for found in self.explored.findings if self.explored is not None else ():
            if found.verdict is Verdict.LOSSY:
                yield self._of_states(found)

    def _of_states(self, found: ExplorationFinding) -> FindingStory:
        first = found.examples[0]
        state = None
        if self.recording is not None and first.id:
            state = state_ref.load(self.recording.directory, first.id)
        sentences = self._sentences(state, first.lsns, first.difference)
        if found.states > 1:
            policies = words.by_policy(found.by_policy)
            sentences += (f"{found.states:,} states have findings of this kind: {policies}",)
        commands: tuple[tuple[str, str], ...] = ()
        if first.id and self.recording is not None:
            here, powercut = from_here(self.recording.directory.path), command()
            commands = (
                ("look inside", f"{powercut} shell {here} {first.id}"),
                ("fewest writes", f"{powercut} minimize {here} {first.id}"),
            )
        return FindingStory(found.kind.value, found.verdict, first.message, sentences, commands)

    def _sentences(
        self,
        state: CrashState | None,
        operations: Sequence[LsnRange],
        difference: Difference | None,
    ) -> tuple[str, ...]:
        recording = self.recording
        if state is None or recording is None:
            return ()
        volatile = len(recording.space.volatile(state.instant))
        at_ms = (state.instant - self._began_ns) / 1e6
        where = after_cut(at_ms, state.policy, volatile - len(state.survivors), volatile)
        history = recording.promises.requirements
        assert isinstance(history, OperationHistory)
        places = names_of(recording, state.instant)
        found = () if difference is None else _found(difference)
        return (where, *story_of(history, recording.space, state, operations, places), *found)


def _found(difference: Difference) -> Iterator[str]:
    yield difference_sentence(difference)
    for text in check_words(difference):
        yield f"the check says: {text}"
