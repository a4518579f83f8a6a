# SPDX-License-Identifier: Apache-2.0
"""`powercut audit cost`: what commits send and what they cost, measured without a cut."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from powercut.cli.options import (
    json_option,
    only_option,
    preset_option,
    results_option,
    scenarios_argument,
    seed_option,
)
from powercut.cli.output import console_beside, write_json_object
from powercut.cli.scenarios import chosen_scenarios

DISKS = ("none", "nvme-plp", "sata-ssd-plp", "nvme", "sata-ssd", "hdd-7200")


@click.command()
@scenarios_argument
@preset_option
@click.option(
    "--disk",
    "disks",
    multiple=True,
    type=click.Choice(DISKS),
    help="A kind of disk to measure the cost on; may be repeated.  By default all.",
)
@click.option(
    "--commits",
    type=click.IntRange(10, 100_000),
    default=200,
    show_default=True,
    help="Commits to measure; fewer on slow disks.",
)
@seed_option
@only_option
@json_option("the figures")
@results_option
def cost(
    scenarios: Sequence[str],
    presets: Sequence[str],
    disks: Sequence[str],
    commits: int,
    seed: int | None,
    only: Sequence[str],
    json_file: Path | None,
    results: Path,
) -> int:
    """Measures scenarios, by default first-light: what their commits send, and what it costs.

    Nothing is cut and nothing is judged.  Each layer is asked what it has seen of the same
    commits, and the first that holds a flush back is named.  Exit status 3 if something could
    not be measured.
    """
    from powercut.scenario.choices import DiskModel
    from powercut_extras.certify.measure.cells import measure_scenarios
    from powercut_extras.certify.terminal_measurement import print_measurements

    console = console_beside(json_file)
    models = [DiskModel(disk) for disk in disks] or list(DiskModel)
    with console.status("measuring ...") as status:
        runs = measure_scenarios(
            chosen_scenarios(scenarios, presets),
            models=models,
            commits=commits,
            seed=seed,
            only=only,
            results=results,
            on_cell=lambda name: status.update(f"measuring {name} ..."),
        )
    for run in runs:
        print_measurements(console, run.measurements)
        console.print(f"\nevidence: {run.directory}", soft_wrap=True, highlight=False)
    measurements = [measurement for run in runs for measurement in run.measurements]
    told = [measurement.model_dump(mode="json") for measurement in measurements]
    write_json_object("costs", {"costs": told}, json_file)
    return 3 if any(measurement.trouble for measurement in measurements) else 0
