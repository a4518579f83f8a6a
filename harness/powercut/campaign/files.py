# SPDX-License-Identifier: Apache-2.0
"""The captured files of a program that is tried: their recording joins a run, and is judged with
its disk.

What was asked for is what the run's scenario says: its budget, of which a time is shared by both
promises, what a check may take, and its seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from powercut.campaign.folder import Checking, checking, judge_folder, minimize_capture
from powercut.crash.folder_rows import Promise
from powercut.explore.request import Budget, ExploreProgress, ExploreRequest
from powercut.explore.trial import AUTO_STATES_OF_PROGRAM, wanted_by
from powercut.model.errors import DamagedRecording, PowercutError
from powercut.model.verdict import Verdict
from powercut.recording.folder import FolderRecording, open_capture
from powercut.scenario.plan import Plan
from powercut.scenario.settings import ProgramSettings
from powercut.store.files import host_errors
from powercut.store.files_tried import FILES, FilesOrder, FilesTried
from powercut.store.folder import CaptureDir, CaptureResult
from powercut.store.layout import ResultDir
from powercut.store.witness import write_witness

_WITNESS_STATES = 500
"""States at most of the search for the fewest lost writes: a cause is wanted, not a proof."""


@dataclass(frozen=True)
class RecordedFiles:
    """A recording that is to join a run, if there is one, with the operations that it has
    acknowledged, and what counts of it."""

    directory: CaptureDir | None
    order: FilesOrder
    acked: int = 0

    def join(self, run: ResultDir) -> dict[str, Any]:
        """Moves the recording there; what environment.json says of it.  Raises HostError."""
        if self.directory is not None:
            with host_errors(self.directory.path):
                self.directory.path.rename(run.path / FILES)
        return {FILES: self.order.model_dump(mode="json")}


def judge_files(
    run: ResultDir,
    plan: Plan,
    environment: Mapping[str, Any],
    *,
    again: bool = False,
    heard: Callable[[ExploreProgress | None], None] = lambda _: None,
) -> FilesTried | None:
    """What the files of a run show; None if it has none.

    What a later step cannot do takes no earlier verdict away, and is the `reason` why not all is
    known.  With `again` nothing on disk is changed.  `heard` is called as states are checked; what
    it raises ends the work.  Raises DamagedRecording, of the recording itself only with `again`.
    """
    earlier = run.read_verdict().files if again and run.ended else None
    there = (run.path / FILES).exists()
    if not (FILES in environment or earlier is not None or there):
        return None
    try:
        order = FilesOrder.model_validate(environment.get(FILES))
    except ValueError as error:
        raise DamagedRecording(f"{run.path}/environment.json: {FILES}: {error}") from error
    if len(plan.cells) != 1 or not isinstance(plan.cells[0].parameters.workload, ProgramSettings):
        raise DamagedRecording(
            f"{run.path}: environment.json names captured files of one program, and "
            f"{run.scenario_copy.name} has another work"
        )
    found = FilesTried(portable=order.portable, reason=order.reason)
    if order.reason and not there:
        return found
    found = FilesTried(portable=order.portable, recording=FILES)
    if again and not run.ended and not there:  # of a bundle, or broken off
        return found.model_copy(update={"reason": "their recording is not in this folder"})
    steps = _Steps(CaptureDir(run.path / FILES), plan, earlier, not again, heard)
    try:
        for known in steps.results(found):
            found = known
    except PowercutError as error:
        if again and isinstance(error, DamagedRecording):
            raise
        found = found.model_copy(update={"reason": str(error)})
    return found


@dataclass(frozen=True)
class _Steps:
    """One promise after the other, then a cause; `earlier` is what is to be found again."""

    directory: CaptureDir
    plan: Plan
    earlier: FilesTried | None
    keep: bool
    heard: Callable[[ExploreProgress | None], None]

    def results(self, found: FilesTried) -> Iterator[FilesTried]:
        """What is known after each step.  Raises PowercutError."""
        settings = self.plan.cells[0].parameters.workload
        assert isinstance(settings, ProgramSettings)
        state_s = settings.state_timeout / 1e9
        recording = open_capture(self.directory, Promise.JOURNAL)
        with checking(recording, state_s) as of:
            journal = self._judged(recording, state_s, of)
            if self.keep:
                self.directory.write_result(journal)
            found = found.model_copy(update={"journal": journal})
            yield found
            beyond = recording.under(Promise.POSIX)
            posix = self._judged(beyond, state_s, of)
            if self.keep:
                self.directory.write_exploration(posix)
            found = found.model_copy(update={"posix": posix})
            yield found
            for under, result in ((recording, journal), (beyond, posix)):
                if result.verdict is Verdict.LOSSY:
                    cause = self._cause(under, result, of)
                    yield found.model_copy(update={"cause": cause})
                    return

    def _judged(self, recording: FolderRecording, state_s: float, of: Checking) -> CaptureResult:
        return judge_folder(
            recording,
            self._wanted(recording.promise),
            self.heard,
            state_s=state_s,
            keep=self.keep,
            within=of,
        )

    def _wanted(self, promise: Promise) -> ExploreRequest:
        """The states of the scenario; of a time half, or as many as that was enough for before."""
        asked = wanted_by(self.plan.cells[0].parameters, self.plan.seed)
        budget = Budget(AUTO_STATES_OF_PROGRAM) if asked is None else asked.budget
        if budget.seconds is not None:
            budget = replace(budget, seconds=budget.seconds / len(Promise))
            before = None if self.earlier is None else getattr(self.earlier, promise.value)
            if before is not None:
                had_time_for = before.explored.coverage.distinct
                budget = Budget(min(had_time_for, budget.states or had_time_for))
        return ExploreRequest(
            budget=replace(budget, first=None), seed=self.plan.seed, confirm=False
        )

    def _cause(self, recording: FolderRecording, result: CaptureResult, of: Checking) -> str:
        """For want of what the files lose something; as found before, since the search for it
        leaves files.  Raises PowercutError."""
        if not self.keep:
            return "" if self.earlier is None else self.earlier.cause
        examples = (one for found in result.explored.findings for one in found.examples)
        witness = minimize_capture(
            recording,
            next((one.id for one in examples if one.id), None),
            operation=None,
            budget=Budget(_WITNESS_STATES),
            progress=lambda _tests, _left: self.heard(None),
            within=of,
        )
        write_witness(recording.directory.path, witness)
        return witness.cause
