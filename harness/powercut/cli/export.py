# SPDX-License-Identifier: Apache-2.0
"""`powercut export`: a recording as a log for replay-log and its like."""

from __future__ import annotations

from pathlib import Path

import click

from powercut.cli.options import OUTPUT, RECORDING_HELP, recording_argument
from powercut.cli.output import echo
from powercut.model.errors import UsageError


@click.command(epilog=RECORDING_HELP)
@recording_argument
@click.option(
    "--format",
    "log_format",
    type=click.Choice(["dm-log-writes"]),
    default="dm-log-writes",
    help="The format of the log.",
)
@click.option("-o", "--output", type=OUTPUT, required=True, help="The log to write; a new file.")
@click.option(
    "--sector", type=click.Choice(["512", "4096"]), default="512", help="Bytes of its sectors."
)
@click.option(
    "--as-seen", is_flag=True, help="Of a lying disk: as the stack above believed it to be."
)
def export(recording: Path, log_format: str, output: Path, sector: str, as_seen: bool) -> int:
    """Writes a recording as a log for replay-log and its like.

    A flush that the disk ignored becomes a mark, so that a replay up to any place holds
    what the disk had kept by then.
    """
    from powercut.disk.logwrites.logs import export_log
    from powercut.recording.imports import as_kept
    from powercut.recording.materialize import open_recording

    opened = open_recording(recording)
    if opened.imported:
        raise UsageError(
            f"{recording}: was imported: its log is there already", hint=f"see {recording}/log.dmlw"
        )
    if opened.timeline.disks:
        raise UsageError(
            f"{recording}: is of several disks, and such a log has no flush of one of them",
            hint="`powercut materialize` writes crash states",
        )
    timeline = opened.timeline if as_seen else as_kept(opened.timeline)
    made = export_log(timeline, opened.history, output, sector_size=int(sector))
    echo(
        f"{output}: {log_format}, {made.entries} entries, {made.flushes} flushes, "
        f"{made.marks} marks, {made.size} bytes"
    )
    if made.left_out:
        echo(f"left out: {made.left_out} writes that never completed, or failed")
    if not opened.timeline.contract.honest:
        told = "as the stack above it believed it" if as_seen else "without what it ignored"
        echo(f"the disk lied: this log is {told}")
    echo(f"base image: {opened.base}")
    return 0
