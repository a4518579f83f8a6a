# SPDX-License-Identifier: Apache-2.0
"""Root file systems that are unpacked on this host, for programs without a virtual machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

from powercut.disk.root_image import Ingredients, RootImage, ensure_root_folder
from powercut.machine.suites import suites
from powercut.paths import CACHE
from powercut.scenario.settings import Parameters
from powercut.workload.port import Run, SuitePackages
from powercut.workload.table import workload_of


def root_name(root: Path | SuitePackages) -> str:
    """What a root is called, for a reader."""
    if isinstance(root, SuitePackages):
        return " ".join((f"debian:{root.suite}", *sorted(root.packages)))
    return str(root)


def source_of(root: Path | SuitePackages, cache: Path = CACHE) -> Ingredients:
    """What a root is made from; its packages are fetched if need be.

    Raises UsageError for a suite that is not known, HostError with a remedy.
    """
    if isinstance(root, SuitePackages):
        return suites().packages(root.suite, root.packages, cache)
    return root


def unpacked_root(root: Path | SuitePackages, cache: Path = CACHE) -> RootImage:
    """Its folder on this host, made if need be.  Raises UsageError, HostError."""
    return ensure_root_folder(source_of(root, cache), cache)


# What a root file system was made from, for a reader.


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
