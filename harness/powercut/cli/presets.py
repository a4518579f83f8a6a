# SPDX-License-Identifier: Apache-2.0
"""`powercut presets`: how real products treat a flush by default."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from powercut.cli.options import json_option
from powercut.cli.output import console_beside, write_json


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@json_option("the presets")
def presets(names: Sequence[str], json_file: Path | None) -> int:
    """Lists how real products treat a guest's flush by default, or explains some of them."""
    import json

    from powercut.report.terminal.presets import print_preset, print_presets
    from powercut.scenario.preset import all_presets, find_preset

    chosen = [find_preset(name.partition("/")[0]) for name in names] or list(all_presets())
    console = console_beside(json_file)
    if names:
        for number, preset in enumerate(chosen):
            if number:
                console.rule()
            print_preset(console, preset)
    else:
        print_presets(console, chosen)
    dumped = [preset.model_dump(mode="json", by_alias=True) for preset in chosen]
    write_json(json.dumps(dumped, indent=1, ensure_ascii=False), json_file)
    return 0
