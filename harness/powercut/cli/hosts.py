# SPDX-License-Identifier: Apache-2.0
"""`powercut doctor hosts`: what hosts can do; makes them ready, starts a cluster and ends it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from powercut.cli.options import FILE
from powercut.cli.output import TROUBLE, console_beside, echo

if TYPE_CHECKING:
    from powercut.cluster.facts import HostReport

_SHOWN = 12


@click.group()
def hosts() -> None:
    """Examines hosts, makes them ready, starts a cluster on them, or removes powercut from them.

    HOSTS is a hosts file: which hosts there are, and how ssh reaches each.
    """


@hosts.command()
@click.argument("hosts_file", metavar="HOSTS", type=FILE)
def check(hosts_file: Path) -> int:
    """Asks each host what it is, and what powercut's doctor misses there; changes nothing.

    Exit status: 0 every host can take part; 3 one cannot.
    """
    from powercut.cluster.facts import examine
    from powercut.cluster.hosts_file import read_hosts

    return _show(examine(read_hosts(hosts_file)), prepared=False)


@hosts.command()
@click.argument("hosts_file", metavar="HOSTS", type=FILE)
@click.option("--install", is_flag=True, help="Install the Debian packages that a host lacks.")
def prepare(hosts_file: Path, install: bool) -> int:
    """Brings this powercut, all that it imports and its guest to each host.

    What is there already stays. Exit status: 0 every host is ready; 3 one is not.
    """
    from powercut.cluster.hosts_file import read_hosts
    from powercut.cluster.provision import prepare as make_ready
    from powercut.cluster.wheels import make_wheels

    return _show(make_ready(read_hosts(hosts_file), make_wheels(), install=install), prepared=True)


@hosts.command()
@click.argument("hosts_file", metavar="HOSTS", type=FILE)
@click.confirmation_option(
    prompt="Recordings that were not fetched are removed, too. Go on?",
    help="Do not ask.",
)
def clean(hosts_file: Path) -> int:
    """Removes powercut and its recordings from each host.

    Exit status: 0 nothing is left on any; 3 one could not be cleaned.
    """
    from powercut.cluster.hosts_file import read_hosts
    from powercut.cluster.provision import clean as remove

    reports = remove(read_hosts(hosts_file))
    for report in reports:
        echo(f"{report.name}: {report.problem or 'removed'}")
    return TROUBLE if any(report.problem for report in reports) else 0


@hosts.command()
@click.argument("hosts_file", metavar="HOSTS", type=FILE)
def up(hosts_file: Path) -> None:
    """Makes the hosts ready and starts a Dask cluster on them, until `hosts down` or Ctrl-C.

    What reaches it is in HOSTS.cluster: `powercut run --cluster HOSTS.cluster`.
    """
    from powercut.cluster.up import stay_up
    from powercut.model.events import Notice, RunEvent

    def tell(event: RunEvent) -> None:
        if isinstance(event, Notice):
            echo(event.text)

    stay_up(hosts_file, tell)


@hosts.command()
@click.argument("hosts_file", metavar="HOSTS", type=FILE)
def down(hosts_file: Path) -> None:
    """Ends the cluster that `hosts up` has started; recordings stay on their hosts."""
    from powercut.cluster.up import take_down

    take_down(hosts_file)


def _show(reports: Sequence[HostReport], *, prepared: bool) -> int:
    """A table, then what is wrong; hosts that are alike in nothing but their name in one line."""
    from rich.table import Table

    table = Table("host", "system", "processor", "Python", "free", "powercut")
    for report in reports:
        facts = report.facts
        if facts is None:
            table.add_row(report.name, *("?",) * 5)
            continue
        table.add_row(
            report.name,
            f"{facts.system}, {facts.kernel}, {facts.machine}",
            f"{facts.processors} × {facts.processor or 'unknown'}",
            facts.python or "none",
            f"{facts.free / 2**30:.1f} GiB",
            facts.version[:_SHOWN] or "not prepared",
        )
    console_beside().print(table)
    for report in reports:
        if report.problem:
            echo(f"{report.name}: {report.problem}")
        for line in report.lacks:
            echo(f"{report.name}: {line}")
        if report.hint:
            echo(f"  hint: {report.hint}")
    bad = sum(1 for report in reports if report.problem or report.lacks)
    if bad:
        echo(f"{bad} of {len(reports)} hosts cannot take part")
        return TROUBLE
    unready = sum(1 for r in reports if r.facts is not None and not r.facts.version)
    if unready and not prepared:
        echo(f"{unready} of {len(reports)} hosts are not prepared: powercut doctor hosts prepare")
    return 0
