# SPDX-License-Identifier: Apache-2.0
"""Packages of a Debian suite, with all that they need, for a root file system of a program's own.

    CACHE/roots/packages/SUITE/NAME_VERSION_amd64.deb
                              /DIGEST.json    a list of packages that was asked for, and its files
                              /lock

A list that is there is used as it is, so that a night's run has the versions of the run before
and needs no network: to get newer ones, delete the suite's folder.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from powercut.machine.tool import locked
from powercut_extras.suites.apt import SuiteApt
from powercut_extras.suites.unpacked import suite_folder

_BASE: Final = "?essential"  # apt-patterns(7): what Debian's packages may take for granted
_TIMEOUT_S: Final = 900.0


def suite_packages(suite: str, names: Sequence[str], cache: Path) -> tuple[Path, ...]:
    """The files of `names`, of what they depend on, and of the suite's essential packages.

    Fetched by apt where they are not there, without root's rights and without touching the host.
    Raises UsageError for a suite that powercut does not know, HostError with a remedy, or
    DeadlineExceeded.
    """
    deadline = time.monotonic() + _TIMEOUT_S
    source = suite_folder(suite) / "apt"
    folder = cache / "roots" / "packages" / suite
    asked = sorted(set(names))
    about = folder / f"{hashlib.sha256(json.dumps(asked).encode()).hexdigest()}.json"
    found = _cached(about)
    if found is not None:
        return found
    doing = f"fetching packages of {suite}"
    with locked(folder / "lock", deadline=deadline, doing=doing):
        found = _cached(about)
        if found is not None:
            return found
        with locked(source.parent / "lock", deadline=deadline, doing=doing):
            _offer(folder, source / "archives")
            debs = SuiteApt(suite, source).download_closure([_BASE, *asked], deadline=deadline)
            kept = tuple(deb.rename(folder / deb.name) for deb in sorted(debs))
        new = about.with_suffix(".new")
        new.write_text(json.dumps({"asked": asked, "files": [deb.name for deb in kept]}, indent=1))
        new.rename(about)
    return kept


def _offer(folder: Path, archives: Path) -> None:
    """Shows apt what was fetched for other lists."""
    archives.mkdir(parents=True, exist_ok=True)
    for deb in folder.glob("*.deb"):
        with suppress(FileExistsError):
            (archives / deb.name).hardlink_to(deb)


def _cached(about: Path) -> tuple[Path, ...] | None:
    """The files of a list that was fetched; None if one of them is not there."""
    try:
        names = json.loads(about.read_text())["files"]
        files = tuple(about.parent / Path(str(name)).name for name in names)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return files if files and all(file.is_file() for file in files) else None
