# SPDX-License-Identifier: Apache-2.0
"""Where things are: built parts, scenarios, the cache, results.

In a checkout everything lies in the checkout; where that is another user's or read-only, images
are made in the user's own cache.  Installed with pip, what the wheel carries (built
parts, scenarios, example programs) lies in the package and is only read; images are made in
the user's cache, and results land in the folder that the user is in.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Final

from powercut.model.errors import UsageError

PACKAGE: Final = Path(__file__).resolve().parent

SHIPPED: Final = PACKAGE / "_shipped"
"""What a wheel carries beside the modules (setup.py puts it there); not there in a checkout."""

INSTALLED: Final = SHIPPED.is_dir()
"""Whether this is an installed wheel and not a checkout."""

ROOT: Final = SHIPPED if INSTALLED else PACKAGE.parents[1]
"""The checkout; of a wheel the folder that has the same things at the same places."""


def expanded(path: str | Path) -> Path:
    """`path`, its ~ or ~USER replaced; a user without a home has /, as in containers.

    Raises UsageError for a USER without one.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        first, *rest = Path(path).parts
        if first == "~":
            return Path("/", *rest)
        raise UsageError(
            f"{path}: no user {first[1:]} has a home on this host", hint="write the path in full"
        ) from None


def user_folder(variable: str, usual: str) -> Path:
    """A folder of this user's (XDG Base Directory Specification): `variable`, else `usual`."""
    given = os.environ.get(variable, "")
    return Path(given) if given.startswith("/") else expanded(usual)


def _inside(folder: Path) -> bool:
    try:
        return Path.cwd().is_relative_to(folder)
    except FileNotFoundError:  # a folder that has been removed
        return False


def _may_write(folder: Path) -> bool:
    """Whether this user may make files in `folder`, or make the folder."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    return os.access(there, os.W_OK | os.X_OK)


def _build() -> Path:
    """A checkout's own folder, unless that belongs to another user or is read-only."""
    given = os.environ.get("POWERCUT_BUILD")
    if given:
        return Path(given)
    own = ROOT / "build"
    if INSTALLED or not _may_write(own):
        return user_folder("XDG_CACHE_HOME", "~/.cache") / "powercut"
    return own


BUILD: Final = _build()
"""Where guest images are made, and usually the built parts.  Safe to delete."""

CACHE: Final = Path(os.environ.get("POWERCUT_CACHE") or BUILD / "cache")
"""Formatted base images and guest templates, by the hash of what made them.  Safe to delete."""

PARTS: Final = (
    SHIPPED / "parts" if INSTALLED else Path(os.environ.get("POWERCUT_BUILD") or ROOT / "build")
)
"""What is built from C: `bin/`, `lib/`, the capture plugin."""

SCENARIOS: Final = ROOT / "scenarios"
"""The scenarios that powercut brings."""

PROGRAMS: Final = ROOT / "workloads" / "programs"
"""The databases under test that powercut brings."""

EXAMPLES: Final = ROOT / "workloads" / "examples"
"""Example programs, and the module that programs in Python import."""

DRIVERS: Final = ROOT / "build" / "programs"
"""Where workloads/programs/build.sh leaves what programs in PROGRAMS start."""

RESULTS: Final = ROOT / "results" if not INSTALLED and _inside(ROOT) else Path("results")
"""Where runs land by default: in the folder that the caller is in, or in the checkout around it."""

NOT_WRITABLE: Final = (
    "results go elsewhere with --results DIR; guest images and caches with POWERCUT_BUILD=DIR"
)
"""What to do about a folder that this user may not write to."""

WAL_BINARY: Final = PARTS / "bin" / "wal"
UNSYNCED_BINARY: Final = PARTS / "bin" / "unsynced"
CLIENT_BINARY: Final = PARTS / "bin" / "powercut-client"
CAPTURE_PLUGIN: Final = PARTS / "nbdkit-capture-plugin.so"

REBUILD: Final = (
    "pip install --force-reinstall powercut brings it"
    if INSTALLED
    else "./powercut in the checkout builds it"
)
"""What to do about a built part that is missing or does not load."""


def launcher() -> str:
    """The program itself: what may be called from any folder."""
    if not INSTALLED:
        return str(ROOT / "powercut")
    beside = Path(sys.executable).parent / "powercut"
    return str(beside) if beside.exists() else "powercut"


def command() -> str:
    """How this powercut is called from the folder that the caller is in."""
    if INSTALLED:
        return "powercut" if shutil.which("powercut") else shlex.quote(launcher())
    return "./powercut" if Path.cwd() == ROOT else shlex.quote(launcher())


def from_here(path: Path) -> Path:
    """`path` as the caller would write it: relative if it lies below the current folder."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def as_word(path: Path) -> str:
    """`path` as the caller would type it in a command."""
    return shlex.quote(str(from_here(path)))
