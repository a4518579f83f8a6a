# SPDX-License-Identifier: Apache-2.0
"""`powercut shell`: a guest with a crash state mounted, and a prompt on its console."""

from __future__ import annotations

from pathlib import Path

import click

from powercut.cli.options import STATE_EPILOG, recording_argument
from powercut.cli.output import echo


@click.command(epilog=STATE_EPILOG)
@recording_argument
@click.argument("state")
def shell(recording: Path, state: str) -> int:
    """Boots a guest with a crash state mounted, and a prompt on its console."""
    from powercut.recording.materialize import open_recording, resolve_state, state_text
    from powercut.recording.shell import LEAVE, open_shell

    opened = open_recording(recording)
    chosen = resolve_state(opened, state)
    echo(f"{opened.title}: {state_text(opened, chosen)}\nbooting; {LEAVE}", err=True)
    status = open_shell(opened, chosen)
    return 0 if status == 0 else 3
