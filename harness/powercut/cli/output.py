# SPDX-License-Identifier: Apache-2.0
"""What all commands share of their output: a console, JSON, exit statuses."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from powercut.model.printable import printable

if TYPE_CHECKING:
    from rich.console import Console

INTERRUPTED = 130
TROUBLE = 3


def console_beside(json_file: Path | None = None) -> Console:
    """A console for a person; with the JSON on stdout, everything for a person goes to stderr."""
    from powercut.console import PlainConsole

    return PlainConsole(stderr=json_file == Path("-"))


def echo(text: str, *, err: bool = False) -> None:
    """Prints a line for a person; whatever a stranger wrote in it is shown and not obeyed."""
    click.echo(printable(text), err=err)


def write_json(text: str, target: Path | None) -> None:
    """Writes `text` to a file, or to stdout for `-`; not at all for None."""
    from powercut.store.files import write_output

    if target is None:
        return
    if target == Path("-"):
        click.echo(text + "\n", nl=False)
    else:
        write_output(target, f"{text}\n".encode())


def write_json_object(kind: str, value: Mapping[str, Any], target: Path | None) -> None:
    """What has no file format of its own: an object whose `format` names its kind, as all have."""
    import json

    told = {"format": f"powercut-{kind}/1", **value}
    write_json(json.dumps(told, indent=1, ensure_ascii=False), target)


class Speaker:
    """Prints lines for a person; to stderr while the JSON goes to stdout."""

    def __init__(self, json_file: Path | None) -> None:
        self._err = json_file == Path("-")

    def __call__(self, text: str) -> None:
        echo(text, err=self._err)

    def gaps(self, gaps: tuple[str, ...]) -> None:
        for gap in gaps:
            self(f"  not known: {gap}")
