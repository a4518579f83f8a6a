# SPDX-License-Identifier: Apache-2.0
"""`powercut materialize`: writes the disk that a crash state is, as an image file."""

from __future__ import annotations

from pathlib import Path

import click

from powercut.cli.folder_states import materialize_capture
from powercut.cli.lookup import is_capture
from powercut.cli.options import FILE, STATE_EPILOG, force_option, recording_argument
from powercut.cli.output import echo, echo_gaps


@click.command(epilog=STATE_EPILOG)
@recording_argument
@click.argument("state")
@click.option(
    "-o", "--output", type=FILE, required=True, help="The image, or the folder, to write."
)
@force_option
def materialize(recording: Path, state: str, output: Path, force: bool) -> int:
    """Writes the disk of a crash state to an image file; of a captured folder, to a new folder."""
    if is_capture(recording):
        return materialize_capture(recording, state, output)
    from powercut.recording import materialize as run

    opened = run.open_recording(recording)
    chosen = run.resolve_state(opened, state)
    made = run.materialize(opened, chosen, output, force=force)
    echo(f"{opened.title}\n{run.state_text(opened, chosen)}")
    echo_gaps(opened.gaps)
    echo(f"{made.path}: {made.size} bytes, SHA-256 {made.sha256}")
    return 0
