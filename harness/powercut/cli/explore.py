# SPDX-License-Identifier: Apache-2.0
"""`powercut explore`: the disks that other cuts would have left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from powercut.cli.extras import foreign_logs
from powercut.cli.lookup import find_trials, is_capture, is_import
from powercut.cli.options import (
    RESULT_HELP,
    atomic_unit_option,
    budget_option,
    cluster_option,
    depth_option,
    engine_option,
    jobs_option,
    json_option,
    promise_named,
    promise_option,
    recording_argument,
    recovery_kernel_option,
    refuse_others,
    root_seed_option,
    run_check_option,
)
from powercut.cli.output import console_beside, write_json, write_json_object
from powercut.cli.works_on import require_works_on
from powercut.model.errors import UsageError
from powercut.recording.sealed import SealedTrial

if TYPE_CHECKING:
    from rich.console import Console

    from powercut.explore.request import ExploreRequest, Listener
    from powercut.model.verdict import Verdict
    from powercut.store.exploration import ExploreResult
    from powercut.store.trial_dir import TrialDir
    from powercut.store.trial_result import TrialResult

POLICIES = (
    "durable-only",
    "everything-issued",
    "all-but-one",
    "only-one",
    "prefixes",
    "torn",
    "reorder",
    "random-subsets",
)
GROUPED = "representatives"
_OF_FOLDERS = ("policies", "at", "budget", "jobs", "seed", "depth", "promise", "json_file")
_OF_LOGS = {*_OF_FOLDERS, "model", "engine", "recovery_kernel", "prune"} - {"depth", "promise"}
INSTANTS = ("flush", "fua", "ack", "completion", "submission")


@click.command(epilog=RESULT_HELP)
@recording_argument
@run_check_option
@click.option(
    "--model",
    type=click.Choice(["exact", "epoch", "prefix"]),
    default="exact",
    show_default=True,
    help="Crash model: which states are legal.",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    type=click.Choice([*POLICIES, GROUPED]),
    help="State-selection policy; may be repeated. By default all, beginning with "
    "states just after acks and one state of each group of like ones.",
)
@click.option(
    "--at",
    multiple=True,
    type=click.Choice(INSTANTS),
    help="Cut after events of this kind; may be repeated. By default all.",
)
@atomic_unit_option(
    "Explore as if the disk promised not to tear aligned blocks of so many bytes, instead of "
    "what disk.atomic_unit says; nothing of it is kept beside the recording."
)
@budget_option("60s", "A time (60s, 5m) or a number of states.")
@engine_option
@recovery_kernel_option
@jobs_option("Recovery engines to run in parallel.")
@root_seed_option
@click.option(
    "--prune",
    type=click.Choice(["bytes", "reads", "nothing"]),
    default="bytes",
    show_default=True,
    help="Skip states that an earlier one decides: with the same bytes everywhere, or wherever its "
    "recovery read; or skip none.",
)
@click.option(
    "--confirm/--no-confirm",
    default=True,
    show_default=True,
    help="Recover the first state of each loss in a guest with the recorded kernel, too.",
)
@click.option(
    "--after",
    type=click.IntRange(1, 10_000),
    is_flag=False,
    flag_value=16,
    metavar="[N]",
    help="After each recovery the workload writes N more records (16) and unmounts; in some states "
    "a second cut comes instead. Everything acknowledged must be there.",
)
@depth_option("during the recovery from")
@cluster_option
@promise_option
@json_option("the outcome")
def explore(
    recording: Path,
    model: str,
    policies: Sequence[str],
    at: Sequence[str],
    atomic_unit: str | None,
    budget: str,
    engine: str,
    recovery_kernel: str,
    jobs: int | None,
    seed: int,
    prune: str,
    confirm: bool,
    after: int | None,
    depth: int,
    cluster: str | None,
    promise: str | None,
    json_file: Path | None,
) -> int:
    """Checks the disks, or captured folders, that a power cut was allowed to leave, at every
    instant.
    """
    require_works_on("explore", recording)
    if is_capture(recording):
        refuse_others(_OF_FOLDERS)
    elif promise is not None:
        raise UsageError("--promise is for captured folders", hint="leave it out")
    if is_import(recording):
        refuse_others(_OF_LOGS, "an imported log", "leave it out; docs/imported-logs.md has why")
    from powercut.crash.explore import InstantKind
    from powercut.crash.states import Model
    from powercut.explore.request import Budget, ExploreRequest, Prune
    from powercut.rig.engine_choice import jobs_by_default

    wanted = ExploreRequest(
        model=Model(model),
        policies=tuple(policies) or (GROUPED, *POLICIES),
        at=tuple(InstantKind(name) for name in at) or tuple(InstantKind),
        budget=replace(Budget.parse(budget), whole=True),
        engine=engine,
        kernel=recovery_kernel,
        jobs=jobs or (1 if is_capture(recording) else jobs_by_default()),
        seed=seed,
        prune=Prune(prune),
        confirm=confirm and not is_capture(recording),
        after=after or 0,
        depth=depth,
        atomic_unit=None if atomic_unit is None else int(atomic_unit),
    )
    if is_capture(recording):
        return _explore_folder(recording, wanted, promise, json_file)
    if is_import(recording):
        with _progress(console_beside(json_file), recording, wanted) as listener:
            return foreign_logs().explore(recording, wanted, on_event=listener, json_file=json_file)
    return _explore_trials(find_trials(recording), wanted, cluster, json_file)


def _explore_folder(
    path: Path, wanted: ExploreRequest, promise: str | None, json_file: Path | None
) -> int:
    """Looks at more states; exit status as that of `capture`."""
    from powercut.campaign.folder import explore_folder, progress_text
    from powercut.cli.capture import exit_status
    from powercut.recording.folder import open_capture
    from powercut.report.publish import write_recording_page
    from powercut.report.terminal.folder import print_capture
    from powercut.store.folder import CaptureDir

    recording = open_capture(CaptureDir(path.resolve()), promise_named(promise))
    console = console_beside(json_file)
    with console.status("looking at crash states") as status:
        result = explore_folder(
            recording, wanted, lambda event: status.update(progress_text(event))
        )
    folder = recording.directory.path
    write_recording_page(folder)
    print_capture(console, recording.record, result, folder)
    write_json(result.model_dump_json(indent=1), json_file)
    return exit_status(result.verdict)


def _explore_trials(
    trials: Sequence[TrialDir],
    wanted: ExploreRequest,
    cluster: str | None,
    json_file: Path | None,
) -> int:
    from powercut.explore.program_cut import ProgramCut
    from powercut.report import words
    from powercut.report.program_cut import stories_of
    from powercut.report.terminal.exploration import print_exploration

    console = console_beside(json_file)
    results = []
    statuses = []
    for sealed, result in _results(trials, wanted, cluster, console):
        judged = _judged(sealed, result)
        unit = words.unit_of(sealed.parameters)
        stories = (
            stories_of(ProgramCut.of_states(sealed, result)) if unit is words.OPERATIONS else ()
        )
        print_exploration(console, result, unit, tuple(stories), judged)
        results.append(result)
        statuses.append(
            _status(sealed.directory, result.verdict if judged is None else judged.verdict)
        )
    told = [result.model_dump(mode="json") for result in results]
    write_json_object("explorations", {"explorations": told}, json_file)
    return max(statuses, key=(0, 3, 1).index)


def _judged(sealed: SealedTrial, explored: ExploreResult) -> TrialResult | None:
    """The verdict that the recording deserves with these states; None if they are those of another
    disk.
    """
    from powercut.explore.trial import StatesExplored
    from powercut.verdict.judge import verdict_of

    if explored.atomic_unit != sealed.opened.space.unit:
        return None
    return verdict_of(sealed, StatesExplored(explored))


def _results(
    trials: Sequence[TrialDir], wanted: ExploreRequest, cluster: str | None, console: Console
) -> Iterator[tuple[SealedTrial, ExploreResult]]:
    if cluster is None:
        from powercut.explore.explorer import explore as run

        for trial in trials:
            sealed = SealedTrial(trial)
            with _progress(console, trial.path, wanted) as listener:
                result = run(sealed, wanted, on_event=listener)
            yield sealed, result
        return
    from powercut.cli.extras import open_cluster
    from powercut.model.events import Notice, RunEvent

    def tell(event: RunEvent) -> None:
        if isinstance(event, Notice):
            console.print(event.text, markup=False, highlight=False)

    with open_cluster(cluster) as opened:
        for trial in trials:
            with _progress(console, trial.path, wanted) as listener:
                result = opened.explore(trial, wanted, on_event=tell, on_progress=listener)
            yield SealedTrial(trial), result


def _status(trial: TrialDir, verdict: Verdict) -> int:
    """0 if the verdict is as expected of the cell, 1 if not, 3 if it is unknown."""
    said = verdict.name.lower()
    if said == "inconclusive":
        return 3
    return 0 if said == trial.read_record().parameters.expect.value else 1


@contextmanager
def _progress(console: Console, recording: Path, wanted: ExploreRequest) -> Iterator[Listener]:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from powercut.explore.request import ExploreProgress

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[text]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    total = wanted.budget.states or wanted.budget.seconds

    def show(event: ExploreProgress) -> None:
        lossy = f", {event.lossy_states:,} lossy" if event.lossy_states else ""
        text = f"{event.doing}: {event.states:,} states, {event.rate_s:,.0f}/s{lossy}"
        done = event.states if event.budget.states else min(event.seconds, total or 0)
        bar.update(task, completed=done, text=text)

    with bar:
        task = bar.add_task(" ".join(recording.resolve().parts[-2:]), total=total, text="opening")
        yield show
