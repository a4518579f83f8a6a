# SPDX-License-Identifier: Apache-2.0
"""`powercut run`: records, cuts the power, recovers, judges."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from powercut.cli.lookup import find_result
from powercut.cli.options import (
    FILE,
    OUTPUT,
    SCENARIO_HELP,
    at_most_option,
    cluster_option,
    confidence_aim,
    confidence_option,
    jobs_option,
    json_option,
    only_option,
    preset_option,
    results_option,
    scenarios_argument,
    seed_option,
    trials_option,
    version_options,
)
from powercut.cli.output import console_beside, write_json, write_json_object
from powercut.cli.scenarios import at_versions, chosen_scenarios
from powercut.model.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from powercut.campaign.confidence import Aim
    from powercut.campaign.selection import Selection
    from powercut.scenario.load import Scenario
    from powercut.store.results import CampaignOutcome, RunResult


# What a CI gets of runs: JUnit XML where it is wanted, and what GitHub Actions shows by itself.

junit_option = click.option(
    "--junit",
    "junit_file",
    type=OUTPUT,
    help="Write JUnit XML here, a test case for each cell; - for stdout.",
)


def tell_ci(runs: Sequence[RunResult], junit_file: Path | None, *, quiet: bool = False) -> None:
    """Writes `junit_file`, and under GitHub Actions annotations and the summary of the step.

    `quiet` says that stdout is another's: then there are no annotations.  Raises HostError.
    """
    from powercut.report.junit import junit_of
    from powercut.store.files import host_errors, write_output

    if junit_file == Path("-"):
        click.echo(junit_of(runs), nl=False)
    elif junit_file is not None:
        write_output(junit_file, junit_of(runs))
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return
    from powercut.report.github import summary, workflow_commands

    if not quiet and junit_file != Path("-"):
        for line in workflow_commands(runs):
            click.echo(line)
    if target := os.environ.get("GITHUB_STEP_SUMMARY"):
        with host_errors(Path(target)), Path(target).open("a", encoding="utf-8") as file:
            file.write(summary(runs))


@click.command(epilog=SCENARIO_HELP)
@scenarios_argument
@preset_option
@version_options
@json_option("the results")
@junit_option
@seed_option
@only_option
@trials_option
@results_option
@jobs_option("Trials to run in parallel.", usual=1)
@cluster_option
@confidence_option
@at_most_option
@click.option(
    "--resume",
    type=FILE,
    metavar="DIR",
    help="Resume an interrupted run; power cuts that are done are kept.",
)
@click.option(
    "--dry-run", is_flag=True, help="Only show what would run: cells, seeds, cuts, machines."
)
@click.option(
    "--brief", is_flag=True, help="With --dry-run: leave out the machines' command lines."
)
def run(
    scenarios: Sequence[str],
    presets: Sequence[str],
    qemus: Sequence[str],
    kernels: Sequence[str],
    json_file: Path | None,
    junit_file: Path | None,
    seed: int | None,
    only: Sequence[str],
    trials: int | None,
    results: Path,
    jobs: int,
    cluster: str | None,
    confidence: float | None,
    at_most: float | None,
    resume: Path | None,
    dry_run: bool,
    brief: bool,
) -> int:
    """Runs scenarios, by default first-light: records, cuts the power, recovers, judges."""
    said = (scenarios, presets, qemus, kernels, only, dry_run)
    _refuse(resume, said, (seed, trials, confidence, at_most), brief=brief and not dry_run)
    aim = confidence_aim(confidence, at_most, trials)
    console = console_beside(json_file)
    chosen = (
        []
        if resume is not None
        else at_versions(chosen_scenarios(scenarios, presets), qemus, kernels)
    )
    if dry_run:
        return _show_plan(chosen, _selection(only, trials, aim), seed, brief, json_file)
    from powercut.campaign.run import RunOptions
    from powercut.campaign.runner import resume_run, run_scenarios
    from powercut.cli.extras import runs_of
    from powercut.cli.interrupt import Resumable
    from powercut.report.terminal.progress import ProgressView
    from powercut.store.results import CampaignOutcome

    with (
        ProgressView(console) as view,
        Resumable("run", view).heard() as progress,
        runs_of(cluster) as run_of,
    ):
        if resume is not None:
            resumed = resume_run(resume, RunOptions(jobs, on_event=progress, run_of=run_of))
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
                run_of=run_of,
            )
    _publish(outcome, console, json_file, junit_file)
    return outcome.exit_status


def _publish(
    outcome: CampaignOutcome, console: Console, json_file: Path | None, junit_file: Path | None
) -> None:
    """Writes the reports beside each verdict and where they are wanted, and prints the tables."""
    from powercut.report.publish import write_reports
    from powercut.report.terminal.table import print_run

    for result in outcome.runs:
        write_reports(find_result(Path(result.result_directory)))
        print_run(console, result)
    write_json(outcome.model_dump_json(indent=1), json_file)
    tell_ci(outcome.runs, junit_file, quiet=json_file == Path("-"))


def _refuse(
    resume: Path | None, said: Sequence[object], numbers: Sequence[object], *, brief: bool
) -> None:
    if resume is not None and (any(said) or any(one is not None for one in numbers)):
        raise UsageError(
            "--resume takes its options from the interrupted run",
            hint="leave everything out that says what to run",
        )
    if brief:
        raise UsageError("--brief says nothing without --dry-run")


def _selection(only: Sequence[str], trials: int | None, aim: Aim | None) -> Selection:
    from powercut.campaign.selection import Selection

    return Selection(tuple(only), trials, aim)


def _show_plan(
    scenarios: Sequence[Scenario],
    selection: Selection,
    seed: int | None,
    brief: bool,
    json_file: Path | None,
) -> int:
    from powercut.campaign.selection import trials_of
    from powercut.report.terminal.table import print_plan
    from powercut.scenario.plan import fresh_seed

    describe = None
    if not brief:
        from powercut.rig.rig import describe_cell

        describe = describe_cell
    console, told = console_beside(json_file), []
    for scenario in scenarios:
        root = scenario.settings.seed if seed is None else seed
        root = fresh_seed() if root is None else root
        made = selection.plan(scenario, root)
        print_plan(console, made, trials_of(made), describe)
        cells = {
            cell.name: {
                "expected": cell.expect.value,
                "settings": {key: str(value) for key, value in cell.overrides},
                "seeds": [trial.seed for trial in cell.trials],
            }
            for cell in made.cells
        }
        told.append({"scenario": made.scenario, "seed": made.seed, "cells": cells})
    write_json_object("plans", {"plans": told}, json_file)
    return 0
