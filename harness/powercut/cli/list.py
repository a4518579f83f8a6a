# SPDX-License-Identifier: Apache-2.0
"""`powercut list`: scenarios and presets, by name.

To check a scenario takes up to half a second, and what it says of itself is a line.  So the line
is kept, by the digests of the scenario and of the code that checked it; a scenario with
mistakes is checked each time, and refused as ever.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from powercut.cli import completion as complete
from powercut.cli.options import json_option
from powercut.cli.output import Speaker, console_beside, write_json_object
from powercut.model.printable import parse_json
from powercut.paths import CACHE, PACKAGE, command
from powercut.scenario.expand import label
from powercut.scenario.preset import REMEDY, FlushReaches, Preset, SourceStatus

_KEPT = "scenario-lines.json"


@click.group("list")
def list_() -> None:
    """Lists the scenarios, or the presets of products, that are known by name."""


@list_.command()
@json_option("names and descriptions")
def scenarios(json_file: Path | None) -> int:
    """Lists the scenarios that are known by name: your own in scenarios/, and those shipped."""
    from powercut.cli.scenarios import known_scenarios

    known, say = known_scenarios(), Speaker(json_file)
    width = max(map(len, known))
    lines = lines_of(known, CACHE / _KEPT)
    for name, line in lines.items():
        say(f"{name:<{width}}  {line}")
    write_json_object("scenarios", {"scenarios": lines}, json_file)
    return 0


@list_.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete.presets)
@json_option("the presets")
def presets(names: Sequence[str], json_file: Path | None) -> int:
    """Lists how real products treat a guest's flush by default, or explains those named."""
    from powercut.scenario.preset import all_presets, find_preset

    chosen = [find_preset(name.partition("/")[0]) for name in names] or [*all_presets()]
    console = console_beside(json_file)
    if names:
        for number, preset in enumerate(chosen):
            if number:
                console.rule()
            print_preset(console, preset)
    else:
        print_presets(console, chosen)
    dumped = [preset.model_dump(mode="json", by_alias=True) for preset in chosen]
    write_json_object("presets", {"presets": dumped}, json_file)
    return 0


def lines_of(known: Mapping[str, Path], kept: Path) -> dict[str, str]:
    """What each scenario says of itself; in the file `kept` are those checked before.

    Raises UsageError for a scenario with mistakes.
    """
    import hashlib

    code = _code()
    before = _read(kept)
    lines, now = {}, {}
    for name, path in known.items():
        with suppress(OSError):
            key = hashlib.sha256(code + path.read_bytes()).hexdigest()
            if key in before:
                lines[name] = now[key] = before[key]
                continue
            lines[name] = now[key] = _checked(path)
            continue
        lines[name] = _checked(path)  # which says what is wrong with the file
    if now != before:
        _write(kept, now)
    return lines


def _checked(path: Path) -> str:
    from powercut.scenario.load import load_scenario

    settings = load_scenario(path).settings
    return settings.description + (" (campaign: minutes to hours)" if settings.campaign else "")


def _code() -> bytes:
    """Changes with everything that reads or checks scenarios, presets among it."""
    import hashlib

    files = [path for kind in ("*.py", "*.yaml") for path in PACKAGE.rglob(kind)]
    states = [(str(path), (at := path.stat()).st_size, at.st_mtime_ns) for path in sorted(files)]
    return hashlib.sha256(repr(states).encode()).digest()


def _read(kept: Path) -> dict[str, str]:
    """What was kept; nothing if the file is none of ours."""
    try:
        found = parse_json(kept.read_bytes())
    except (OSError, ValueError):
        return {}
    whole = isinstance(found, dict) and all(isinstance(line, str) for line in found.values())
    return found if whole else {}


def _write(kept: Path, lines: Mapping[str, str]) -> None:
    from powercut.model.errors import HostError
    from powercut.store.files import write_atomic

    with suppress(OSError, HostError):  # it only saves time
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(kept, json.dumps(lines, indent=1).encode())


# Presets for a person to read: all in a table, or one explained.

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
