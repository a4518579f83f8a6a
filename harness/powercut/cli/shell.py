# SPDX-License-Identifier: Apache-2.0
"""`powercut shell`: a crash state mounted, and a prompt: of a program among the files that it ran
on, else on the console of a guest."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from powercut.cli.options import STATE_EPILOG, recording_argument, state_argument
from powercut.cli.output import echo
from powercut.cli.works_on import require_works_on
from powercut.model.errors import UsageError


@click.command(epilog=STATE_EPILOG)
@recording_argument
@state_argument(required=True)
@click.option(
    "--no-terminal",
    is_flag=True,
    help="Take commands from a pipe or a file; the guest ends with them.",
)
def shell(recording: Path, state: str, no_terminal: bool) -> int:
    """Mounts a crash state and gives a prompt in it: in a guest with busybox, or, of a program,
    in User-Mode Linux among the files that it ran on, with the program and its tools at hand; of a
    captured folder on this host, where the state lies over the folder.
    """
    if not no_terminal and not sys.stdin.isatty():
        raise UsageError(
            "standard input is no terminal",
            hint="--no-terminal takes commands from it all the same",
        )
    require_works_on("shell", recording)
    from powercut.recording import program_shell
    from powercut.recording.folder import FolderRecording
    from powercut.recording.open_recording import open_recording
    from powercut.recording.shell import LEAVE, open_shell
    from powercut.recording.state_names import resolve_state, state_text
    from powercut.scenario.program_text import title_of

    opened = open_recording(recording, state=state)
    chosen = resolve_state(opened, state)
    title = title_of(opened.record.command) if isinstance(opened, FolderRecording) else opened.title
    echo(f"{title}: {state_text(opened, chosen)}", err=True)
    if isinstance(opened, FolderRecording):
        from powercut.campaign.folder import enter_state

        echo(
            f"{opened.record.folder} is the crash state, and gone at the end; all else is this "
            "host. `exit` leaves",
            err=True,
        )
        status = enter_state(opened, chosen, sys.stdin.read() if no_terminal else None)
    elif program_shell.root_for_shell(opened) is not None:
        commands = sys.stdin.read() if no_terminal else None
        failure = program_shell.open_program_shell(opened, chosen, commands=commands)
        if failure:
            echo(f"THE STATE DOES NOT MOUNT: {failure}", err=True)
        status = 3 if failure else 0
    else:
        echo(f"booting; {LEAVE}", err=True)
        status = open_shell(opened, chosen)
    return 0 if status == 0 else 3
