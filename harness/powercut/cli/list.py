# SPDX-License-Identifier: Apache-2.0
"""`powercut scenarios`: those that are known by name."""

from __future__ import annotations

import click

from powercut.cli.output import echo


@click.command()
def scenarios() -> int:
    """Lists the scenarios that are known by name: your own in scenarios/, and those shipped."""
    from powercut.cli.scenarios import known_scenarios
    from powercut.scenario.load import load_scenario

    known = known_scenarios()
    width = max(map(len, known))
    for name, path in known.items():
        settings = load_scenario(path).settings
        campaign = " (campaign: minutes to hours)" if settings.campaign else ""
        echo(f"{name:<{width}}  {settings.description}{campaign}")
    return 0
