# SPDX-License-Identifier: Apache-2.0
"""`powercut record -- PROGRAM`: anybody's program on a captured disk; cut, recovered, checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from powercut.cli.options import FILE, json_option, results_option, seed_option
from powercut.cli.output import console_beside, write_json
from powercut.model.errors import UsageError
from powercut.paths import CACHE

if TYPE_CHECKING:
    from rich.console import Console

    from powercut.campaign.program import Listener, ProgramEvent
    from powercut.store.program import ProgramDir

_EPILOG = (
    "PROGRAM is one executable, which may be a shell script, with the verbs `setup DIR`, "
    "`run DIR` and `check DIR`; docs/adding-a-program.md has the contract and examples. "
    "It runs in User-Mode Linux on this host's own files, read-only; DIR lies on the disk under "
    "test. `powercut check-program PROGRAM` tries it without a cut."
)


@click.command(epilog=_EPILOG, context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- PROGRAM...")
@click.option(
    "--filesystem",
    type=click.Choice(["ext4", "xfs", "btrfs"]),
    default="ext4",
    show_default=True,
    help="What DIR lies on.",
)
@click.option("--size", default="512MiB", show_default=True, help="Size of the disk.")
@click.option(
    "--atomic-unit",
    type=click.IntRange(512, 65536),
    default=4096,
    show_default=True,
    help="Bytes that the disk writes whole or not at all; a write tears at multiples of it.",
)
@click.option("--mkfs", default="", help="Options for mkfs, in one string.")
@click.option("--mount", default="", help="Mount options.")
@click.option(
    "--acks",
    type=click.IntRange(1, 1_000_000),
    default=500,
    show_default=True,
    help="Cut after so many acknowledged operations ...",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, 3600),
    default=10.0,
    show_default=True,
    help="... or after so long, whichever comes first.",
)
@click.option(
    "--budget",
    default="64",
    show_default=True,
    help="How many crash states to recover, or how long (30s, 5m).",
)
@click.option(
    "--state-timeout",
    type=click.FloatRange(1, 3600),
    default=60.0,
    show_default=True,
    help="What one recovery with its check may take, in seconds.",
)
@click.option(
    "--deadline",
    type=click.FloatRange(1, 3600),
    default=120.0,
    show_default=True,
    help="What `setup` may take, and `run` until it is ready, in seconds.",
)
@seed_option
@results_option
@click.option("-o", "--output", type=FILE, help="The recording; a new folder.")
@json_option("the result")
def record(
    command: Sequence[str],
    filesystem: str,
    size: str,
    atomic_unit: int,
    mkfs: str,
    mount: str,
    acks: int,
    seconds: float,
    budget: str,
    state_timeout: float,
    deadline: float,
    seed: int | None,
    results: Path,
    output: Path | None,
    json_file: Path | None,
) -> int:
    """Runs a program on a captured disk, cuts the power, recovers, and lets it check.

    Exit status: 0 SAFE, 1 LOSSY, 3 INCONCLUSIVE.
    """
    import random
    import shlex

    from powercut.campaign.program import ProgramLimits, run_program
    from powercut.explore.request import Budget
    from powercut.model.contract import DeviceContract
    from powercut.rig.program import Program
    from powercut.scenario.quantity import parse_size
    from powercut.scenario.seeds import fresh_seed
    from powercut.store.program import ProgramDir
    from powercut.trial.program import ProgramJob

    try:
        size_bytes = parse_size(size)
    except ValueError as error:
        raise UsageError(f"--size {size}: {error}") from error
    root = fresh_seed() if seed is None else seed
    program = Program.find(tuple(command))
    job = ProgramJob(
        program=program,
        filesystem=filesystem,
        size=size_bytes,
        contract=DeviceContract(atomic_unit=atomic_unit),
        seed=root,
        run_id=random.Random(f"{root}/program").randbytes(16),
        acks=acks,
        seconds=seconds,
        deadline_s=deadline,
        mount_options=mount,
        mkfs_options=tuple(shlex.split(mkfs)),
    )
    folder = (output or new_folder(results, Path(program.command[0]).name, root)).absolute()
    limits = ProgramLimits(Budget.parse(budget), state_timeout, root)
    console = console_beside(json_file)
    with program_progress(console) as listener:
        run_program(job, folder, CACHE, limits, listener)
    return show_result(console, ProgramDir(folder), json_file)


def new_folder(results: Path, name: str, seed: int) -> Path:
    """A folder for one recording of the program `name`."""
    import time

    return results / "programs" / name / f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{seed}"


def verify_program(folder: Path, json_file: Path | None) -> int:
    """Judges a recording again; the exit status."""
    from powercut.campaign.program import ProgramLimits, judge_program
    from powercut.explore.request import Budget
    from powercut.store.program import ProgramDir

    directory = ProgramDir(folder.resolve())
    before = directory.read_result()
    console = console_beside(json_file)
    limits = ProgramLimits(Budget(states=before.states), before.state_s, before.seed)
    with program_progress(console) as listener:
        judge_program(directory, limits, listener)
    status = show_result(console, directory, json_file)
    after = directory.read_result()
    if (after.verdict, after.lossy_states) != (before.verdict, before.lossy_states):
        console.print(
            f"DIFFERS: it was {before.verdict} with {before.lossy_states} losing states",
            style="red",
        )
        return 1
    return status


def show_result(console: Console, directory: ProgramDir, json_file: Path | None) -> int:
    """Prints what is in result.json; the exit status that it means."""
    from powercut.model.verdict import Verdict
    from powercut.report.terminal.program import print_program

    result = directory.read_result()
    print_program(console, directory.read_record(), result, directory.path)
    write_json(result.model_dump_json(indent=1), json_file)
    return {Verdict.SAFE: 0, Verdict.LOSSY: 1}.get(result.outcome, 3)


@contextmanager
def program_progress(console: Console) -> Iterator[Listener]:
    """A line that says what is done now, on a terminal."""
    texts = {
        "set-up": "setting the program up",
        "running": "running: {0:,} operations acknowledged",
        "control running": "control, on a disk that ignores flushes: {0:,} acknowledged",
        "control": "control: {0:,} states recovered, {1:,} lose something",
        "states": "{0:,} states recovered, {1:,} lose something",
    }
    with console.status("starting") as status:

        def show(event: ProgramEvent) -> None:
            status.update(texts[event.doing].format(event.done, event.lossy))

        yield show
