# SPDX-License-Identifier: Apache-2.0
"""Which scenarios a command line means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from powercut.model.errors import UsageError
from powercut.paths import SCENARIOS

if TYPE_CHECKING:
    from powercut.scenario.load import Scenario


def chosen_scenarios(scenarios: Sequence[str], presets: Sequence[str]) -> list[Scenario]:
    """The scenarios that were asked for; with presets, none but these two kinds."""
    from powercut.scenario.load import load_scenario, preset_scenario

    paths = find_scenarios(scenarios) if scenarios or not presets else []
    made = [preset_scenario(presets)] if presets else []
    return [*(load_scenario(path) for path in paths), *made]


def find_scenarios(given: Sequence[str]) -> list[Path]:
    """The files that `given` means; first-light if it is empty.  Raises UsageError."""
    if not given:
        return [SCENARIOS / "first-light.yaml"]
    found: list[Path] = []
    for text in given:
        path = Path(text)
        if path.is_dir():
            files = sorted(path.rglob("*.yaml"))
            if not files:
                raise UsageError(f"{path}: there is no scenario (*.yaml) in this folder")
            found += files
        elif path.is_file():
            found.append(path)
        else:
            found.append(_by_name(text))
    return found


def _by_name(text: str) -> Path:
    import difflib

    known = {path.stem: path for path in sorted(SCENARIOS.rglob("*.yaml"))}
    if text in known:
        return known[text]
    near = difflib.get_close_matches(Path(text).stem, known, n=1)
    raise UsageError(
        f"{text}: there is no such scenario" + (f"; did you mean {near[0]}?" if near else ""),
        hint=f"known by name: {', '.join(known)}",
    )


def at_versions(
    scenarios: Iterable[Scenario], qemus: Sequence[str], kernels: Sequence[str]
) -> list[Scenario]:
    """The scenarios with these versions as axes.  Raises UsageError for one that is none."""
    from powercut.scenario.axes import with_axes

    axes = {
        "machine.qemu": [_absolute(qemu) for qemu in qemus],
        "machine.kernel": [_absolute(kernel) for kernel in kernels],
    }
    return [with_axes(scenario, axes) for scenario in scenarios]


def _absolute(version: str) -> str:
    """A path may be relative on the command line; what is kept of it is not."""
    return str(Path(version).absolute()) if "/" in version else version
