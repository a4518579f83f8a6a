# SPDX-License-Identifier: Apache-2.0
"""`powercut cost`: what commits send and what they cost, measured without a cut.

Like powercut.cli.main it parses, calls and prints; whatever takes time to import is imported by
the command.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from powercut.cli import presets as cli_presets
from powercut.paths import RESULTS

if TYPE_CHECKING:
    from powercut.store.measurement import Measurement

FILE = click.Path(path_type=Path)
DISKS = ("none", "nvme-plp", "sata-ssd-plp", "nvme", "sata-ssd", "hdd-7200")


@click.command()
@click.argument("scenarios", nargs=-1, metavar="[SCENARIO]...")
@cli_presets.OPTION
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
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Root of every random choice.")
@click.option("--only", multiple=True, metavar="CELL", help="Only this cell; may be a glob.")
@click.option("--json", "json_file", type=FILE, help="Write the figures here; - for stdout.")
@click.option("--results", type=FILE, default=RESULTS, help="Where the evidence is kept.")
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
    from rich.console import Console

    from powercut.cli.main import find_scenarios
    from powercut.measure.cells import measure_scenarios
    from powercut.report.terminal.measurement import print_measurements
    from powercut.scenario.choices import DiskModel
    from powercut.scenario.load import load_scenario, preset_scenario

    paths = find_scenarios(scenarios) if scenarios or not presets else []
    chosen = [load_scenario(path) for path in paths]
    chosen += [preset_scenario(presets)] if presets else []
    console = Console(stderr=json_file == Path("-"))
    models = [DiskModel(disk) for disk in disks] or list(DiskModel)
    with console.status("measuring ...") as status:
        runs = measure_scenarios(
            chosen,
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
    found = [measurement for run in runs for measurement in run.measurements]
    _write_json(found, json_file)
    return 3 if any(measurement.trouble for measurement in found) else 0


def _write_json(measurements: Sequence[Measurement], target: Path | None) -> None:
    from powercut.store.files import write_atomic

    if target is None:
        return
    text = "[" + ",\n".join(m.model_dump_json(indent=1) for m in measurements) + "]\n"
    if target == Path("-"):
        click.echo(text, nl=False)
    else:
        write_atomic(target, text.encode())
