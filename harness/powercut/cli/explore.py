# SPDX-License-Identifier: Apache-2.0
"""`powercut explore` and `powercut analyze`: what a recording says of every instant.

Like powercut.cli.main they parse, call and print; whatever takes time to import is imported
by the command that needs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from powercut.cli import recordings as cli_recordings
from powercut.model.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from powercut.explore.request import Listener, Wanted
    from powercut.store.exploration import ExploreResult
    from powercut.store.layout import TrialDir

FILE = click.Path(path_type=Path)
RECORDING_HELP = (
    "RECORDING is the folder of a result, of a cell in it, or of a trial: for example "
    "results/first-light/latest, or results/first-light/latest/cells/lying/0001."
)
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
INSTANTS = ("flush", "fua", "ack", "completion", "submission")

_recording = click.argument("recording", type=FILE)
_json = click.option("--json", "json_file", type=FILE, help="Write the outcome here; - for stdout.")


@click.command(epilog=RECORDING_HELP)
@_recording
@click.option(
    "--model",
    type=click.Choice(["exact", "epoch", "prefix"]),
    default="exact",
    show_default=True,
    help="Which states count as legal.",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    type=click.Choice(POLICIES),
    help="Who draws states; may be given again. By default all of them.",
)
@click.option(
    "--at",
    multiple=True,
    type=click.Choice(INSTANTS),
    help="After which events the power is cut; may be given again. By default all.",
)
@click.option(
    "--budget", default="60s", show_default=True, help="A time (60s, 5m) or a number of states."
)
@click.option(
    "--engine",
    type=click.Choice(["auto", "raw", "uml", "guest"]),
    default="auto",
    show_default=True,
    help="What recovers the states.",
)
@click.option("--jobs", type=click.IntRange(1, 256), help="Engines at the same time.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True)
@click.option(
    "--prune",
    type=click.Choice(["bytes", "reads", "nothing"]),
    default="bytes",
    show_default=True,
    help="Which states an earlier one decides: same disk, or same as far as it was read.",
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
    help="After each recovery the workload goes on by N records (16), then a clean unmount; "
    "in some states a second cut instead. What was acknowledged before and after must be there.",
)
@click.option(
    "--depth",
    type=click.IntRange(0, 8),
    default=0,
    show_default=True,
    help="Cut again during recoveries, and in recoveries from that, so many times.",
)
@_json
def explore(
    recording: Path,
    model: str,
    policies: Sequence[str],
    at: Sequence[str],
    budget: str,
    engine: str,
    jobs: int | None,
    seed: int,
    prune: str,
    confirm: bool,
    after: int | None,
    depth: int,
    json_file: Path | None,
) -> int:
    """Checks the disks that a power cut was allowed to leave, at every instant."""
    if cli_recordings.is_import(recording):
        if after or depth:
            raise UsageError(
                "an imported log has no workload that could go on, and no disk whose contract a "
                "second cut would follow",
                hint="leave out --after and --depth",
            )
        return _explore_import(recording, model, budget)
    from powercut.crash.explore import InstantKind
    from powercut.crash.states import Model
    from powercut.explore.explorer import explore as run
    from powercut.explore.request import Budget, Prune, Wanted
    from powercut.report.terminal.exploration import print_exploration
    from powercut.rig.engine_choice import jobs_by_default

    wanted = Wanted(
        model=Model(model),
        policies=tuple(policies) or POLICIES,
        at=tuple(InstantKind(name) for name in at) or tuple(InstantKind),
        budget=Budget.parse(budget),
        engine=engine,
        jobs=jobs or jobs_by_default(),
        seed=seed,
        prune=Prune(prune),
        confirm=confirm,
        after=after or 0,
        depth=depth,
    )
    console = _console(json_file)
    results = []
    for trial in find_trials(recording):
        with _progress(console, trial, wanted) as listener:
            result = run(trial, wanted, on_event=listener)
        print_exploration(console, result)
        results.append((trial, result))
    _write_json(json_file, [result for _, result in results])
    return max((_status(trial, result) for trial, result in results), key=(0, 3, 1).index)


@click.command(epilog=RECORDING_HELP)
@_recording
def analyze(recording: Path) -> int:
    """Prints which records were acknowledged before they were durable, and for how long."""
    if cli_recordings.is_import(recording):
        return cli_recordings.analyze_import(recording)
    from powercut.crash.exposure import exposure
    from powercut.recording.recorded import open_recorded
    from powercut.report.terminal.exploration import print_exposure

    console = _console(None)
    status = 0
    for trial in find_trials(recording):
        trial.check_seal()
        recorded = open_recorded(trial)
        record = recorded.record
        report = exposure(recorded.evidence)
        title = f"{record.scenario}, {record.cell}, trial {record.trial.number}"
        print_exposure(console, title, report)
        for gap in recorded.gaps:
            console.print(f"the recording is not whole: {gap}", style="yellow")
        exposed = bool(report.exposed.any())
        unknown = bool(recorded.gaps or report.unknown_lsns)
        if exposed != (record.parameters.expect.value == "lossy") and (exposed or not unknown):
            status = 1
        elif unknown and not exposed and not status:
            status = 3
    return status


COMMANDS = (explore, analyze)


def _explore_import(recording: Path, model: str, budget: str) -> int:
    """A foreign log has models and readings of its own; the budget is that of each reading."""
    from powercut.explore.request import Budget

    limit = Budget.parse(budget)
    return cli_recordings.explore_import(
        recording, model=model, states=limit.states, seconds=limit.seconds
    )


def find_trials(path: Path) -> list[TrialDir]:
    """The recordings that `path` means: one, or all cells' of a result, without controls.

    Raises UsageError if there is none.
    """
    from powercut.store.layout import ResultDir, TrialDir

    try:
        path = path.resolve(strict=True)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="see results/ for recordings") from error
    for folder in (path, *path.parents):
        if (folder / "trial.json").is_file():
            return [TrialDir(folder, _run_of(folder))]
    below = sorted(file.parent for file in path.glob("**/trial.json"))
    if (path / "scenario.yaml").is_file() or (path / "latest").exists():
        run = ResultDir.open(path).path
        below = sorted(file.parent for file in run.glob("cells/*/*/trial.json"))
    if not below:
        raise UsageError(
            f"{path}: there is no recording in it",
            hint="give a folder such as results/<scenario>/latest",
        )
    return [TrialDir(folder, _run_of(folder)) for folder in below]


def _run_of(folder: Path) -> Path:
    """The folder of the run that the trial in `folder` belongs to; else that of the trial."""
    return next((up for up in folder.parents if (up / "scenario.yaml").is_file()), folder)


def _status(trial: TrialDir, result: ExploreResult) -> int:
    """0 if the verdict is as expected of the cell, 1 if not, 3 if it is unknown."""
    verdict = result.verdict.name.lower()
    if verdict == "inconclusive":
        return 3
    return 0 if verdict == trial.read_record().parameters.expect.value else 1


def _console(json_file: Path | None) -> Console:
    from rich.console import Console

    # With the JSON on stdout, everything for a person goes to stderr.
    return Console(stderr=json_file == Path("-"))


@contextmanager
def _progress(console: Console, trial: TrialDir, wanted: Wanted) -> Iterator[Listener]:
    """A bar with the rate and what was found so far, on a terminal."""
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
    name = f"{trial.path.parent.name} #{trial.path.name}"

    def show(event: ExploreProgress) -> None:
        found = f", {event.lossy_states:,} lossy" if event.lossy_states else ""
        text = f"{event.doing}: {event.states:,} states, {event.rate_s:,.0f}/s{found}"
        done = event.states if event.budget.states else min(event.seconds, total or 0)
        bar.update(task, completed=done, text=text)

    with bar:
        task = bar.add_task(name, total=total, text="opening")
        yield show


def _write_json(target: Path | None, results: Sequence[ExploreResult]) -> None:
    import json

    from powercut.store.files import write_atomic

    if target is None:
        return
    value = {
        "format": "powercut-explorations/1",
        "explorations": [result.model_dump(mode="json") for result in results],
    }
    text = json.dumps(value, indent=1) + "\n"
    if target == Path("-"):
        click.echo(text, nl=False)
    else:
        write_atomic(target, text.encode())
