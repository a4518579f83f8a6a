# SPDX-License-Identifier: Apache-2.0
"""What a root file system was made from, for a reader."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

from powercut.machine.suites import suites
from powercut.scenario.settings import Parameters
from powercut.workload.port import Run, SuitePackages
from powercut.workload.table import workload_of


def packages_of(parameters: Parameters, cache: Path) -> dict[str, str]:
    """The packages of a cell's root, as `root`; nothing where it has none."""
    root = workload_of(parameters).contents(Run(bytes(16))).root
    if not isinstance(root, SuitePackages):
        return {}
    fetched = suites().packages(root.suite, root.packages, cache)
    named = _versions_of(fetched, root.packages) or "essential packages alone"
    return {"root": f"Debian {root.suite}, {len(fetched)} packages: {named}"}


def _versions_of(files: Sequence[Path], names: Sequence[str]) -> str:
    """The versions of `names` among `files`, for a reader: "python3 3.11.2-1+b1, ..."."""
    found = {}
    for file in files:
        name, _, rest = file.name.partition("_")
        found[name] = unquote(rest.rpartition("_")[0])
    return ", ".join(f"{name} {found[name]}" for name in names if name in found)
