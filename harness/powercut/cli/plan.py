# SPDX-License-Identifier: Apache-2.0
"""`powercut plan`: what a run would do, without doing it."""

from __future__ import annotations

from collections.abc import Sequence

import click

from powercut.cli.options import (
    SCENARIO_HELP,
    at_most_option,
    confidence_aim,
    confidence_option,
    only_option,
    preset_option,
    scenarios_argument,
    seed_option,
    trials_option,
    version_options,
)
from powercut.cli.output import console_beside
from powercut.cli.scenarios import at_versions, chosen_scenarios


@click.command(epilog=SCENARIO_HELP)
@scenarios_argument
@preset_option
@version_options
@seed_option
@only_option
@trials_option
@confidence_option
@at_most_option
@click.option("--brief", is_flag=True, help="Leave the command lines of the machines out.")
def plan(
    scenarios: Sequence[str],
    presets: Sequence[str],
    qemus: Sequence[str],
    kernels: Sequence[str],
    seed: int | None,
    only: Sequence[str],
    trials: int | None,
    confidence: float | None,
    at_most: float | None,
    brief: bool,
) -> int:
    """Shows what a run would do, without doing it: cells, seeds, cuts, machines."""
    from powercut.campaign.resume import Selection
    from powercut.campaign.run import trials_of
    from powercut.report.terminal.plan import print_plan
    from powercut.scenario.seeds import fresh_seed

    describe = None
    if not brief:
        from powercut.rig.plan import describe_cell

        describe = describe_cell
    aim = confidence_aim(confidence, at_most, trials)
    console = console_beside()
    for scenario in at_versions(chosen_scenarios(scenarios, presets), qemus, kernels):
        root = scenario.settings.seed if seed is None else seed
        root = fresh_seed() if root is None else root
        made = Selection(tuple(only), trials, aim).plan(scenario, root)
        print_plan(console, made, trials_of(made), describe)
    return 0
