# SPDX-License-Identifier: Apache-2.0
"""Names for places in programs: addr2line's, where binutils are installed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from powercut.model.errors import PowercutError
from powercut.sandbox.confined import find_tool, run_confined

_TOOL: Final = "addr2line"
_TIMEOUT_S: Final = 60.0
_NO_NAME: Final = "??"
_MAIN_FILE: Final = 2

Place = tuple[str, int]
"""A file, and an address as its symbols have it."""


def name_places(places: Iterable[Place]) -> dict[Place, str]:
    """`function (file:line)` or `function` for each place of which symbols know something.

    The address after a call names the call.  Nothing is known, and nothing raised, where there is
    no addr2line, no sandbox for it, or no symbols.
    """
    by_module: dict[str, list[int]] = {}
    for module, address in dict.fromkeys(places):
        by_module.setdefault(module, []).append(address)
    names: dict[Place, str] = {}
    for module, addresses in by_module.items():
        if Path(module).is_file() and find_tool(_TOOL) is not None:
            told = _ask(Path(module), addresses)
            names |= {
                (module, address): name
                for address, name in zip(addresses, told, strict=False)
                if name
            }
    return names


def _ask(module: Path, addresses: list[int]) -> list[str]:
    """A name for each address, empty where there is none."""
    before = [f"{max(address - 1, 0):#x}" for address in addresses]
    argv = [_TOOL, "-f", "-C", "-s", "-e", str(module), *before]
    try:
        done = run_confined(argv, timeout_s=_TIMEOUT_S, reads=[module])
    except PowercutError:
        return []
    lines = done.stdout.splitlines()
    if done.returncode or len(lines) != _MAIN_FILE * len(addresses):
        return []
    return [_name(function, place) for function, place in zip(lines[::2], lines[1::2], strict=True)]


def _name(function: str, place: str) -> str:
    if function == _NO_NAME:
        return ""
    place = place.partition(" (")[0]  # "(discriminator 3)"
    return function if place.startswith("?") or place.endswith("?") else f"{function} ({place})"
