# SPDX-License-Identifier: Apache-2.0
"""`powercut probe`: is a sync here as slow as it must be?"""

from __future__ import annotations

from pathlib import Path

import click

from powercut.cli.options import FILE, json_option
from powercut.model.errors import UsageError

_MEDIA = (
    "hdd-5400",
    "hdd-7200",
    "hdd-10k",
    "hdd-15k",
    "hdd",
    "sata-ssd",
    "nvme",
    "unknown",
)
_YES_NO = click.Choice(["yes", "no"])
_EPILOG = (
    "Exit status: 0 nothing suspicious; 1 too good to be true; 2 a mistake on the command "
    "line; 3 cannot tell."
)


@click.command(epilog=_EPILOG)
@click.argument("path", type=FILE)
@click.option(
    "--write-size", "size", default="4KiB", show_default=True, help="Bytes of each write."
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, 3600),
    default=10.0,
    show_default=True,
    help="How long to measure, all ways of writing together.",
)
@click.option(
    "--medium",
    type=click.Choice(_MEDIA),
    help="What keeps the bytes, where you know better than the kernel.",
)
@click.option("--plp", type=_YES_NO, help="Whether its cache survives a power loss.")
@click.option("--write-cache", type=_YES_NO, help="Whether it has a volatile cache.")
@click.option("--destructive", is_flag=True, help="PATH may be a block device: it is overwritten.")
@json_option("the figures")
def probe(
    path: Path,
    size: str,
    seconds: float,
    medium: str | None,
    plp: str | None,
    write_cache: str | None,
    destructive: bool,
    json_file: Path | None,
) -> int:
    """Measures how often a sync returns in PATH, and whether that can be true.

    PATH is a folder, which is left as it was.  Needs no root, and runs on hosts and in
    guests.  A probe is suspicion; only a cut is proof.
    """
    from powercut.scenario.quantity import parse_size
    from powercut_extras.probe.judge import Kind
    from powercut_extras.probe.probe import Request, run

    try:
        size_bytes = parse_size(size)
    except ValueError as error:
        raise UsageError(f"--size {size}: {error}") from error
    told = {"yes": True, "no": False, None: None}
    request = Request(
        path=path,
        size=size_bytes,
        seconds=seconds,
        kind=None if medium is None else Kind(medium),
        plp=told[plp],
        write_cache=told[write_cache],
        destructive=destructive,
    )
    return run(request, json_file)
