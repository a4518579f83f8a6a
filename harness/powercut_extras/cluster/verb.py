# SPDX-License-Identifier: Apache-2.0
"""`powercut doctor hosts`: powercut on the hosts of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from powercut.cli.output import TROUBLE, echo

if TYPE_CHECKING:
    from powercut_extras.cluster.hosts import HostReport

_HOSTS = click.argument("hosts", metavar="[USER@]HOST[:PORT]...", nargs=-1, required=True)


@click.group()
def hosts() -> None:
    """Installs powercut on the hosts of a cluster, by ssh, or asks what they lack.

    How ssh reaches a host is what ~/.ssh/config says; a host whose key is not known is refused.
    """


@hosts.command()
@_HOSTS
def check(hosts: Sequence[str]) -> int:
    """Asks the doctor of each host what it misses there.

    Exit status: 0 every host can take part; 3 one cannot.
    """
    from powercut_extras.cluster.hosts import check as look

    return _show(look(hosts))


@hosts.command()
@_HOSTS
@click.option("--python", default="python3", show_default=True, help="The Python of the hosts.")
def prepare(hosts: Sequence[str], python: str) -> int:
    """Has pip install this powercut in ~/.cache/powercut-cluster/venv of each host.

    Dask's workers run there: docs/many-hosts.md. Exit status: 0 every host is ready; 3 one is not.
    """
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from powercut.wheel import own_wheel
    from powercut_extras.cluster.hosts import prepare as install

    with TemporaryDirectory() as folder:
        return _show(install(hosts, own_wheel(Path(folder)), python))


def _show(reports: Sequence[HostReport]) -> int:
    for report in reports:
        for line in report.problems or ("ready",):
            echo(f"{report.name}: {line}")
    return TROUBLE if any(report.problems for report in reports) else 0
