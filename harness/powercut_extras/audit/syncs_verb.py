# SPDX-License-Identifier: Apache-2.0
"""`powercut audit syncs -- PROGRAM`: who notices if one sync is missing?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from powercut.cli.options import (
    FILE,
    WORDS,
    jobs_option,
    json_option,
    results_option,
    seconds_option,
    seed_option,
)
from powercut.cli.output import console_beside, write_json
from powercut.cli.program_options import ProgramCommand, place_options, recording_options
from powercut.model.errors import UsageError

if TYPE_CHECKING:
    from powercut.scenario.program_text import RecordOptions

_EPILOG = (
    "PROGRAM is one executable with the verbs `setup DIR`, `run DIR` and `check DIR` "
    "(docs/adding-a-program.md), linked however, in whatever language. Its call sites of fsync, "
    "fdatasync, sync, syncfs, sync_file_range, msync, of files opened with O_SYNC or O_DSYNC and "
    "writes to them, and of pwritev2 with RWF_DSYNC come from a run with all of them; each differs "
    "from the others by its stack or its file. docs/flush-audit.md says what follows, and what "
    "does not."
)


@click.command(epilog=_EPILOG, cls=ProgramCommand)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- PROGRAM...]")
@click.option(
    "--test",
    type=WORDS,
    metavar="COMMAND",
    default="",
    help="Your own test of the program. It runs on this host as you would run it, once as it is "
    "and once without each sync, and notices by an exit status other than 0.",
)
@seconds_option("--test-timeout", 600.0, "What that may take each time, in seconds.", most=36000)
@click.option(
    "--sites",
    type=click.IntRange(1, 1000),
    default=24,
    show_default=True,
    help="How many call sites to try at most; those left out are named.",
)
@jobs_option("Runs at once; 1 unless this says more.", most=64)
@click.option(
    "--resume",
    type=FILE,
    metavar="DIR",
    help="Resume an interrupted one, by the folder that it named; what is recorded is kept.",
)
@recording_options
@place_options
@seed_option
@results_option
@json_option("the table")
def syncs(
    command: Sequence[str],
    test: tuple[str, ...],
    test_timeout: float,
    sites: int,
    jobs: int | None,
    resume: Path | None,
    options: RecordOptions,
    place: Mapping[str, Any],
    seed: int | None,
    results: Path,
    json_file: Path | None,
) -> int:
    """Drops one sync of a program at a time, by its call site: does powercut notice, does your
    own test?

    Exit status: 0 if powercut or your test noticed each sync that was dropped; 1 if one was
    dropped and neither noticed, or the program loses data with all its syncs; 3 if at least
    one call site is inconclusive.
    """
    from powercut.cli.interrupt import Resumable
    from powercut.model.verdict import Verdict
    from powercut.report.terminal.progress import ProgressView
    from powercut.scenario.settings_program import ON_HOST
    from powercut.workload.program.workload import find_program
    from powercut_extras.audit.stored_syncs import NEITHER
    from powercut_extras.audit.sync_mutants import MutationOptions, resume_mutation
    from powercut_extras.audit.sync_mutants import mutate_syncs as run
    from powercut_extras.audit.terminal_syncs import print_sync_mutants

    if bool(command) == (resume is not None) or (resume and (test or seed is not None)):
        raise UsageError(
            "give either a program or --resume DIR, which has all other options from before"
        )
    wanted = MutationOptions(options, test, test_timeout, sites, jobs or 1)
    console = console_beside(json_file)
    with ProgressView(console) as view, Resumable("audit syncs", view, resume).heard() as told:
        if resume is not None:
            result = resume_mutation(resume, jobs=jobs, listener=told)
        else:
            program = find_program(command, inside=place["root"] != ON_HOST)
            program = program.model_copy(update=place)
            result = run(program, wanted, seed=seed, results=results, listener=told)
    print_sync_mutants(console, result)
    write_json(result.model_dump_json(indent=1), json_file)
    said = {one.verdict for one in result.mutants}
    if result.verdict is Verdict.LOSSY or NEITHER in said:
        return 1
    return 0 if result.verdict is Verdict.SAFE and said <= _NOTICED else 3


_NOTICED = {"powercut", "test", "powercut and test"}
