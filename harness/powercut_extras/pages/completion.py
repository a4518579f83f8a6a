# SPDX-License-Identifier: Apache-2.0
"""`powercut completion`: what a shell needs to complete commands and options."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from powercut.cli.commands import cli
from powercut.cli.output import echo

SHELLS = ("bash", "fish", "zsh")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS), required=False)
def completion(shell: str | None) -> int:
    """Prints a script that completes commands and options, for a shell to read.

    \b
    eval "$(powercut completion bash)"    in ~/.bashrc
    eval "$(powercut completion zsh)"     in ~/.zshrc
    powercut completion fish | source     in ~/.config/fish/config.fish

    SHELL is that of $SHELL if it is not given.
    """
    shell = shell or Path(os.environ.get("SHELL", "")).name
    known = get_completion_class(shell)
    if shell not in SHELLS or known is None:
        raise click.UsageError(f"name the shell: {', '.join(SHELLS)}")
    echo(known(cli, {}, "powercut", "_POWERCUT_COMPLETE").source())
    return 0
