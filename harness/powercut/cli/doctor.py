# SPDX-License-Identifier: Apache-2.0
"""`powercut doctor`: what this host can do, and what powercut keeps and sets up on hosts."""

from __future__ import annotations

from pathlib import Path

import click

from powercut.cli.lazy_group import LazyGroup
from powercut.cli.options import json_option

OTHERS = {"cache": "powercut.cli.cache:cache"}


@click.group(
    cls=LazyGroup, table=OTHERS, extras="powercut.commands.doctor", invoke_without_command=True
)
@click.pass_context
@json_option("the findings")
@click.option(
    "--fresh", is_flag=True, help="Repeat the probes whose outcome is kept until this host reboots."
)
@click.option(
    "--patience",
    "patience_s",
    type=click.FloatRange(min=1),
    metavar="SECONDS",
    help="Give the probe guests of a slow host so long to boot; what they show is kept.",
)
@click.option(
    "--packages",
    is_flag=True,
    help="Only print the names of the Debian packages that powercut runs, for apt-get install.",
)
def doctor(
    context: click.Context,
    json_file: Path | None,
    fresh: bool,
    patience_s: float | None,
    packages: bool,
) -> int:
    """Says what this host can do, why not more, and what to do about it.

    With a command: keeps order on this host, or on the hosts of a cluster.
    """
    if context.invoked_subcommand is not None:
        return 0
    if packages:
        from powercut.doctor.packages import installable

        names, lacking = installable()
        click.echo(" ".join(names))
        if lacking:
            click.echo(f"not offered by apt here: {' '.join(lacking)}", err=True)
        return 0
    from powercut.doctor.answers import main as examine

    return examine(json_file, fresh=fresh, patience_s=patience_s)
