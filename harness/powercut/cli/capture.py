# SPDX-License-Identifier: Apache-2.0
"""`powercut capture DIR -- COMMAND`: any program, on files of which every request is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from powercut.cli.options import (
    FILE,
    WORDS,
    atomic_unit_option,
    budget_option,
    depth_option,
    jobs_option,
    json_option,
    results_option,
    scratch_option,
    seconds_option,
    seed_option,
)
from powercut.cli.output import TROUBLE, console_beside, write_json
from powercut.cli.program_options import ProgramCommand
from powercut.model.verdict import Verdict

if TYPE_CHECKING:
    from rich.console import Console

    from powercut.crash.folder_rows import Promise
    from powercut.explore.request import ExploreRequest
    from powercut.store.folder import CaptureDir, CaptureResult

_EPILOG = (
    "COMMAND runs on this host with DIR captured: each write, sync, change of size and of names is "
    "recorded. At the cut the folder loses its power, then COMMAND and all that it has started "
    "are killed. It says what it has made durable on POWERCUT_FD, as docs/adding-a-program.md has "
    "it (`? N`, `+ N`). The command of --check finds at DIR what a cut may have left there, and "
    "says what it finds (`= N`, `bad reason`). docs/captured-folders.md has the crash model, and "
    "the lines to type for hypervisors."
)


@click.command(epilog=_EPILOG, cls=ProgramCommand)
@click.argument("folder", type=FILE, metavar="DIR")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.option(
    "--check",
    type=WORDS,
    default="",
    metavar="COMMAND",
    help="Command that lists what is there after a cut, as one string. Without it: no verdict.",
)
@click.option(
    "--promise",
    type=click.Choice(["journal", "posix"]),
    default="journal",
    show_default=True,
    help="What the host promises of names: what a journalling file system keeps, or POSIX alone.",
)
@click.option(
    "--acks",
    type=click.IntRange(0, 1_000_000),
    default=0,
    help="Cut after so many acknowledged operations, ...",
)
@seconds_option(
    "--seconds",
    60.0,
    "... after so long, or when COMMAND ends, whichever comes first.",
    least=0.01,
    most=86400,
)
@atomic_unit_option(
    "Bytes that are written whole or not at all; a write tears at multiples of it.", "4096"
)
@budget_option("320", "How many crash states to look at, or how long (30s, 5m).")
@click.option(
    "--share",
    default="",
    metavar="KIND",
    help="Run COMMAND in a QEMU guest that shares this host's files, and DIR by virtiofs or 9p: "
    "virtiofs,cache=none or 9p,cache=loose (docs/captured-folders.md has all settings).",
)
@seconds_option("--state-timeout", 60.0, "What one check may take, in seconds.", least=0.1)
@scratch_option
@jobs_option(
    "How many checks may run at a time, if they do not disturb each other.", usual=1, shown=True
)
@depth_option("while --check recovers from")
@seed_option
@results_option
@json_option("the result")
def capture(
    folder: Path,
    command: Sequence[str],
    check: tuple[str, ...],
    promise: str,
    acks: int,
    seconds: float,
    atomic_unit: str,
    budget: str,
    share: str,
    state_timeout: float,
    scratch: tuple[str, ...],
    jobs: int,
    depth: int,
    seed: int | None,
    results: Path,
    json_file: Path | None,
) -> int:
    """Records what a command does to the files in a folder, cuts the power, and judges.

    Exit status: 0 SAFE, or recorded without --check; 1 LOSSY, 3 INCONCLUSIVE.
    """
    from powercut.campaign.folder import CaptureOrder, record_folder
    from powercut.crash.folder_rows import Promise
    from powercut.explore.request import Budget, ExploreRequest
    from powercut.machine.share import FolderShare
    from powercut.report.terminal.folder import print_capture, print_recorded
    from powercut.store.folder import CaptureDir

    _refuse_option(command[0])
    limit = Budget.parse(budget)
    limit = limit.doubled if depth else limit  # half of it is for second cuts
    wanted = ExploreRequest(budget=limit, jobs=jobs, seed=seed or 0, confirm=False, depth=depth)
    order = CaptureOrder(
        folder=folder.resolve(),
        command=tuple(command),
        check=check,
        acks=acks,
        seconds=seconds,
        atomic_unit=int(atomic_unit),
        seed=seed or 0,
        share=FolderShare.parse(share) if share else None,
        scratch=scratch,
    )
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    directory = CaptureDir.create(results.absolute() / "capture" / stamp)
    console = console_beside(json_file)
    with console.status("recording"):
        record = record_folder(order, directory)
    if not order.check:
        print_recorded(console, record, directory.path)
        write_json(record.model_dump_json(indent=1), json_file)
        return 0
    result = _judged(console, directory, Promise(promise), wanted, state_timeout)
    print_capture(console, record, result, directory.path)
    write_json(result.model_dump_json(indent=1), json_file)
    return exit_status(result.verdict)


def _refuse_option(word: str) -> None:
    if word.startswith("-"):
        raise click.NoSuchOption(word.partition("=")[0])


def _judged(
    console: Console,
    directory: CaptureDir,
    promise: Promise,
    wanted: ExploreRequest,
    state_s: float,
) -> CaptureResult:
    from powercut.campaign.folder import judge_folder, progress_text
    from powercut.recording.folder import open_capture
    from powercut.report.publish import write_recording_page

    with console.status("looking at crash states") as status:
        result = judge_folder(
            open_capture(directory, promise),
            wanted,
            lambda event: status.update(progress_text(event)),
            state_s=state_s,
            keep=True,
        )
    directory.write_result(result)
    write_recording_page(directory.path)
    return result


def exit_status(verdict: Verdict) -> int:
    """0 SAFE, 1 LOSSY, else 3."""
    return {Verdict.SAFE: 0, Verdict.LOSSY: 1}.get(verdict, 3)


def verify_capture(folder: Path, json_file: Path | None) -> int:
    """Judges a recording again, by the promise and the limits of its result."""
    from powercut.campaign.folder import judge_again
    from powercut.recording.consent import NotRepeated
    from powercut.recording.folder import open_capture
    from powercut.report.terminal.folder import print_capture
    from powercut.store.folder import CaptureDir

    directory = CaptureDir(folder.resolve())
    before = directory.read_result()
    console = console_beside(json_file)
    try:
        after = judge_again(open_capture(directory))
    except NotRepeated as error:
        console.print(f"The recording is as it was sealed. It was {before.verdict.name}.")
        console.print(f"not repeated: {error}", style="yellow", markup=False)
        console.print(f"hint: {error.hint}", markup=False)
        return TROUBLE
    print_capture(console, directory.read_record(), after, directory.path)
    write_json(after.model_dump_json(indent=1), json_file)
    if before.verdict is not after.verdict:  # a budget of time may have seen other states
        console.print(f"DIFFERS: it was {before.verdict.name}", style="red")
        return 1
    return exit_status(after.verdict)
