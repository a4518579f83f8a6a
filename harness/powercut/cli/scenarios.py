# SPDX-License-Identifier: Apache-2.0
"""Which scenarios a command line means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from powercut.model.errors import UsageError
from powercut.model.named_path import files_below
from powercut.paths import SCENARIOS

if TYPE_CHECKING:
    from powercut.scenario.load import Scenario

_NEAR = 3
"""How many scenarios an error names."""


def chosen_scenarios(scenarios: Sequence[str], presets: Sequence[str]) -> list[Scenario]:
    """The scenarios that were asked for; with presets, none but these two kinds."""
    from powercut.scenario.load import load_scenario, preset_scenario

    paths = find_scenarios(scenarios) if scenarios or not presets else []
    made = [preset_scenario(presets)] if presets else []
    return [*(load_scenario(path) for path in paths), *made]


def find_scenarios(given: Sequence[str]) -> list[Path]:
    """The files that `given` means; first-light if it is empty.  Raises UsageError."""
    if not given:
        return [_by_name("first-light")]
    paths: list[Path] = []
    for text in given:
        path = Path(text)
        if path.is_dir():
            files = files_below(path, "*.yaml")
            if not files:
                raise UsageError(f"{path}: there is no scenario (*.yaml) in this folder")
            paths += files
        elif path.is_file():
            paths.append(path)
        else:
            paths.append(_by_name(text))
    return paths


def _by_name(text: str) -> Path:
    import difflib

    known = known_scenarios()
    if text in known:
        return known[text]
    near = difflib.get_close_matches(Path(text).stem, known, n=_NEAR, cutoff=0.4)
    raise UsageError(
        f"{text}: there is no such file or scenario"
        + (f"; did you mean {', '.join(near)}?" if near else ""),
        hint="`powercut list scenarios` lists those that are known by name",
    )


def known_scenarios() -> dict[str, Path]:
    """Scenarios by their names: those that are shipped, then the caller's own, which win."""
    folders = dict.fromkeys((SCENARIOS, Path("scenarios").resolve()))
    return {path.stem: path for folder in folders for path in files_below(folder, "*.yaml")}


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
