# SPDX-License-Identifier: Apache-2.0
"""The Debian packages that powercut runs: what the launcher installs, less what only builds."""

from __future__ import annotations

import os
import subprocess
from typing import Final

NEEDED: Final = (
    *("qemu-system-x86", "nbdkit", "libnbd-bin", "xfsprogs", "e2fsprogs"),
    *("kmod", "lz4", "util-linux", "mount", "ca-certificates"),
)
"""Needed by every run."""

OPTIONAL: Final = (
    *("user-mode-linux", "btrfs-progs", "f2fs-tools", "qemu-utils", "busybox-static"),
    "bubblewrap",
)
"""Without these something is missing that the doctor names."""


def installable() -> tuple[list[str], list[str]]:
    """The packages that apt offers here, and the optional ones that it does not.

    Ubuntu has no user-mode-linux.  Where apt knows none at all, it has no lists yet, or there is
    no apt: then all are offered.
    """
    offered = _offered((*NEEDED, *OPTIONAL))
    if not offered.intersection(NEEDED):
        return [*NEEDED, *OPTIONAL], []
    lacking = [name for name in OPTIONAL if name not in offered]
    return [name for name in (*NEEDED, *OPTIONAL) if name not in lacking], lacking


def missing() -> list[str]:
    """What apt offers and this host lacks, if a package that every run needs is among it."""
    names, _ = installable()
    try:
        done = subprocess.run(
            ["dpkg-query", "--show", "--showformat", "${Package} ${db:Status-Status}\n", *names],
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return []  # another distribution
    there = {line.split()[0] for line in done.stdout.splitlines() if line.endswith(" installed")}
    return [name for name in names if name not in there] if set(NEEDED) - there else []


def _offered(names: tuple[str, ...]) -> set[str]:
    """Those for which `apt-cache policy` names a version to install."""
    try:
        done = subprocess.run(
            ["apt-cache", "policy", *names],
            capture_output=True,
            text=True,
            check=False,
            env=dict(os.environ, LC_ALL="C"),
        )
    except OSError:
        return set()
    offered, name = set(), ""
    for line in done.stdout.splitlines():
        if not line.startswith(" "):
            name = line.rstrip(":")
        elif line.strip().startswith("Candidate:") and "(none)" not in line:
            offered.add(name)
    return offered
