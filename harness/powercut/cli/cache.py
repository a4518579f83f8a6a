# SPDX-License-Identifier: Apache-2.0
"""`powercut doctor cache`: the root file systems that are kept, and how to drop them."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import click

from powercut.cli.options import json_option
from powercut.cli.output import Speaker, write_json_object

_MIB = 1 << 20


@click.command()
@click.option(
    "--drop-roots",
    "unused_for",
    metavar="DURATION",
    help="Drop the root file systems that were not used for so long (24h; 0s for all). Not while a "
    "run needs them.",
)
@json_option("what is kept")
def cache(unused_for: str | None, json_file: Path | None) -> int:
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
    say, rows = Speaker(json_file), []
    now, kept, freed = time.time(), 0, 0
    say(f"{folder}")
    for one in cached_roots(folder):
        gone = limit_s is not None and now - one.used_s >= limit_s
        if gone:
            drop(one.path)
        used = datetime.fromtimestamp(one.used_s, UTC).strftime("%Y-%m-%d %H:%M")
        what = "image" if one.path.suffix else "folder"
        end = "  dropped" if gone else ""
        say(f"  {one.size / _MIB:8,.1f} MiB  used {used} UTC  {what} {one.path.stem[:12]}{end}")
        rows.append({"path": str(one.path), "size": one.size, "used": used, "dropped": gone})
        kept, freed = kept + (not gone) * one.size, freed + gone * one.size
    say(f"  {packages_size(folder) / _MIB:8,.1f} MiB  packages (delete a suite for newer ones)")
    said = f"; dropped: {freed / _MIB:,.1f} MiB" if limit_s is not None else ""
    say(f"kept: {kept / _MIB:,.1f} MiB of root file systems{said}")
    write_json_object("cache", {"folder": str(folder), "roots": rows}, json_file)
    return 0
