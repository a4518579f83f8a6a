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

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from powercut.campaign.files import RecordedFiles
from powercut.campaign.folder import CaptureOrder, record_folder
from powercut.campaign.runner import run_scenarios
from powercut.model.errors import PowercutError, UsageError
from powercut.model.events import RunEvent
from powercut.recording.folder import open_capture
from powercut.scenario.program_text import RecordOptions, program_scenario
from powercut.scenario.settings import Parameters, ProgramSettings
from powercut.store.files import host_errors
from powercut.store.files_tried import FilesOrder
from powercut.store.folder import CaptureDir
from powercut.store.results import RunResult
from powercut.trial.contract import set_up, try_contract
from powercut.workload.port import Run
from powercut.workload.program.workload import ProgramWorkload


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
) -> RunResult:
    """Records the program in both ways, and judges both.  Raises UsageError, HostError."""
    folder = _set_up(order)  # alone: whatever a verb leaves behind is ended with it
    files = _recorded(order, folder)
    options = replace(order.options, acks=max(order.options.acks, files.acked))
    (run,) = run_scenarios(
        [program_scenario(order.program, options)],
        seed=order.seed,
        results=order.results,
        on_event=on_event,
        files=files,
    ).runs
    return run


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


def _recorded(order: TryOrder, folder: Path) -> RecordedFiles:
    try:
        directory = _record(order, folder)
        acked = len(open_capture(directory).history.acked)
    except PowercutError as error:
        return RecordedFiles(None, FilesOrder(portable=order.portable, reason=str(error)))
    return RecordedFiles(directory, FilesOrder(portable=order.portable), acked)


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
