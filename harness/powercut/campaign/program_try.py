# SPDX-License-Identifier: Apache-2.0
"""`powercut try`: one program, recorded on a disk and on captured files; one verdict, one cause.

A disk shows what one file system and kernel do, which may keep more than any of them promises.
Captured files show what the program itself asked for.  Each sees what the other cannot, so both are
recorded, first the files, whose calls say how far a run has to go (powercut.campaign.folder), then
the disk with as many operations.  Both are judged under three promises, from what holds in most
places to what holds everywhere:

1. the disk: the file system that was tried, recovered by its own kernel;
2. the files, if names and truncations keep their order, as a journalling file system has them;
3. the files by POSIX alone: a name is durable once its folder was synced.

The verdict is the worst of 1 and 2.  What 3 loses beyond them is told beside it, and counts if the
program is to be portable.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from powercut.campaign.folder import (
    CaptureOrder,
    Checking,
    checking,
    judge_folder,
    minimize_capture,
    record_folder,
)
from powercut.campaign.runner import run_scenarios
from powercut.crash.folder_rows import Promise
from powercut.explore.request import Budget, ExploreRequest
from powercut.explore.trial import AUTO_STATES_OF_PROGRAM
from powercut.model.errors import PowercutError, UsageError
from powercut.model.events import RunEvent
from powercut.model.verdict import Verdict
from powercut.recording.folder import FolderRecording, open_capture
from powercut.scenario.program_text import RecordOptions, program_scenario
from powercut.scenario.settings import Parameters, ProgramSettings
from powercut.store.files import host_errors
from powercut.store.folder import CaptureDir, CaptureResult
from powercut.store.program_tried import FilesTried, ProgramTried
from powercut.store.witness import write_witness
from powercut.trial.contract import set_up, try_contract
from powercut.workload.port import Run
from powercut.workload.program.workload import ProgramWorkload

_WITNESS_STATES: Final = 500
"""States at most of the search for the fewest lost writes: a cause is wanted, not a proof."""


@dataclass(frozen=True)
class TryOrder:
    """What is tried, how, and where its results go.

    With `goes_on` the operations that `options` ask for are the least.
    """

    program: ProgramSettings
    options: RecordOptions
    seed: int
    results: Path
    stamp: str = field(default_factory=lambda: datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ"))
    portable: bool = False
    goes_on: bool = False


def require_contract(order: TryOrder) -> None:
    """Raises UsageError, with the step, unless the program keeps the contract where nothing is
    cut.
    """
    workload = ProgramWorkload(Parameters(workload=order.program))
    for step in try_contract(workload, seed=order.seed, seconds=order.options.seconds * 2):
        if step.problems:
            raise UsageError(
                f"{step.what}: {'; '.join(step.problems)}",
                hint="nothing was cut yet; docs/adding-a-program.md has the contract",
            )


def try_program(
    order: TryOrder, on_event: Callable[[RunEvent], None] = lambda _: None
) -> ProgramTried:
    """Records the program in both ways, and judges both.  Raises UsageError, HostError."""
    folder = _set_up(order)  # alone: whatever a verb leaves behind is ended with it
    recorded = _recorded(order, folder)
    acks = order.options.acks if isinstance(recorded, str) else max(order.options.acks, recorded[1])
    scenario = program_scenario(order.program, dataclasses.replace(order.options, acks=acks))
    with ThreadPoolExecutor(1, thread_name_prefix="files") as beside:
        files = beside.submit(_files, order, recorded)
        outcome = run_scenarios(
            [scenario], seed=order.seed, results=order.results, on_event=on_event
        )
        (disk,) = outcome.runs
        return ProgramTried(disk, files.result(), order.portable)


def record_files(order: TryOrder) -> CaptureDir:
    """Records the program on captured files and judges nothing.  Raises UsageError, HostError."""
    return _record(order, _set_up(order))


def _set_up(order: TryOrder) -> Path:
    """The folder whose files will be recorded, made ready; it is kept: checks run there again."""
    folder = order.results.absolute() / "try" / order.stamp
    with host_errors(folder):
        folder.mkdir(parents=True)
    workload = ProgramWorkload(Parameters(workload=order.program))
    problems = set_up(workload, folder, seed=order.seed, seconds=order.options.deadline)
    if problems:
        raise UsageError("; ".join(problems), hint="docs/adding-a-program.md has the contract")
    return folder


def _recorded(order: TryOrder, folder: Path) -> tuple[CaptureDir, int] | str:
    """The recording of the files, and its operations; or why there is none."""
    try:
        directory = _record(order, folder)
        return directory, len(open_capture(directory).history.acked)
    except PowercutError as error:
        return str(error)


def _record(order: TryOrder, folder: Path) -> CaptureDir:
    workload = ProgramWorkload(Parameters(workload=order.program))
    environment = workload.contents(Run(bytes(16), order.seed)).environment
    run, check = (
        ("env", *environment, *workload.argv(verb, str(folder))) for verb in ("run", "check")
    )
    capture = CaptureOrder(
        folder=folder,
        command=run,
        check=check,
        acks=order.options.acks,
        seconds=order.options.seconds,
        atomic_unit=order.options.atomic_unit,
        seed=order.seed,
        scratch=order.program.scratch,
        goes_on=order.goes_on,
    )
    directory = CaptureDir.create(order.results.absolute() / "capture" / order.stamp)
    record_folder(capture, directory)
    return directory


def _files(order: TryOrder, recorded: tuple[CaptureDir, int] | str) -> FilesTried:
    """All that is known of the files: what a later step cannot do takes no earlier verdict away."""
    if isinstance(recorded, str):
        return FilesTried(reason=recorded)
    found = FilesTried()
    try:
        for known in _files_tried(order, recorded[0]):
            found = known
    except PowercutError as error:
        found = dataclasses.replace(found, reason=str(error))
    return found


def _files_tried(order: TryOrder, directory: CaptureDir) -> Iterator[FilesTried]:
    """What is known after each step.  Raises PowercutError."""
    wanted = ExploreRequest(budget=Budget(AUTO_STATES_OF_PROGRAM), seed=order.seed, confirm=False)
    state_s = order.options.state_timeout
    recording = open_capture(directory, Promise.JOURNAL)
    with checking(recording, state_s) as of:
        journal = judge_folder(recording, wanted, state_s=state_s, keep=True, within=of)
        directory.write_result(journal)
        yield FilesTried(journal, directory=directory)
        beyond = recording.under(Promise.POSIX)
        posix = judge_folder(beyond, wanted, state_s=state_s, keep=True, within=of)
        directory.write_exploration(posix)
        found = FilesTried(journal, posix, directory)
        yield found
        for under, result in ((recording, journal), (beyond, posix)):
            if result.verdict is Verdict.LOSSY:
                yield dataclasses.replace(found, cause=_cause(under, result, of))
                return


def _cause(recording: FolderRecording, result: CaptureResult, of: Checking) -> str:
    """For want of what the files lose something.  Raises PowercutError."""
    examples = (one for found in result.explored.findings for one in found.examples)
    state = next((one.id for one in examples if one.id), None)
    budget = Budget(_WITNESS_STATES)
    witness = minimize_capture(recording, state, operation=None, budget=budget, within=of)
    write_witness(recording.directory.path, witness)
    return witness.cause


def tried_json(tried: ProgramTried) -> str:
    """All of it for programs: the verdict, the cause, the disk's run, the files' results."""
    files = tried.files
    results = {
        name: None if result is None else result.model_dump(mode="json")
        for name, result in (("journal", files.journal), ("posix", files.posix))
    }
    told = {
        "format": "powercut-try/1",
        "verdict": tried.verdict.name.lower(),
        "portable": tried.portable,
        "cause": files.cause,
        "alone": tried.alone,
        "disk": tried.disk.model_dump(mode="json"),
        "files": {
            "recording": None if files.directory is None else str(files.directory.path),
            "reason": files.reason,
            **results,
        },
    }
    return json.dumps(told, indent=1)
