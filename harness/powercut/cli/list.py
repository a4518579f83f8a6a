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

import click

from powercut.cli import completion as complete
from powercut.cli.options import json_option
from powercut.cli.output import Speaker, console_beside, write_json_object
from powercut.model.printable import parse_json
from powercut.paths import CACHE, PACKAGE

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
    from powercut.report.terminal.presets import print_preset, print_presets
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
