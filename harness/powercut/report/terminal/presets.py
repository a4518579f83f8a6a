# SPDX-License-Identifier: Apache-2.0
"""Presets for a person to read: all in a table, or one explained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from powercut.paths import command
from powercut.scenario.expand import label
from powercut.scenario.preset import REMEDY, FlushReaches, Preset, SourceStatus

_REACHES = {
    FlushReaches.STABLE_MEDIA: "yes",
    FlushReaches.DRIVE_CACHE: "drive cache only",
    FlushReaches.NOTHING: "no",
}


def print_presets(console: Console, presets: Sequence[Preset]) -> None:
    """A line for each."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("preset", no_wrap=True)
    table.add_column("product, as of", overflow="fold")
    table.add_column("flush reaches media", overflow="fold")
    table.add_column("expect", no_wrap=True)
    table.add_column("source", no_wrap=True)
    for preset in presets:
        table.add_row(
            preset.name,
            f"{preset.product} {preset.versions}",
            _REACHES[preset.flush_reaches],
            preset.expect.value.upper(),
            preset.status.value,
        )
    console.print(table)
    unconfirmed = sum(preset.status is SourceStatus.UNCONFIRMED for preset in presets)
    text = f"\n{len(presets)} presets, {unconfirmed} unconfirmed.  "
    console.print(Text(text + "`powercut list presets NAME` explains one."))


def print_preset(console: Console, preset: Preset) -> None:
    """All that is known of one."""
    console.print(Text.assemble((preset.name, "bold"), f"  {preset.product}, {preset.versions}"))
    console.print(Text(preset.title))
    console.print()
    _paragraph(console, "claim", preset.claim)
    _paragraph(console, "flush reaches", preset.flush_reaches.value)
    _paragraph(console, "expected", preset.expect.value.upper())
    _paragraph(console, "status", preset.status.value)
    if preset.open_question:
        _paragraph(console, "open question", preset.open_question)
    for source in preset.sources:
        text = f"{source.title}\n{source.where}\nread: {source.version}\n{source.says}"
        _paragraph(console, "source", text)
    _paragraph(console, "settings", _settings(preset.settings))
    if preset.stands_for:
        _paragraph(console, "stands for", preset.stands_for)
    names = preset.name
    if preset.remedy is not None:
        _paragraph(console, "remedy", f"{preset.remedy.does}\n{_settings(preset.remedy.settings)}")
        names = f"{preset.name}, {preset.name}/{REMEDY}"
    _paragraph(console, "in a scenario", f"preset: {names}")
    _paragraph(console, "to run it", f"{command()} run --preset {preset.name}")


def _paragraph(console: Console, head: str, text: str) -> None:
    console.print(Text(head, style="bold"))
    for line in text.split("\n"):
        console.print(Padding(Text(" ".join(line.split())), (0, 0, 0, 2), expand=False))


def _settings(settings: Mapping[str, Any]) -> str:
    return "\n".join(
        f"{key}: {label(value) if isinstance(value, bool) else value}"
        for key, value in settings.items()
    )
