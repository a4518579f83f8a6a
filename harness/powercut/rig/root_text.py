# SPDX-License-Identifier: Apache-2.0
"""What a root file system was made from, for a reader."""

from __future__ import annotations

from pathlib import Path

from powercut.machine.guest.suite_packages import suite_packages, versions_of
from powercut.scenario.settings import Parameters
from powercut.workload.port import Run, SuitePackages
from powercut.workload.table import workload_of


def packages_of(parameters: Parameters, cache: Path) -> dict[str, str]:
    """The packages of a cell's root, as `root`; nothing where it has none."""
    root = workload_of(parameters).contents(Run(bytes(16))).root
    if not isinstance(root, SuitePackages):
        return {}
    fetched = suite_packages(root.suite, root.packages, cache)
    named = versions_of(fetched, root.packages) or "essential packages alone"
    return {"root": f"Debian {root.suite}, {len(fetched)} packages: {named}"}
