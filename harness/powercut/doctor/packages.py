# SPDX-License-Identifier: Apache-2.0
"""The Debian packages that powercut runs: what the launcher installs, less what only builds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from powercut.model.errors import HostError

APT_INSTALL: Final = ("apt-get", "-q", "-y", "install", "--no-install-recommends")
_LISTS: Final = Path("/var/lib/apt/lists")

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


UML: Final = "user-mode-linux"
KEYRING: Final = "debian-archive-keyring"
"""Where apt has no User-Mode Linux, Debian's is fetched, whose key this is."""


def installable() -> tuple[list[str], list[str]]:
    """The packages that apt offers here, and the optional ones that it does not.

    Ubuntu has no user-mode-linux, and gets the key by which Debian's is fetched.  Where apt knows
    none at all, it has no lists yet, or there is no apt: then all are offered.
    """
    offered = _offered((*NEEDED, *OPTIONAL))
    if not offered.intersection(NEEDED):
        return [*NEEDED, *OPTIONAL], []
    lacking = [name for name in OPTIONAL if name not in offered]
    instead = (KEYRING,) if UML in lacking else ()
    return [name for name in (*NEEDED, *OPTIONAL) if name not in lacking] + [*instead], lacking


def missing() -> list[str]:
    """What apt offers and this host lacks, if a package that every run needs is among it."""
    names = lacking()
    return names if set(NEEDED).intersection(names) else []


def lacking() -> list[str]:
    """What apt offers and this host lacks."""
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
    return [name for name in names if name not in there]


def install() -> None:
    """Installs what apt offers and this host lacks, as root or with sudo; what apt says is seen.

    Raises HostError.
    """
    if shutil.which("apt-get") is None:
        raise HostError("there is no apt-get here", hint=f"install {', '.join(NEEDED)}")
    as_root = [] if os.geteuid() == 0 else ["sudo"]
    if not any(_LISTS.glob("*_Packages*")):
        _run([*as_root, "apt-get", "-q", "update"])
    if names := lacking():
        _run([*as_root, *APT_INSTALL, *names])


def _run(argv: list[str]) -> None:
    sys.stderr.write(f"+ {' '.join(argv)}\n")
    sys.stderr.flush()
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    done = subprocess.run(argv, stdout=sys.stderr, check=False, env=environment)
    if done.returncode:
        raise HostError(f"{argv[0]} ended with status {done.returncode}", hint=" ".join(argv))


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
