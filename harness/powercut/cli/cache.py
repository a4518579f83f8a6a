# SPDX-License-Identifier: Apache-2.0
"""`powercut cache`: the root file systems that are kept, and how to drop them."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import click

from powercut.cli.output import echo

_MIB = 1 << 20


@click.command()
@click.option(
    "--drop-roots",
    "unused_for",
    metavar="DURATION",
    help="Drop the root file systems that were not used for so long (24h; 0s for all). Not while a "
    "run needs them.",
)
def cache(unused_for: str | None) -> int:
    """Lists the cached root file systems of programs, or removes them.

    They are made from packages or from what `workload.root` names, and made again when a scenario
    names them. powercut drops those unused for the longest time once they take more than 4 GiB
    together. The packages stay: they are the versions that a scenario has run with.
    """
    from powercut.disk.root_cache import cached_roots, drop, packages_size
    from powercut.model.errors import UsageError
    from powercut.paths import CACHE
    from powercut.scenario.quantity import parse_duration

    folder = CACHE / "roots"
    limit_s = None
    if unused_for is not None:
        try:
            limit_s = parse_duration(unused_for) / 1e9
        except ValueError as error:
            raise UsageError(f"--drop-roots: {error}") from None
    now, kept, freed = time.time(), 0, 0
    echo(f"{folder}")
    for one in cached_roots(folder):
        gone = limit_s is not None and now - one.used_s >= limit_s
        if gone:
            drop(one.path)
        used = datetime.fromtimestamp(one.used_s, UTC).strftime("%Y-%m-%d %H:%M")
        what = "image" if one.path.suffix else "folder"
        end = "  dropped" if gone else ""
        echo(f"  {one.size / _MIB:8,.1f} MiB  used {used} UTC  {what} {one.path.stem[:12]}{end}")
        kept, freed = kept + (not gone) * one.size, freed + gone * one.size
    echo(f"  {packages_size(folder) / _MIB:8,.1f} MiB  packages (delete a suite for newer ones)")
    said = f"; dropped: {freed / _MIB:,.1f} MiB" if limit_s is not None else ""
    echo(f"kept: {kept / _MIB:,.1f} MiB of root file systems{said}")
    return 0
