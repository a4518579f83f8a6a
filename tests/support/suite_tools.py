# SPDX-License-Identifier: Apache-2.0
"""QEMU's tools of another Debian suite, unpacked, and started with that suite's libraries."""

from __future__ import annotations

import subprocess
from pathlib import Path

from powercut.paths import CACHE
from powercut_extras.suites.packages import suite_packages
from powercut_extras.suites.unpacked import library_folders, loader_of

_TOOLS = ("qemu-img", "qemu-io", "qemu-storage-daemon")


def qemu_tools(suite: str, folder: Path) -> Path:
    """A folder for PATH, made in `folder`, with those tools that the suite's qemu-utils has.

    Packages are fetched once, and kept in the cache.
    """
    root, programs = folder / "root", folder / "bin"
    programs.mkdir(parents=True)
    for package in suite_packages(suite, ("qemu-utils",), CACHE):
        subprocess.run(["dpkg-deb", "-x", package, root], check=True)
    loader, libraries = loader_of(root), ":".join(str(path) for path in library_folders(root))
    for tool in (root / "usr/bin" / name for name in _TOOLS):
        if tool.exists():
            start = programs / tool.name
            start.write_text(
                f'#!/bin/sh\nexec {loader} --inhibit-cache --library-path {libraries} {tool} "$@"\n'
            )
            start.chmod(0o755)
    return programs
