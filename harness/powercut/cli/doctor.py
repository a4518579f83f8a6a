# SPDX-License-Identifier: Apache-2.0
"""`powercut doctor`: what this host can do, and what powercut keeps and sets up on hosts."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from powercut.cli.lazy_group import LazyGroup
from powercut.cli.options import json_option
from powercut.console import PlainConsole
from powercut.doctor.host import Probe, can_run, examine
from powercut.model.errors import HostError
from powercut.store.files import write_output

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
    help="Boot timeout of the probe guests; their results are cached.",
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
    from powercut.cli.doctor import main as examine

    return examine(json_file, fresh=fresh, patience_s=patience_s)


# The doctor's answers for people and for programs.


def table(probes: Iterable[Probe]) -> Table:
    """The answers for a terminal: what is there, what is missing and how to mend it."""
    result = Table(show_edge=False, pad_edge=False)
    result.add_column("")
    result.add_column("what", no_wrap=True)
    result.add_column("found; why not more; what to do", overflow="fold")
    for probe in probes:
        if probe.ok:
            mark = Text("ok", style="green")
        elif probe.needed:
            mark = Text("MISSING", style="bold red")
        else:
            mark = Text("without", style="yellow")
        lines = [probe.found, probe.limit, f"remedy: {probe.remedy}" if probe.remedy else ""]
        result.add_row(mark, Text(probe.name), Text("\n".join(line for line in lines if line)))
    return result


def main(
    json_file: Path | None = None, *, fresh: bool = False, patience_s: float | None = None
) -> int:
    """Examines this host and shows the answers.

    A probe guest gets `patience_s` to boot.  `json_file` gets the answers for programs (`-`:
    stdout, and the table goes to stderr).
    Returns 0 if scenarios can run here, else HostError's status.
    """
    to_stdout = json_file == Path("-")
    probes = examine(fresh=fresh, patience_s=patience_s)
    PlainConsole(stderr=to_stdout).print(table(probes))
    if json_file is not None:
        told = {"format": "powercut-doctor/1", "probes": [asdict(probe) for probe in probes]}
        text = json.dumps(told, indent=1) + "\n"
        if to_stdout:
            sys.stdout.write(text)
        else:
            write_output(json_file, text.encode())
    return 0 if can_run(probes) else HostError.exit_status
