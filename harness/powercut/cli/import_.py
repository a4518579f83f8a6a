# SPDX-License-Identifier: Apache-2.0
"""`powercut import`: a recording of a dm-log-writes or blklogwrites log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from powercut.cli.imported import analyze_import
from powercut.cli.options import FILE
from powercut.model.contract import ATOMIC_UNIT
from powercut.model.errors import UsageError

if TYPE_CHECKING:
    from powercut.recording.imports import LogLayout


@click.command("import")
@click.argument("log", type=FILE)
@click.option("--base", type=FILE, required=True, help="The disk as it was before logging began.")
@click.option("-o", "--output", type=FILE, required=True, help="The recording; a new folder.")
@click.option(
    "--dialect",
    type=click.Choice(["auto", "kernel", "qemu"]),
    default="auto",
    help="Writer of the log: the kernel's dm-log-writes or QEMU's blklogwrites.",
)
@click.option(
    "--atomic-unit",
    type=click.IntRange(1, 1 << 20),
    default=ATOMIC_UNIT,
    show_default=True,
    help="Bytes that the disk is trusted not to tear; the log does not say.",
)
@click.option("--salvage", is_flag=True, help="Take what stands before the damage in the log.")
@click.option("--closed", is_flag=True, help="QEMU was shut down cleanly (qemu only).")
@click.option("--no-fua", is_flag=True, help="The guest's disk never got FUA (qemu only).")
@click.option("--run-id", help="Run id of the WAL workload: 32 hexadecimal digits.")
@click.option(
    "--layout", help="Layout of its log: append, prealloc, prewritten, recycled, segments, raw."
)
@click.option("--record", type=int, default=512, show_default=True, help="Bytes of a record.")
@click.option(
    "--align", type=int, default=0, show_default=True, help="Alignment of records, in bytes."
)
@click.option("--capacity", type=int, default=0, show_default=True, help="Bytes of the log.")
@click.option("--segment", type=int, default=0, show_default=True, help="Bytes of a segment.")
@click.option("--offset", type=int, default=0, help="Where a raw log begins on the disk.")
@click.option("--path", "inside", default="log", help="Path of the log in its file system.")
def import_(
    log: Path,
    base: Path,
    output: Path,
    dialect: str,
    atomic_unit: int,
    salvage: bool,
    closed: bool,
    no_fua: bool,
    run_id: str | None,
    layout: str | None,
    **sizes: int | str,
) -> int:
    """Makes a recording of a dm-log-writes or blklogwrites log.

    Without --run-id and --layout only the requests are known: states can be materialised,
    and nothing can be judged.
    """
    from powercut.disk.logwrites.logs import Dialect
    from powercut.recording.imports import import_recording

    made = import_recording(
        log,
        base=base,
        output=output,
        dialect=Dialect(dialect),
        layout=_layout(run_id, layout, sizes),
        atomic_unit=atomic_unit,
        salvage=salvage,
        closed=closed,
        no_fua=no_fua,
    )
    return analyze_import(made.path, judge=layout is not None)


def _layout(
    run_id: str | None, layout: str | None, sizes: dict[str, int | str]
) -> LogLayout | None:
    from powercut.recording.imports import LogLayout

    if run_id is None and layout is None:
        return None
    if run_id is None or layout is None:
        raise UsageError(
            "--run-id and --layout go together",
            hint="give both, or neither if the log was not written by the WAL workload",
        )
    return LogLayout.model_validate(
        {"run_id": run_id, "layout": layout, "path": sizes.pop("inside"), **sizes}
    )
