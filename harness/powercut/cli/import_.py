# SPDX-License-Identifier: Apache-2.0
"""`powercut import`: recordings made elsewhere: a bundle, or another tool's log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from powercut.cli.folder_states import refuse_others
from powercut.cli.imported import analyze_import
from powercut.cli.lookup import is_bundle
from powercut.cli.options import FILE, json_option
from powercut.cli.output import Speaker, write_json_object
from powercut.model.contract import ATOMIC_UNIT
from powercut.model.errors import UsageError

if TYPE_CHECKING:
    from powercut.recording.imports import LogLayout


@click.command("import")
@click.argument("source", type=FILE)
@click.option("-o", "--output", type=FILE, help="The recording; a new folder.")
@click.option("--base", type=FILE, help="Of a log: the disk as it was before logging began.")
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
@json_option("what was read")
def import_(
    source: Path,
    output: Path | None,
    base: Path | None,
    dialect: str,
    atomic_unit: int,
    salvage: bool,
    closed: bool,
    no_fua: bool,
    run_id: str | None,
    layout: str | None,
    json_file: Path | None,
    **sizes: int | str,
) -> int:
    """Unpacks a bundle, or reads a dm-log-writes or blklogwrites log.

    SOURCE is a bundle, or a log with --base.

    Of a log without --run-id and --layout only the requests are known: its states can be
    exported, and nothing can be judged.

    Exit status: 0 all is there; 3 it is not whole, or not what it was. Of a log that is judged: 0
    SAFE, 1 LOSSY, 3 INCONCLUSIVE.
    """
    if output is None:
        raise UsageError("-o is missing", hint="name a new folder for the recording")
    if is_bundle(source):
        refuse_others(("output", "json_file"), "a bundle", hint="leave it out")
        return _unpack(source, output, json_file)
    if base is None:
        raise UsageError(
            f"{source}: is no bundle; a log needs its base image",
            hint="--base IMAGE: the disk as it was before logging began",
        )
    from powercut.disk.logwrites.logs import Dialect
    from powercut.recording.imports import import_recording

    made = import_recording(
        source,
        base=base,
        output=output,
        dialect=Dialect(dialect),
        layout=_layout(run_id, layout, sizes),
        atomic_unit=atomic_unit,
        salvage=salvage,
        closed=closed,
        no_fua=no_fua,
    )
    return analyze_import(made.path, judge=layout is not None, json_file=json_file)


def _unpack(bundle: Path, output: Path, json_file: Path | None) -> int:
    from powercut.campaign.bundle import unpack

    made = unpack(bundle, output)
    if made.kind == "capture":
        recording, said = output, made.cell
    else:
        recording = output / made.recording
        said = f"{made.scenario}, {made.cell}, trial {made.trial}"
    Speaker(json_file)(f"{recording}: {said}")
    write_json_object("import", {"source": "bundle", "recording": str(recording)}, json_file)
    return 0


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
