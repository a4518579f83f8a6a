# SPDX-License-Identifier: Apache-2.0
"""`powercut presets`, and how other commands name presets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

OPTION = click.option(
    "--preset",
    "presets",
    multiple=True,
    metavar="NAME",
    help="A product's default, and its remedy; `powercut presets` lists them.  May be repeated.",
)
"""Decorator for the commands that take presets; the argument is `presets`."""


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path),
    help="Write the presets here; - for stdout.",
)
def presets(names: Sequence[str], json_file: Path | None) -> int:
    """Lists how real products treat a guest's flush by default, or explains some of them."""
    from rich.console import Console

    from powercut.report.terminal.presets import print_preset, print_presets
    from powercut.scenario.preset import all_presets, find_preset

    found = [find_preset(name.partition("/")[0]) for name in names] or list(all_presets())
    console = Console(stderr=json_file == Path("-"))
    if names:
        for number, preset in enumerate(found):
            if number:
                console.rule()
            print_preset(console, preset)
    else:
        print_presets(console, found)
    if json_file is not None:
        _write_json([preset.model_dump(mode="json", by_alias=True) for preset in found], json_file)
    return 0


def _write_json(found: Sequence[object], target: Path) -> None:
    import json

    from powercut.store.files import write_atomic

    text = json.dumps(list(found), indent=1, ensure_ascii=False) + "\n"
    if target == Path("-"):
        click.echo(text, nl=False)
    else:
        write_atomic(target, text.encode())
