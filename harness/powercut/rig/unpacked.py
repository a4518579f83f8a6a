# SPDX-License-Identifier: Apache-2.0
"""Root file systems that are unpacked on this host, for programs without a virtual machine."""

from __future__ import annotations

from pathlib import Path

from powercut.carried import root_of
from powercut.disk.root_image import RootImage, RootSource, ensure_root_folder
from powercut.machine.guest.suite_packages import suite_packages
from powercut.paths import CACHE
from powercut.workload.port import SuitePackages


def root_name(root: Path | SuitePackages) -> str:
    """What a root is called by whoever carries it elsewhere."""
    if isinstance(root, SuitePackages):
        return " ".join((f"debian:{root.suite}", *sorted(root.packages)))
    return str(root)


def source_of(root: Path | SuitePackages, cache: Path = CACHE) -> RootSource:
    """What a root is made from; its packages are fetched if need be.  Or what was carried here.

    Raises UsageError for a suite that is not known, HostError with a remedy.
    """
    carried = root_of(root_name(root))
    if carried is not None:
        return carried
    if isinstance(root, SuitePackages):
        return suite_packages(root.suite, root.packages, cache)
    return root


def unpacked_root(root: Path | SuitePackages, cache: Path = CACHE) -> RootImage:
    """Its folder on this host, made if need be.  Raises UsageError, HostError."""
    return ensure_root_folder(source_of(root, cache), cache)
