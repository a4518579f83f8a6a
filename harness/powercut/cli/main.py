# SPDX-License-Identifier: Apache-2.0
"""The command line.  It parses, calls, prints, and picks the exit status.

Exit status: 0 all as expected; 1 a verdict differs from what was expected; 2 a mistake
on the command line or in a scenario; 3 inconclusive, or trouble with this host (also a
bug in powercut); 130 interrupted.

Whatever takes time to import is imported by the command that needs it.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from powercut import __version__
from powercut.cli import certify as cli_certify
from powercut.cli import cost as cli_cost
from powercut.cli import explore as cli_explore
from powercut.cli import history as cli_history
from powercut.cli import presets as cli_presets
from powercut.cli import probe as cli_probe
from powercut.cli import recordings as cli_recordings
from powercut.cli import versions as cli_versions
from powercut.cli.versions import at_versions
from powercut.model.errors import PowercutError, UsageError
from powercut.paths import RESULTS, ROOT, SCENARIOS

if TYPE_CHECKING:
    from rich.console import Console

    from powercut.scenario.load import Scenario
    from powercut.store.layout import ResultDir
    from powercut.store.results import CampaignOutcome, RunResult

INTERRUPTED = 130
TROUBLE = 3

DIRECTORY = click.Path(path_type=Path)
SCENARIO_HELP = "SCENARIO is a file, a folder of them, or the name of one in scenarios/."


def main() -> None:
    """Runs the command line and exits."""
    try:
        status = cli.main(prog_name="powercut", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        status = INTERRUPTED
    except PowercutError as error:
        click.echo(f"powercut: {error}", err=True)
        if error.hint:
            click.echo(f"hint: {error.hint}", err=True)
        status = error.exit_status
    except BrokenPipeError:
        # Whoever read the output has gone; Python must not complain once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = TROUBLE
    except Exception:  # status 1 would claim that a verdict differs
        traceback.print_exc()
        click.echo("powercut: this is a bug in powercut; nothing was proved", err=True)
        status = TROUBLE
    sys.exit(status)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def cli() -> None:
    """Cuts the power under a running system and proves which acknowledged writes survived.

    Exit status: 0 all as expected; 1 a verdict differs from what was expected; 2 a
    mistake on the command line or in a scenario; 3 inconclusive, or trouble with this
    host.
    """


for _command in (
    *cli_recordings.COMMANDS,
    *cli_explore.COMMANDS,
    *cli_certify.COMMANDS,
    cli_probe.probe,
    cli_cost.cost,
    cli_presets.presets,
    cli_history.history,
):
    cli.add_command(_command)

_seed = click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), help="Root of every random choice."
)
_only = click.option("--only", multiple=True, metavar="CELL", help="Only this cell; may be a glob.")
_trials = click.option(
    "--trials", type=click.IntRange(1, 1_000_000), help="Trials of each cell, instead of its own."
)
_CHANCE = click.FloatRange(0, 1, min_open=True, max_open=True)
_scenarios = click.argument("scenarios", nargs=-1, metavar="[SCENARIO]...")


@cli.command(epilog=SCENARIO_HELP)
@_scenarios
@cli_presets.OPTION
@cli_versions.version_options
@click.option("--json", "json_file", type=DIRECTORY, help="Write the results here; - for stdout.")
@_seed
@_only
@_trials
@click.option("--results", type=DIRECTORY, default=RESULTS, help="Where results are kept.")
@click.option("--jobs", type=click.IntRange(1, 256), default=1, help="Trials at the same time.")
@click.option(
    "--confidence",
    type=_CHANCE,
    metavar="P",
    help="Cut cells that should be SAFE as often as it takes to be so sure, such as 0.999.",
)
@click.option(
    "--at-most",
    type=_CHANCE,
    metavar="P",
    help="The chance of a loss to be sure to stay below; by default 0.01.",
)
@click.option(
    "--resume",
    type=DIRECTORY,
    metavar="DIR",
    help="Go on with a run that was interrupted: what it had recorded is not made again.",
)
def run(
    scenarios: Sequence[str],
    presets: Sequence[str],
    qemus: Sequence[str],
    kernels: Sequence[str],
    json_file: Path | None,
    seed: int | None,
    only: Sequence[str],
    trials: int | None,
    results: Path,
    jobs: int,
    confidence: float | None,
    at_most: float | None,
    resume: Path | None,
) -> int:
    """Runs scenarios, by default first-light: records, cuts the power, recovers, judges."""
    from powercut.campaign.confidence import AT_MOST, Aim
    from powercut.campaign.runner import Ways, resume_run, run_scenarios
    from powercut.report.terminal.progress import ProgressView
    from powercut.store.results import CampaignOutcome

    if resume is not None and (
        scenarios
        or presets
        or qemus
        or kernels
        or only
        or (seed, trials, confidence, at_most) != (None,) * 4
    ):
        raise UsageError(
            "--resume goes on with what was asked for then",
            hint="leave everything out that says what to run",
        )
    if confidence is None and at_most is not None:
        raise UsageError("--at-most says nothing without --confidence")
    if confidence is not None and trials is not None:
        raise UsageError("--confidence and --trials both say how many: give one of them")
    aim = None if confidence is None else Aim(confidence, AT_MOST if at_most is None else at_most)
    # With the JSON on stdout, everything for a person goes to stderr.
    console = _console(stderr=json_file == Path("-"))
    chosen = [] if resume is not None else at_versions(_chosen(scenarios, presets), qemus, kernels)
    with ProgressView(console) as progress:
        if resume is not None:
            resumed = resume_run(resume, Ways(jobs, on_event=progress))
            outcome = CampaignOutcome(runs=(resumed,))
        else:
            outcome = run_scenarios(
                chosen,
                seed=seed,
                results=results,
                only=only,
                trials=trials,
                aim=aim,
                jobs=jobs,
                on_event=progress,
            )
    for result in outcome.runs:
        _publish(result, console)
    _write_json(outcome, json_file)
    return outcome.exit_status


@cli.command(epilog=SCENARIO_HELP)
@_scenarios
@cli_presets.OPTION
@cli_versions.version_options
@_seed
@_only
@_trials
@click.option("--brief", is_flag=True, help="Leave the command lines of the machines out.")
def plan(
    scenarios: Sequence[str],
    presets: Sequence[str],
    qemus: Sequence[str],
    kernels: Sequence[str],
    seed: int | None,
    only: Sequence[str],
    trials: int | None,
    brief: bool,
) -> int:
    """Shows what a run would do, without doing it: cells, seeds, cuts, machines."""
    from powercut.report.terminal.plan import print_plan
    from powercut.scenario.load import expand
    from powercut.scenario.seeds import fresh_seed

    describe = None
    if not brief:
        from powercut.rig.plan import describe_cell

        describe = describe_cell
    console = _console()
    for scenario in at_versions(_chosen(scenarios, presets), qemus, kernels):
        root = scenario.settings.seed if seed is None else seed
        root = fresh_seed() if root is None else root
        print_plan(console, expand(scenario, seed=root, trials=trials, only=only), describe)
    return 0


@cli.command()
@click.argument("directory", type=DIRECTORY)
@click.option("--json", "json_file", type=DIRECTORY, help="Write the results here; - for stdout.")
def verify(directory: Path, json_file: Path | None) -> int:
    """Judges a result, or a bundle, again, offline, from its recordings alone."""
    if cli_recordings.is_bundle(directory):
        return cli_recordings.verify_bundle(directory, json_file)
    from powercut.campaign.verify import verify as judge_again
    from powercut.report.terminal.table import print_run
    from powercut.store.results import CampaignOutcome

    result = judge_again(_result(directory).path)
    print_run(_console(stderr=json_file == Path("-")), result)
    outcome = CampaignOutcome(runs=(result,))
    _write_json(outcome, json_file)
    return outcome.exit_status


@cli.command()
@click.argument("directory", type=DIRECTORY)
@click.option("--cell", help="The cell to explain; by default every one that is not SAFE.")
@click.option("--trial", type=click.IntRange(1), help="Its trial; by default the worst.")
def show(directory: Path, cell: str | None, trial: int | None) -> int:
    """Explains a result: what was acknowledged, what came back, and what happened when."""
    from powercut.report.terminal.show import print_story

    print_story(_console(), _result(directory), cell=cell, trial=trial)
    return 0


@cli.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def test(arguments: Sequence[str]) -> int:
    """Runs powercut's own tests; takes the arguments of pytest."""
    import subprocess

    # A process of its own: pytest cannot rewrite the assertions of a plugin's package that
    # is imported already, says so, and warnings are errors here.
    status = subprocess.call([sys.executable, "-m", "pytest", *arguments], cwd=ROOT)
    # pytest's own statuses: 0 passed, 1 failed, 2 interrupted, 3 internal, 4 usage, 5 none.
    return {0: 0, 1: 1, 2: INTERRUPTED, 4: 2}.get(status, TROUBLE)


@cli.command()
@click.option("--json", "json_file", type=DIRECTORY, help="Write the findings here; - for stdout.")
@click.option("--fresh", is_flag=True, help="Prove again what was proved since this host booted.")
def doctor(json_file: Path | None, fresh: bool) -> int:
    """Says what this host can do, why not more, and what to do about it."""
    from powercut.doctor.host import main as examine

    return examine(json_file, fresh=fresh)


@cli.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--json", "json_file", type=DIRECTORY, help="Write the figures here; - for stdout.")
def bench(names: Sequence[str], json_file: Path | None) -> int:
    """Measures powercut itself, each figure as a ratio within one run."""
    from powercut.bench.suite import main as measure

    return measure(names, json_file)


def _chosen(scenarios: Sequence[str], presets: Sequence[str]) -> list[Scenario]:
    """The scenarios that were asked for; with presets, none but these two kinds."""
    from powercut.scenario.load import load_scenario, preset_scenario

    paths = find_scenarios(scenarios) if scenarios or not presets else []
    made = [preset_scenario(presets)] if presets else []
    return [*(load_scenario(path) for path in paths), *made]


def find_scenarios(given: Sequence[str]) -> list[Path]:
    """The files that `given` means; first-light if it is empty.  Raises UsageError."""
    if not given:
        return [SCENARIOS / "first-light.yaml"]
    found: list[Path] = []
    for text in given:
        path = Path(text)
        if path.is_dir():
            files = sorted(path.rglob("*.yaml"))
            if not files:
                raise UsageError(f"{path}: there is no scenario (*.yaml) in this folder")
            found += files
        elif path.is_file():
            found.append(path)
        else:
            found.append(_by_name(text))
    return found


def _by_name(text: str) -> Path:
    import difflib

    known = {path.stem: path for path in sorted(SCENARIOS.rglob("*.yaml"))}
    if text in known:
        return known[text]
    near = difflib.get_close_matches(Path(text).stem, known, n=1)
    raise UsageError(
        f"{text}: there is no such scenario" + (f"; did you mean {near[0]}?" if near else ""),
        hint=f"known by name: {', '.join(known)}",
    )


def _console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=stderr)


def _result(directory: Path) -> ResultDir:
    from powercut.store.layout import ResultDir

    return ResultDir.open(directory)


def _publish(result: RunResult, console: Console) -> None:
    """Writes the reports beside the verdict, and prints the table."""
    from powercut.report.publish import write_reports
    from powercut.report.terminal.table import print_run

    write_reports(_result(Path(result.result_directory)))
    print_run(console, result)


def _write_json(outcome: CampaignOutcome, target: Path | None) -> None:
    from powercut.store.files import write_atomic

    if target is None:
        return
    text = outcome.model_dump_json(indent=1) + "\n"
    if target == Path("-"):
        click.echo(text, nl=False)
    else:
        write_atomic(target, text.encode())


if __name__ == "__main__":
    main()
