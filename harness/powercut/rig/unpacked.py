# SPDX-License-Identifier: Apache-2.0
"""Root file systems that are unpacked on this host, for programs without a virtual machine."""

from __future__ import annotations

from pathlib import Path

from powercut.disk.root_image import Ingredients, RootImage, ensure_root_folder
from powercut.machine.suites import suites
from powercut.paths import CACHE
from powercut.workload.port import SuitePackages


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
